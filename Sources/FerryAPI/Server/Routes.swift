internal import FerryCore
internal import HTTPServer

/// One operation of the API.
struct Route: Sendable {
    /// What a body may be.
    enum BodyRule: Sendable, Equatable {
        /// None is read; up to 64 KiB are dropped.
        case none
        /// Gathered, up to so many bytes.
        case upTo(Int)

        var limit: Int {
            switch self {
            case .none: 65_536
            case .upTo(let count): count
            }
        }
    }
    let operation: Operation
    let method: String
    /// `/v1/jobs/{id}`.
    let pattern: String
    /// The least role; nil: open to everyone.
    let role: Role?
    let body: BodyRule
    let handle: @Sendable (API) -> @Sendable (RequestContext) -> Void

    init(
        _ operation: Operation, _ method: String, _ pattern: String, _ role: Role?, _ body: BodyRule = .none,
        handle: @escaping @Sendable (API) -> @Sendable (RequestContext) -> Void
    ) {
        self.operation = operation
        self.method = method
        self.pattern = pattern
        self.role = role
        self.body = body
        self.handle = handle
    }
}

/// `operationId` in the OpenAPI document, and the label of metrics.
enum Operation: String, Sendable, CaseIterable {
    case submitJob, submitJobs, listJobs, readJob, editJob, deleteJob, cancelJob, suspendJob, resumeJob,
        acknowledgeJob, retryJob, answerBegin, answerRedirect, answerChallenge, readContent, readAttempts
    case listSessions, readSession, putSession, deleteSession, listSessionJobs,
        invalidateSession
    case listDeliveries, readDelivery, redeliver
    case listEvents, listJobEvents
    case createWebhook, listWebhooks, readWebhook, editWebhook, deleteWebhook, rotateSecret, testWebhook,
        replayDeliveries, listWebhookDeliveries
    case readWindows, changeWindows
    case createSchedule, listSchedules, readSchedule, replaceSchedule, deleteSchedule, runSchedule,
        pauseSchedule, resumeSchedule
    case readStatus, listNodes, readLimits, changeLimits, createKey, listKeys, readKey, revokeKey
    case pauseService, resumeService, drainNode, resumeNode, listTenants, listAudit
    case listHosts, readHost, changeHost
    case live, ready, metrics, openapi, docs
}

/// The whole surface: the router and the OpenAPI document are both made of this.
let routes: [Route] = jobRoutes + scheduleRoutes + operatorRoutes

private let jobRoutes: [Route] = [
    Route(.submitJob, "POST", "/v1/jobs", .client, .upTo(Limits.submissionByteCountMax)) { $0.submitJob },
    Route(.submitJobs, "POST", "/v1/jobs/batch", .client, .upTo(Limits.batchByteCountMax)) { $0.submitJobs },
    Route(.listJobs, "GET", "/v1/jobs", .viewer) { $0.listJobs },
    Route(.readJob, "GET", "/v1/jobs/{id}", .viewer) { $0.readJob },
    Route(.editJob, "PATCH", "/v1/jobs/{id}", .client, .upTo(Limits.submissionByteCountMax)) { $0.editJob },
    Route(.deleteJob, "DELETE", "/v1/jobs/{id}", .client) { $0.deleteJob },
    Route(.cancelJob, "POST", "/v1/jobs/{id}/cancel", .client, .upTo(4_096)) { $0.cancelJob },
    Route(.suspendJob, "POST", "/v1/jobs/{id}/suspend", .client, .upTo(4_096)) { $0.suspendJob },
    Route(.resumeJob, "POST", "/v1/jobs/{id}/resume", .client, .upTo(4_096)) { $0.resumeJob },
    Route(.acknowledgeJob, "POST", "/v1/jobs/{id}/acknowledge", .client, .upTo(4_096)) {
        $0.acknowledgeJob
    },
    Route(.retryJob, "POST", "/v1/jobs/{id}/retry", .client, .upTo(4_096)) { $0.retryJob },
    Route(.answerBegin, "POST", "/v1/jobs/{id}/begin", .client, .upTo(Limits.answerByteCountMax)) {
        $0.answerBegin
    },
    Route(.answerRedirect, "POST", "/v1/jobs/{id}/redirect", .client, .upTo(Limits.answerByteCountMax)) {
        $0.answerRedirect
    },
    Route(.answerChallenge, "POST", "/v1/jobs/{id}/challenge", .client, .upTo(Limits.answerByteCountMax)) {
        $0.answerChallenge
    },
    Route(.readContent, "GET", "/v1/jobs/{id}/content", .viewer) { $0.readContent },
    Route(.readAttempts, "GET", "/v1/jobs/{id}/attempts", .viewer) { $0.readAttempts },
    Route(.listSessions, "GET", "/v1/sessions", .viewer) { $0.listSessions },
    Route(.readSession, "GET", "/v1/sessions/{id}", .viewer) { $0.readSession },
    Route(.putSession, "PUT", "/v1/sessions/{id}", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.putSession
    },
    Route(.deleteSession, "DELETE", "/v1/sessions/{id}", .client) { $0.deleteSession },
    Route(.listSessionJobs, "GET", "/v1/sessions/{id}/jobs", .viewer) { $0.listSessionJobs },
    Route(.invalidateSession, "POST", "/v1/sessions/{id}/invalidate", .client, .upTo(4_096)) {
        $0.invalidateSession
    },
    Route(.listEvents, "GET", "/v1/events", .viewer) { $0.listEvents },
    Route(.listJobEvents, "GET", "/v1/jobs/{id}/events", .viewer) { $0.listJobEvents },
    Route(.listDeliveries, "GET", "/v1/jobs/{id}/deliveries", .viewer) { $0.listDeliveries },
    Route(.readDelivery, "GET", "/v1/deliveries/{id}", .viewer) { $0.readDelivery },
    Route(.redeliver, "POST", "/v1/deliveries/{id}/redeliver", .client, .upTo(4_096)) { $0.redeliver },
    Route(.createWebhook, "POST", "/v1/webhooks", .client, .upTo(Limits.webhookByteCountMax)) {
        $0.createWebhook
    },
    Route(.listWebhooks, "GET", "/v1/webhooks", .viewer) { $0.listWebhooks },
    Route(.readWebhook, "GET", "/v1/webhooks/{id}", .viewer) { $0.readWebhook },
    Route(.editWebhook, "PATCH", "/v1/webhooks/{id}", .client, .upTo(Limits.webhookByteCountMax)) {
        $0.editWebhook
    },
    Route(.deleteWebhook, "DELETE", "/v1/webhooks/{id}", .client) { $0.deleteWebhook },
    Route(.rotateSecret, "POST", "/v1/webhooks/{id}/rotate_secret", .client, .upTo(4_096)) {
        $0.rotateSecret
    },
    Route(.testWebhook, "POST", "/v1/webhooks/{id}/test", .client, .upTo(4_096)) { $0.testWebhook },
    Route(.replayDeliveries, "POST", "/v1/webhooks/{id}/replay", .client, .upTo(4_096)) {
        $0.replayDeliveries
    },
    Route(.listWebhookDeliveries, "GET", "/v1/webhooks/{id}/deliveries", .viewer) {
        $0.listWebhookDeliveries
    },
]

private let scheduleRoutes: [Route] = [
    Route(.createSchedule, "POST", "/v1/schedules", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.createSchedule
    },
    Route(.listSchedules, "GET", "/v1/schedules", .viewer) { $0.listSchedules },
    Route(.readSchedule, "GET", "/v1/schedules/{id}", .viewer) { $0.readSchedule },
    Route(.replaceSchedule, "PUT", "/v1/schedules/{id}", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.replaceSchedule
    },
    Route(.deleteSchedule, "DELETE", "/v1/schedules/{id}", .client) { $0.deleteSchedule },
    Route(.runSchedule, "POST", "/v1/schedules/{id}/run", .client, .upTo(4_096)) { $0.runSchedule },
    Route(.pauseSchedule, "POST", "/v1/schedules/{id}/pause", .client, .upTo(4_096)) { $0.pauseSchedule },
    Route(.resumeSchedule, "POST", "/v1/schedules/{id}/resume", .client, .upTo(4_096)) { $0.resumeSchedule },
]

private let operatorRoutes: [Route] = [
    Route(.readStatus, "GET", "/v1/admin/status", .admin) { $0.readStatus },
    Route(.listNodes, "GET", "/v1/admin/nodes", .admin) { $0.listNodes },
    Route(.readLimits, "GET", "/v1/admin/limits", .admin) { $0.readLimits },
    Route(.changeLimits, "PATCH", "/v1/admin/limits", .admin, .upTo(4_096)) { $0.changeLimits },
    Route(.listHosts, "GET", "/v1/admin/hosts", .admin) { $0.listHosts },
    Route(.readHost, "GET", "/v1/admin/hosts/{host}", .admin) { $0.readHost },
    Route(.changeHost, "PATCH", "/v1/admin/hosts/{host}", .admin, .upTo(4_096)) { $0.changeHost },
    Route(.readWindows, "GET", "/v1/admin/windows", .admin) { $0.readWindows },
    Route(.changeWindows, "PATCH", "/v1/admin/windows", .admin, .upTo(65_536)) { $0.changeWindows },
    Route(.createKey, "POST", "/v1/admin/keys", .admin, .upTo(4_096)) { $0.createKey },
    Route(.listKeys, "GET", "/v1/admin/keys", .admin) { $0.listKeys },
    Route(.readKey, "GET", "/v1/admin/keys/{id}", .admin) { $0.readKey },
    Route(.revokeKey, "DELETE", "/v1/admin/keys/{id}", .admin) { $0.revokeKey },
    Route(.pauseService, "POST", "/v1/admin/pause", .admin, .upTo(4_096)) { $0.pauseService },
    Route(.resumeService, "POST", "/v1/admin/resume", .admin, .upTo(4_096)) { $0.resumeService },
    Route(.drainNode, "POST", "/v1/admin/nodes/{id}/drain", .admin, .upTo(4_096)) { $0.drainNode },
    Route(.resumeNode, "POST", "/v1/admin/nodes/{id}/resume", .admin, .upTo(4_096)) { $0.resumeNode },
    Route(.listTenants, "GET", "/v1/admin/tenants", .admin) { $0.listTenants },
    Route(.listAudit, "GET", "/v1/admin/audit", .admin) { $0.listAudit },
    Route(.live, "GET", "/livez", nil) { $0.live },
    Route(.ready, "GET", "/readyz", nil) { $0.ready },
    Route(.metrics, "GET", "/metrics", .viewer) { $0.metrics },
    Route(.openapi, "GET", "/openapi.json", nil) { $0.openapi },
    Route(.docs, "GET", "/docs", nil) { $0.docs },
]
