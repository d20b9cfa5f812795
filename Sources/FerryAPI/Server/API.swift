package import FerryCore
package import HTTPServer
package import Logging

/// What the API is told at its start.
package struct APIConfiguration: Sendable {
    /// Of Ferry, for `/v1/admin/status` and the document.
    package var version: String
    package var rateLimit = RateLimit()
    /// Of all request bodies that are in memory, beyond small ones.
    package var bodyBytesMax = Limits.bodyBytesMax
    /// The admin key of the configuration; nil when the first one is in the store.
    package var adminKey: String?
    /// Whether jobs may ask for HTTP/3.
    package var hasHTTP3 = false
    package var hasNTLM = false
    /// Seconds for which finished jobs stay.
    package var retentionSeconds = 604_800.0
    package init(version: String, adminKey: String?) {
        self.version = version
        self.adminKey = adminKey
    }
}

/// One thing that must hold for `/readyz`.
package struct ReadinessCheck: Sendable, Equatable {
    package let name: String
    package let isOK: Bool
    /// False: the node is ready without it.
    package let isRequired: Bool
    package init(_ name: String, isOK: Bool, isRequired: Bool = true) {
        self.name = name
        self.isOK = isOK
        self.isRequired = isRequired
    }
}

/// Everything that the API asks; the wiring gives the real ones, tests their doubles.
package struct APIPorts: Sendable {
    package var intake: any SubmissionSink
    package var reader: any JobReader
    package var control: any JobControl
    package var content: any ContentStore
    package var deliveries: any DeliveryReader
    package var events: any EventReader
    package var webhooks: any WebhookStore
    package var keys: any KeyStore
    package var limits: any LimitStore
    package var hosts: any HostStore
    package var editor: any JobEditor
    package var dependencies: any DependencyReader
    package var sessions: any SessionStore
    package var questions: any AnswerSink
    package var schedules: any ScheduleStore
    package var windows: any WindowStore
    /// The places that schedules know.
    package var zones: any TimeZoneSource = KnownTimeZones()
    package var status: any StatusSource
    package var operations: any ServiceControl
    package var audit: any AuditLog
    package var clock: any WallClock
    package var egress: EgressPolicy
    package var waiters: JobWaiters
    /// Of a job that runs on this node; nil for all others.
    package var progress: @Sendable (JobID) -> TransferProgress?
    /// Of all jobs that run on this node.
    package var running: @Sendable () -> [RunningTransfer]
    /// What is known of the service around a queued job; cheap.
    package var queue: @Sendable () -> QueueConditions
    /// Encrypts what must not be readable in the database.
    package var seal: @Sendable ([UInt8]) -> [UInt8]
    /// Decrypts that; nil when it cannot be read.
    package var open: @Sendable ([UInt8]) -> [UInt8]?
    /// Both.
    var secrets: SecretSeal { SecretSeal(seal: seal, open: open) }
    /// Decrypts the keys of a webhook endpoint; nil when they cannot be read.
    package var openWebhookKeys: @Sendable ([UInt8]) -> WebhookKeys?
    /// Reads resume data; nil when this service has not made it.
    package var openResumeData: @Sendable (String) -> ResumePoint?
    /// Cached: must not block.
    package var readiness: @Sendable () -> [ReadinessCheck]
    /// The Prometheus text; must not block.
    package var metrics: @Sendable () -> [UInt8]
    /// Seconds since the process began.
    package var uptime: @Sendable () -> Double

    package init(
        store: any SubmissionSink & JobReader & JobControl & JobEditor & DependencyReader & AnswerSink
            & EventReader & DeliveryReader & KeyStore & LimitStore & HostStore & StatusSource & SessionStore
            & ServiceControl & AuditLog & WebhookStore & ScheduleStore & WindowStore,
        content: any ContentStore, clock: any WallClock, egress: EgressPolicy, waiters: JobWaiters
    ) {
        intake = store
        reader = store
        control = store
        deliveries = store
        events = store
        webhooks = store
        keys = store
        limits = store
        hosts = store
        editor = store
        dependencies = store
        sessions = store
        questions = store
        schedules = store
        windows = store
        status = store
        operations = store
        audit = store
        self.content = content
        self.clock = clock
        self.egress = egress
        self.waiters = waiters
        progress = { _ in nil }
        running = { [] }
        queue = { QueueConditions() }
        seal = { $0 }
        open = { $0 }
        openWebhookKeys = { _ in nil }
        openResumeData = { _ in nil }
        readiness = { [] }
        metrics = { [] }
        uptime = { 0 }
    }
}

/// The HTTP surface: finds the route, checks who asks, and answers. Nothing here blocks.
package final class API: RequestHandler {
    let configuration: APIConfiguration
    let ports: APIPorts
    let logger: Logger
    let identifiers: IdentifierGenerator
    let keyTable: KeyTable
    let batches = BatchThread()
    let streams: EventStreams
    let node: NodeAbilities
    let bodies: BodyBudget
    private let limiter: RateLimiter
    private let router = Router(routes)
    /// What `/metrics` shows about requests.
    package let requestMetrics = APIMetrics()

    package init(_ configuration: APIConfiguration, _ ports: APIPorts, logger: Logger) {
        self.configuration = configuration
        self.ports = ports
        self.logger = logger
        streams = EventStreams(ports)
        let clock = ports.clock
        identifiers = IdentifierGenerator { clock.now() }
        keyTable = KeyTable(adminKey: configuration.adminKey)
        limiter = RateLimiter(configuration.rateLimit)
        bodies = BodyBudget(capacity: configuration.bodyBytesMax)
        var node = NodeAbilities.reading(
            hasHTTP3: configuration.hasHTTP3, hasNTLM: configuration.hasNTLM)
        node.retentionSeconds = configuration.retentionSeconds
        self.node = node
    }

    /// Streams of events that are open.
    package var listenerCount: Int { streams.count }

    /// Ends the streams of events, whose clients come again, to another node.
    package func endStreams() { streams.stop() }

    /// Answers the requests that wait for jobs (`Prefer: wait`) as if their time were over, and from now on
    /// does not let one wait. While the store still answers: that is what they are answered from.
    package func endWaits() { ports.waiters.stop() }

    /// Ends the API's own threads.
    package func stop() {
        batches.stop()
        endStreams()
        endWaits()
    }

    /// Reads the keys anew, so that those made or revoked on other nodes count; to be called every few
    /// seconds, and with success once before the first request.
    package func refreshKeys(done: @escaping Reply<Void> = { _ in }) {
        ports.keys.keys { [keyTable] result in done(result.map { keyTable.replace($0) }) }
    }

    package func plan(_ head: RequestHead) -> BodyPlan {
        switch router.match(method: head.method, path: head.path) {
        case .route(let index):
            let route = routes[index]
            // Whoever may not send a large body is told before it; small ones are checked once, in `handle`.
            guard head.expectsBody, (head.contentLength ?? .max) > Limits.smallBodyBytes else {
                return .collect(limit: route.body.limit)
            }
            do throws(Problem) {
                let tenant = try principal(head, route).get().tenant
                if route.body != .none { try needPlainBody(head.fields) }
                return .collect(
                    limit: min(route.body.limit, bodies.largest),
                    room: bodies.room(for: tenant, requestID: head.requestID))
            } catch {
                return .refuse(error.response(requestID: head.requestID))
            }
        case .otherMethod(let allow) where head.method == "OPTIONS":
            return .refuse(Response(status: 204, fields: HTTPFields([("Allow", allow)])))
        case .otherMethod(let allow):
            var problem = Problem(.methodNotAllowed, "\(head.method) is not possible here; \(allow) are.")
            problem.fields.append(("Allow", allow))
            return .refuse(problem.response(requestID: head.requestID))
        case .nothing:
            return .refuse(
                Problem(.notFound, "There is nothing under this path.").response(requestID: head.requestID))
        }
    }

    package func handle(_ request: Request, _ responder: Responder) {
        let head = request.head
        guard case .route(let index) = router.match(method: head.method, path: head.path) else {
            responder.send(
                Problem(.notFound, "There is nothing under this path.").response(requestID: head.requestID))
            return
        }
        let route = routes[index]
        do throws(Problem) {
            let principal = try principal(head, route).get()
            if route.role != nil, let wait = limiter.take(principal.key) { throw limiter.problem(wait: wait) }
            let query = try queryRules[index].items(head)
            if route.body != .none { try needPlainBody(head.fields) }
            let call = RequestContext(
                request: request, parameters: try parameters(head, route), query: query,
                principal: principal,
                disclosure: principal.role < .client ? .redacted : .full(ports.secrets), responder: responder)
            if route.isAudited { audit(call, route) } else { route.handle(self)(call) }
        } catch {
            responder.send(error.response(requestID: head.requestID))
        }
    }

    package func refusal(_ code: RefusalCode, _ detail: String, _ requestID: String) -> Response {
        Problem(refusal: code, detail).response(requestID: requestID)
    }

    /// The answer of a node that does not serve the API.
    package func unserved(_ head: RequestHead) -> Response {
        Problem(.notFound, "This node does not serve the API (FERRY_ROLES).")
            .response(requestID: head.requestID)
    }

    package func completed(_ head: RequestHead, status: Int?, durationNanoseconds: Int64) {
        var route: Int?
        if case .route(let index) = router.match(method: head.method, path: head.path) { route = index }
        requestMetrics.count(route: route, status: status, nanoseconds: durationNanoseconds)
        // What the client was told to look for in the log; the cause is in the lines before.
        let level: Logger.Level = status == 500 ? .error : .debug
        guard logger.logLevel <= level else { return }
        logger.log(
            level: level, status == 500 ? "A request failed." : "A request was answered.",
            metadata: [
                "request.id": "\(head.requestID)", "method": "\(head.method)",
                "route": "\(route.map { routes[$0].pattern } ?? "none")", "status": "\(status ?? 0)",
                "duration.us": "\(durationNanoseconds / 1_000)",
            ])
    }

    private func parameters(_ head: RequestHead, _ route: Route) throws(Problem) -> [String] {
        guard route.pattern.utf8.contains(UInt8(ascii: "{")) else { return [] }
        do throws(PercentDecodingError) {
            let names = route.pattern.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            return zip(names, try head.pathSegments()).filter { $0.0.hasPrefix("{") }.map(\.1)
        } catch {
            throw Problem(.notFound, "There is nothing under this path.")
        }
    }

    private func principal(_ head: RequestHead, _ route: Route) -> Result<Principal, Problem> {
        guard let role = route.role else { return .success(nobody) }
        guard let key = bearerKey(head.fields) else { return .failure(.unauthorized(hasKey: false)) }
        guard let principal = keyTable.principal(key) else { return .failure(.unauthorized(hasKey: true)) }
        guard principal.role >= role else {
            return .failure(
                Problem(
                    .forbidden,
                    "This needs the role \(role.rawValue); the key's is \(principal.role.rawValue)."))
        }
        return .success(principal)
    }
}

private let nobody = Principal(key: KeyID(high: 0, low: 0), tenant: "", role: .viewer)
