internal import FerryCore
internal import HTTPServer

/// One operation of the API.
struct Route: Sendable {
    typealias Handler = @Sendable (RequestContext) throws(Problem) -> Void
    /// Rule by which the body of a request is read.
    enum BodyRule: Sendable, Equatable {
        /// Up to 64 KiB are read and dropped.
        case none
        /// Up to this many bytes are collected.
        case upTo(Int)
        /// The body is passed on as it arrives (`API.stream`), and is not collected.
        case stream

        var limit: Int {
            switch self {
            case .none: 65_536
            case .upTo(let count): count
            case .stream: 0
            }
        }
    }
    let operation: Operation
    let method: String
    /// `/v1/jobs/{id}`.
    let pattern: String
    /// The lowest role that may call it; `nil` if no key is needed.
    let role: Role?
    let body: BodyRule
    /// Returns the handler. A problem that it throws is the response.
    let handler: @Sendable (Handlers) -> Handler

    init(
        _ operation: Operation, _ method: String, _ pattern: String, _ role: Role?, _ body: BodyRule = .none,
        handler: @escaping @Sendable (Handlers) -> Handler
    ) {
        self.operation = operation
        self.method = method
        self.pattern = pattern
        self.role = role
        self.body = body
        self.handler = handler
    }
}

/// `operationId` in the OpenAPI document, and the label of metrics.
enum Operation: String, Sendable, CaseIterable {
    case submitJob, submitJobs, listJobs, summarizeJobs, readJob, editJob, deleteJob, cancelJob, suspendJob,
        resumeJob,
        acknowledgeJob, retryJob, answerBegin, answerRedirect, answerChallenge,
        answerURLExpired, readContent, readAttempts
    case suspendJobs, resumeJobs, cancelJobs, retryJobs, listBulkOperations, readBulkOperation,
        cancelBulkOperation
    case listSessions, readSession, putSession, deleteSession, listSessionJobs,
        invalidateSession, resetSession, flushSession, listCookies, replaceCookies, addCookies, deleteCookies
    case listCredentials, readCredential, putCredential, deleteCredential
    case listDeliveries, readDelivery, redeliver
    case listEvents, listJobEvents
    case createWebhook, listWebhooks, readWebhook, editWebhook, deleteWebhook, rotateSecret, testWebhook,
        replayDeliveries, listWebhookDeliveries
    case readWindows, changeWindows
    case createJobGroup, listJobGroups, readJobGroup, closeJobGroup, deleteJobGroup, listGroupJobs,
        suspendJobGroup, resumeJobGroup, cancelJobGroup, retryJobGroup, listJobGroupEvents
    case createUpload, listUploads, putUpload, readUpload, continueUpload, deleteUpload, readUploadContent
    case createSchedule, listSchedules, readSchedule, replaceSchedule, deleteSchedule, runSchedule,
        pauseSchedule, resumeSchedule
    case readStatus, listNodes, readLimits, changeLimits, createKey, listKeys, readKey, revokeKey
    case pauseService, resumeService, drainNode, resumeNode, listTenants, readTenantLimits,
        replaceTenantLimits, listAudit, readContentStore, acceptContentStore
    case listHosts, readHost, changeHost
    case live, ready, metrics, openapi, docs
}

/// All operations. The router and the OpenAPI document are both made from this table.
let routes: [Route] =
    jobRoutes + credentialRoutes + groupRoutes + uploadRoutes + bulkRoutes + scheduleRoutes + operatorRoutes

private let jobRoutes: [Route] = [
    Route(.submitJob, "POST", "/v1/jobs", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.jobCreation.create
    },
    Route(.submitJobs, "POST", "/v1/jobs/batch", .client, .upTo(Limits.batchByteCountMax)) {
        $0.batchCreation.create
    },
    Route(.listJobs, "GET", "/v1/jobs", .viewer) { $0.jobListing.list },
    Route(.summarizeJobs, "GET", "/v1/jobs/summary", .viewer) { $0.jobListing.summarize },
    Route(.readJob, "GET", "/v1/jobs/{id}", .viewer) { $0.jobReading.read },
    Route(.editJob, "PATCH", "/v1/jobs/{id}", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.jobCommands.edit
    },
    Route(.deleteJob, "DELETE", "/v1/jobs/{id}", .client) { $0.jobCommands.delete },
    Route(.cancelJob, "POST", "/v1/jobs/{id}/cancel", .client, .upTo(4_096)) { $0.jobCommands.cancel },
    Route(.suspendJob, "POST", "/v1/jobs/{id}/suspend", .client, .upTo(4_096)) { $0.jobCommands.suspend },
    Route(.resumeJob, "POST", "/v1/jobs/{id}/resume", .client, .upTo(4_096)) { $0.jobCommands.resume },
    Route(.acknowledgeJob, "POST", "/v1/jobs/{id}/acknowledge", .client, .upTo(4_096)) {
        $0.jobCommands.acknowledge
    },
    Route(.retryJob, "POST", "/v1/jobs/{id}/retry", .client, .upTo(4_096)) { $0.jobRetry.retry },
    Route(.answerBegin, "POST", "/v1/jobs/{id}/begin", .client, .upTo(Limits.answerByteCountMax)) {
        $0.jobAnswers.begin
    },
    Route(.answerRedirect, "POST", "/v1/jobs/{id}/redirect", .client, .upTo(Limits.answerByteCountMax)) {
        $0.jobAnswers.redirect
    },
    Route(.answerChallenge, "POST", "/v1/jobs/{id}/challenge", .client, .upTo(Limits.answerByteCountMax)) {
        $0.jobAnswers.challenge
    },
    Route(.answerURLExpired, "POST", "/v1/jobs/{id}/url_expired", .client, .upTo(Limits.answerByteCountMax)) {
        $0.jobAnswers.urlExpired
    },
    Route(.readContent, "GET", "/v1/jobs/{id}/content", .viewer) { $0.content.read },
    Route(.readAttempts, "GET", "/v1/jobs/{id}/attempts", .viewer) { $0.jobReading.readAttempts },
    Route(.listSessions, "GET", "/v1/sessions", .viewer) { $0.sessions.list },
    Route(.readSession, "GET", "/v1/sessions/{id}", .viewer) { $0.sessions.read },
    Route(.putSession, "PUT", "/v1/sessions/{id}", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.sessions.put
    },
    Route(.deleteSession, "DELETE", "/v1/sessions/{id}", .client) { $0.sessions.delete },
    Route(.listSessionJobs, "GET", "/v1/sessions/{id}/jobs", .viewer) { $0.jobListing.listOfSession },
    Route(.invalidateSession, "POST", "/v1/sessions/{id}/invalidate", .client, .upTo(4_096)) {
        $0.sessions.invalidate
    },
    Route(.resetSession, "POST", "/v1/sessions/{id}/reset", .client, .upTo(4_096)) { $0.cookies.reset },
    Route(.flushSession, "POST", "/v1/sessions/{id}/flush", .client, .upTo(4_096)) { $0.cookies.flush },
    Route(.listCookies, "GET", "/v1/sessions/{id}/cookies", .viewer) { $0.cookies.list },
    Route(.replaceCookies, "PUT", "/v1/sessions/{id}/cookies", .client, .upTo(Limits.cookieListByteCountMax))
    {
        $0.cookies.replace
    },
    Route(.addCookies, "POST", "/v1/sessions/{id}/cookies", .client, .upTo(Limits.cookieListByteCountMax)) {
        $0.cookies.add
    },
    Route(.deleteCookies, "DELETE", "/v1/sessions/{id}/cookies", .client) { $0.cookies.delete },
    Route(.listEvents, "GET", "/v1/events", .viewer) { $0.events.list },
    Route(.listJobEvents, "GET", "/v1/jobs/{id}/events", .viewer) { $0.events.listOfJob },
    Route(.listDeliveries, "GET", "/v1/jobs/{id}/deliveries", .viewer) { $0.deliveries.listOfJob },
    Route(.readDelivery, "GET", "/v1/deliveries/{id}", .viewer) { $0.deliveries.read },
    Route(.redeliver, "POST", "/v1/deliveries/{id}/redeliver", .client, .upTo(4_096)) {
        $0.deliveries.redeliver
    },
    Route(.createWebhook, "POST", "/v1/webhooks", .client, .upTo(Limits.webhookByteCountMax)) {
        $0.webhooks.create
    },
    Route(.listWebhooks, "GET", "/v1/webhooks", .viewer) { $0.webhooks.list },
    Route(.readWebhook, "GET", "/v1/webhooks/{id}", .viewer) { $0.webhooks.read },
    Route(.editWebhook, "PATCH", "/v1/webhooks/{id}", .client, .upTo(Limits.webhookByteCountMax)) {
        $0.webhooks.edit
    },
    Route(.deleteWebhook, "DELETE", "/v1/webhooks/{id}", .client) { $0.webhooks.delete },
    Route(.rotateSecret, "POST", "/v1/webhooks/{id}/rotate_secret", .client, .upTo(4_096)) {
        $0.webhooks.rotateSecret
    },
    Route(.testWebhook, "POST", "/v1/webhooks/{id}/test", .client, .upTo(4_096)) { $0.deliveries.test },
    Route(.replayDeliveries, "POST", "/v1/webhooks/{id}/replay", .client, .upTo(4_096)) {
        $0.deliveries.replay
    },
    Route(.listWebhookDeliveries, "GET", "/v1/webhooks/{id}/deliveries", .viewer) {
        $0.deliveries.listOfWebhook
    },
]

private let credentialRoutes: [Route] = [
    Route(.listCredentials, "GET", "/v1/sessions/{id}/credentials", .viewer) { $0.credentials.list },
    Route(.readCredential, "GET", "/v1/sessions/{id}/credentials/{credential}", .viewer) {
        $0.credentials.read
    },
    Route(
        .putCredential, "PUT", "/v1/sessions/{id}/credentials/{credential}", .client,
        .upTo(Limits.credentialByteCountMax)
    ) { $0.credentials.put },
    Route(.deleteCredential, "DELETE", "/v1/sessions/{id}/credentials/{credential}", .client) {
        $0.credentials.delete
    },
]

private let groupRoutes: [Route] = [
    Route(.createJobGroup, "POST", "/v1/job_groups", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.groups.create
    },
    Route(.listJobGroups, "GET", "/v1/job_groups", .viewer) { $0.groups.list },
    Route(.readJobGroup, "GET", "/v1/job_groups/{name}", .viewer) { $0.groups.read },
    Route(.closeJobGroup, "POST", "/v1/job_groups/{name}/close", .client, .upTo(4_096)) { $0.groups.close },
    Route(.deleteJobGroup, "DELETE", "/v1/job_groups/{name}", .client) { $0.groups.delete },
    Route(.listGroupJobs, "GET", "/v1/job_groups/{name}/jobs", .viewer) { $0.jobListing.listOfGroup },
    Route(.listJobGroupEvents, "GET", "/v1/job_groups/{name}/events", .viewer) { $0.events.listOfGroup },
    Route(.suspendJobGroup, "POST", "/v1/job_groups/{name}/suspend", .client, .upTo(4_096)) {
        $0.groupOperations.suspend
    },
    Route(.resumeJobGroup, "POST", "/v1/job_groups/{name}/resume", .client, .upTo(4_096)) {
        $0.groupOperations.resume
    },
    Route(.cancelJobGroup, "POST", "/v1/job_groups/{name}/cancel", .client, .upTo(4_096)) {
        $0.groupOperations.cancel
    },
    Route(.retryJobGroup, "POST", "/v1/job_groups/{name}/retry", .client, .upTo(4_096)) {
        $0.groupOperations.retry
    },
]

private let uploadRoutes: [Route] = [
    Route(.createUpload, "POST", "/v1/uploads", .client, .stream) { $0.uploads.takeEmpty(.createUpload) },
    Route(.listUploads, "GET", "/v1/uploads", .viewer) { $0.uploads.list },
    Route(.putUpload, "PUT", "/v1/uploads/{upload}", .client, .stream) { $0.uploads.takeEmpty(.putUpload) },
    Route(.readUpload, "GET", "/v1/uploads/{upload}", .viewer) { $0.uploads.read },
    Route(.continueUpload, "PATCH", "/v1/uploads/{upload}", .client, .stream) {
        $0.uploads.takeEmpty(.continueUpload)
    },
    Route(.deleteUpload, "DELETE", "/v1/uploads/{upload}", .client) { $0.uploads.delete },
    Route(.readUploadContent, "GET", "/v1/uploads/{upload}/content", .viewer) { $0.uploads.readContent },
]

private let bulkRoutes: [Route] = [
    Route(.suspendJobs, "POST", "/v1/jobs/suspend", .client, .upTo(Limits.bulkByteCountMax)) {
        $0.bulkOperations.suspend
    },
    Route(.resumeJobs, "POST", "/v1/jobs/resume", .client, .upTo(Limits.bulkByteCountMax)) {
        $0.bulkOperations.resume
    },
    Route(.cancelJobs, "POST", "/v1/jobs/cancel", .client, .upTo(Limits.bulkByteCountMax)) {
        $0.bulkOperations.cancel
    },
    Route(.retryJobs, "POST", "/v1/jobs/retry", .client, .upTo(Limits.bulkByteCountMax)) {
        $0.bulkOperations.retry
    },
    Route(.listBulkOperations, "GET", "/v1/operations", .viewer) { $0.bulkOperations.list },
    Route(.readBulkOperation, "GET", "/v1/operations/{id}", .viewer) { $0.bulkOperations.read },
    Route(.cancelBulkOperation, "POST", "/v1/operations/{id}/cancel", .client, .upTo(4_096)) {
        $0.bulkOperations.cancelOperation
    },
]

private let scheduleRoutes: [Route] = [
    Route(.createSchedule, "POST", "/v1/schedules", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.schedules.create
    },
    Route(.listSchedules, "GET", "/v1/schedules", .viewer) { $0.schedules.list },
    Route(.readSchedule, "GET", "/v1/schedules/{id}", .viewer) { $0.schedules.read },
    Route(.replaceSchedule, "PUT", "/v1/schedules/{id}", .client, .upTo(Limits.submissionByteCountMax)) {
        $0.schedules.replace
    },
    Route(.deleteSchedule, "DELETE", "/v1/schedules/{id}", .client) { $0.schedules.delete },
    Route(.runSchedule, "POST", "/v1/schedules/{id}/run", .client, .upTo(4_096)) { $0.schedules.run },
    Route(.pauseSchedule, "POST", "/v1/schedules/{id}/pause", .client, .upTo(4_096)) { $0.schedules.pause },
    Route(.resumeSchedule, "POST", "/v1/schedules/{id}/resume", .client, .upTo(4_096)) {
        $0.schedules.resume
    },
]

private let operatorRoutes: [Route] = [
    Route(.readStatus, "GET", "/v1/admin/status", .admin) { $0.status.read },
    Route(.listNodes, "GET", "/v1/admin/nodes", .admin) { $0.status.listNodes },
    Route(.readLimits, "GET", "/v1/admin/limits", .admin) { $0.limits.read },
    Route(.changeLimits, "PATCH", "/v1/admin/limits", .admin, .upTo(4_096)) { $0.limits.change },
    Route(.listHosts, "GET", "/v1/admin/hosts", .admin) { $0.hosts.list },
    Route(.readHost, "GET", "/v1/admin/hosts/{host}", .admin) { $0.hosts.read },
    Route(.changeHost, "PATCH", "/v1/admin/hosts/{host}", .admin, .upTo(4_096)) { $0.hosts.change },
    Route(.readWindows, "GET", "/v1/admin/windows", .admin) { $0.windows.read },
    Route(.changeWindows, "PATCH", "/v1/admin/windows", .admin, .upTo(65_536)) { $0.windows.change },
    Route(.createKey, "POST", "/v1/admin/keys", .admin, .upTo(4_096)) { $0.keys.create },
    Route(.listKeys, "GET", "/v1/admin/keys", .admin) { $0.keys.list },
    Route(.readKey, "GET", "/v1/admin/keys/{id}", .admin) { $0.keys.read },
    Route(.revokeKey, "DELETE", "/v1/admin/keys/{id}", .admin) { $0.keys.revoke },
    Route(.pauseService, "POST", "/v1/admin/pause", .admin, .upTo(4_096)) { $0.serviceControl.pause },
    Route(.resumeService, "POST", "/v1/admin/resume", .admin, .upTo(4_096)) { $0.serviceControl.resume },
    Route(.drainNode, "POST", "/v1/admin/nodes/{id}/drain", .admin, .upTo(4_096)) {
        $0.serviceControl.drainNode
    },
    Route(.resumeNode, "POST", "/v1/admin/nodes/{id}/resume", .admin, .upTo(4_096)) {
        $0.serviceControl.resumeNode
    },
    Route(.listTenants, "GET", "/v1/admin/tenants", .admin) { $0.serviceControl.listTenants },
    Route(.readTenantLimits, "GET", "/v1/admin/tenants/{tenant}/limits", .admin) { $0.tenantLimits.read },
    Route(.replaceTenantLimits, "PUT", "/v1/admin/tenants/{tenant}/limits", .admin, .upTo(4_096)) {
        $0.tenantLimits.replace
    },
    Route(.readContentStore, "GET", "/v1/admin/content-store", .admin) { $0.contentStore.read },
    Route(.acceptContentStore, "POST", "/v1/admin/content-store/accept", .admin, .upTo(4_096)) {
        $0.contentStore.accept
    },
    Route(.listAudit, "GET", "/v1/admin/audit", .admin) { $0.audit.list },
    Route(.live, "GET", "/livez", nil) { $0.probes.live },
    Route(.ready, "GET", "/readyz", nil) { $0.probes.ready },
    Route(.metrics, "GET", "/metrics", .viewer) { $0.probes.metrics },
    Route(.openapi, "GET", "/openapi.json", nil) { $0.documents.openAPI },
    Route(.docs, "GET", "/docs", nil) { $0.documents.page },
]
