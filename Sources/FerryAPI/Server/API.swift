package import FerryCore
package import HTTPServer
package import Logging
internal import Sys

/// Settings of the API.
package struct APIConfiguration: Sendable {
    /// Ferry's version, for `/v1/admin/status`.
    package var version: String
    /// Limit of the requests of each key.
    package var rateLimit = RateLimit()
    /// Memory for request bodies, in bytes. Bodies up to `Limits.smallBodyBytes` do not count.
    package var bodyBytesMax = Limits.bodyBytesMax
    /// Admin key of the configuration; `nil` if the first key is in the store.
    package var adminKey: String?
    /// Whether jobs may ask for HTTP/3.
    package var hasHTTP3 = false
    /// Whether jobs may ask for NTLM.
    package var hasNTLM = false
    /// Time for which finished jobs and complete uploads are kept, in seconds.
    package var retentionSeconds = 604_800.0
    /// Bytes of a staged upload at most; `nil` for no limit.
    package var uploadByteCountMax: Int64?
    package init(version: String, adminKey: String?) {
        self.version = version
        self.adminKey = adminKey
    }
}

/// Result of one check of `/readyz`.
package struct ReadinessCheck: Sendable, Equatable {
    /// Name of the check in the response of `/readyz`.
    package let name: String
    /// `true` if the check passed.
    package let isOK: Bool
    /// `false` if the node is ready even when this check fails.
    package let isRequired: Bool
    package init(_ name: String, isOK: Bool, isRequired: Bool = true) {
        self.name = name
        self.isOK = isOK
        self.isRequired = isRequired
    }
}

/// The ports and functions that the API calls. `FerryServer` passes the real ones, tests pass doubles.
package struct APIPorts: Sendable {
    /// Reads and changes what is stored.
    let store: StorePorts
    /// Stores new jobs.
    let submissions: any SubmissionSink
    /// Passes new events to event streams.
    let feed: any EventFeed
    /// Counts the unfinished jobs of tenants.
    let tenants: any TenantReader
    /// Operations that need this node's engine and disks.
    let node: any NodeOperations
    /// This node.
    package var id = NodeID(high: 0, low: 0)
    /// The files of staged uploads on this node; `nil` if it transfers no files.
    package var uploads: (any UploadFiles)?
    /// The sweeps of the content store; `nil` if contents are files of the nodes.
    package var contentStore: (any ContentStoreControl)?
    /// Opens the files of succeeded jobs.
    let content: any ContentStore
    /// Current time for identifiers and timestamps.
    let clock: any WallClock
    /// Policy that decides which addresses jobs and webhooks may use.
    let egress: EgressPolicy
    /// Requests that wait for jobs (`Prefer: wait`).
    let waiters: JobWaiters
    /// Time zones for schedules and off-peak windows.
    package var zones: any TimeZoneSource = KnownTimeZones()
    /// Returns the progress of a job that runs on this node, `nil` for any other job. Must not block.
    package var progress: @Sendable (JobID) -> TransferProgress? = { _ in nil }
    /// Returns the jobs that run on this node, with their progress.
    package var running: @Sendable () -> [RunningTransfer] = { [] }
    /// Asks the other nodes for what only they have.
    package var others: any OtherNodes = NoOtherNodes()
    /// Decides which requests of other nodes are answered; `nil`: none.
    package var nodeGate: NodeGate?
    /// The content of the jobs that run on this node.
    let arriving: any ArrivingContent
    /// Returns the state of the service that explains why a job is queued. Must not block.
    package var queue: @Sendable () -> QueueConditions = { QueueConditions() }
    /// The limits of tenants, as this node knows them.
    package var quotas = TenantQuotas()
    /// Encrypts bytes that must not be readable in the database.
    package var seal: @Sendable ([UInt8]) -> [UInt8] = { $0 }
    /// Decrypts what `seal` returned; `nil` if that fails.
    package var open: @Sendable ([UInt8]) -> [UInt8]? = { $0 }
    var secrets: SecretSeal { SecretSeal(seal: seal, open: open) }
    /// Decrypts the keys of a webhook endpoint; `nil` if that fails.
    package var openWebhookKeys: @Sendable ([UInt8]) -> WebhookKeys? = { _ in nil }
    /// Decrypts resume data; `nil` if this service has not issued it.
    package var openResumeData: @Sendable (String) -> ResumePoint? = { _ in nil }
    /// Returns the results of the checks of `/readyz`. Must not block.
    package var readiness: @Sendable () -> [ReadinessCheck] = { [] }
    /// Returns the metrics in the Prometheus text format. Must not block.
    package var metrics: @Sendable () -> [UInt8] = { [] }
    /// Returns the seconds since the process started.
    package var uptime: @Sendable () -> Double = { 0 }

    package init(
        store: StorePorts, submissions: any SubmissionSink, feed: any EventFeed,
        tenants: any TenantReader, node: any NodeOperations, content: any ContentStore,
        arriving: any ArrivingContent, clock: any WallClock, egress: EgressPolicy, waiters: JobWaiters
    ) {
        self.store = store
        self.submissions = submissions
        self.feed = feed
        self.tenants = tenants
        self.node = node
        self.content = content
        self.arriving = arriving
        self.clock = clock
        self.egress = egress
        self.waiters = waiters
    }
}

/// Serves the HTTP API: finds the route of a request, authenticates it, applies the rate limit, and calls the
/// handler. Its methods do not block.
package final class API: RequestHandler {
    private let router: Router
    private let handlers: Handlers
    private let keys: KeyTable
    private let limiter: RateLimiter
    private let tenantLimiter: TenantRateLimiter
    private let audit: AuditTrail
    private let secrets: SecretSeal
    private let logger: Logger
    private let batches = BatchThread()
    private let streams: EventStreams
    private let keyStreams = KeyStreams()
    private let nodes: NodeRequests?
    private let followers: ContentFollowers
    private let waiters: JobWaiters
    let bodies: BodyBudget
    /// Counts of requests for `/metrics`.
    package let requestMetrics = APIMetrics()

    package init(_ configuration: APIConfiguration, _ ports: APIPorts, logger: Logger) {
        let clock = ports.clock
        let identifiers = IdentifierGenerator(random: BufferedRandom()) { clock.now() }
        let router = Router(routes)
        self.router = router
        self.logger = logger
        secrets = ports.secrets
        waiters = ports.waiters
        streams = EventStreams(ports)
        followers = ContentFollowers(ports)
        keys = KeyTable(ports.store.keys, keyStreams, adminKey: configuration.adminKey)
        limiter = RateLimiter(configuration.rateLimit)
        tenantLimiter = TenantRateLimiter(ports.quotas)
        bodies = BodyBudget(capacity: configuration.bodyBytesMax)
        audit = AuditTrail(ports, identifiers, logger)
        let handlers = Handlers(
            configuration, ports, identifiers, keys: keys, audit: audit, streams: streams,
            followers: followers, batches: batches)
        self.handlers = handlers
        nodes = ports.nodeGate.map { NodeRequests($0, router, handlers, ports) }
    }

    /// Number of open event streams.
    package var listenerCount: Int { streams.count }

    /// Number of requests that follow the content of unfinished jobs.
    package var followerCount: Int { followers.count }

    /// Ends the event streams and the requests that follow content; their clients reconnect to another node.
    package func endStreams() {
        streams.stop()
        followers.stop()
    }

    /// Responds to the requests that wait for jobs (`Prefer: wait`) as if their time were over; later
    /// requests do not wait. To be called while the store still answers, because the responses are read from
    /// it.
    package func endWaits() {
        // They wait for jobs too, again and again.
        followers.stop()
        waiters.stop()
    }

    /// Ends the API's own threads.
    package func stop() {
        batches.stop()
        endStreams()
        endWaits()
    }

    /// Reloads the API keys from the store, so that keys made or revoked on other nodes count. To be called
    /// every few seconds, and once with success before the first request.
    package func refreshKeys(done: @escaping Reply<Void> = { _ in }) { keys.refresh(done: done) }

    /// Returns how to read the body of a request, or the response that refuses the request before its body.
    package func plan(_ head: RequestHead) -> BodyPlan {
        if let nodes, isFromNode(head) { return nodes.plan(head) }
        switch router.match(method: head.uploadMethod, path: head.path) {
        case .route(let index):
            let route = routes[index]
            if route.body == .stream, head.expectsBody { return stream(head, route, index) }
            // A large body is refused before it is read. Small ones are checked once, in `handle`.
            guard head.expectsBody, (head.contentLength ?? .max) > Limits.smallBodyBytes else {
                return .collect(limit: route.body.limit)
            }
            do throws(Problem) {
                let tenant = try principal(head, route).tenant
                if route.body != .none { try needPlainBody(head.fields) }
                return .collect(
                    limit: min(route.body.limit, bodies.largest),
                    reservation: bodies.reservation(for: tenant, requestID: head.requestID))
            } catch {
                return .refuse(error.response(requestID: head.requestID))
            }
        case .otherMethod(let allow) where head.method == "OPTIONS":
            var fields = HTTPFields([("Allow", allow)])
            if head.isOfUploads { handlers.uploads.addOptions(to: &fields) }
            return .refuse(Response(status: 204, fields: fields))
        case .otherMethod(let allow):
            var problem = Problem(
                .methodNotAllowed, "The endpoint does not support \(head.method). Use one of: \(allow).")
            problem.fields.append(("Allow", allow))
            return .refuse(problem.response(requestID: head.requestID))
        case .nothing:
            return .refuse(Problem.noSuchPath.response(requestID: head.requestID))
        }
    }

    /// Returns the receiver of a body that is not collected, or the response that refuses the request.
    private func stream(_ head: RequestHead, _ route: Route, _ index: Int) -> BodyPlan {
        do throws(Problem) {
            let principal = try principal(head, route)
            try takeTokens(of: principal)
            _ = try queryRules[index].items(head)
            try needPlainBody(head.fields)
            return .stream(
                try handlers.uploads.sink(
                    route.operation, head, try route.parameters(head), for: principal, isFromNode: false))
        } catch {
            return .refuse(error.response(requestID: head.requestID))
        }
    }

    private func takeTokens(of principal: Principal) throws(Problem) {
        if let wait = limiter.take(principal.key) { throw limiter.problem(wait: wait) }
        try tenantLimiter.take(principal.tenant)
    }

    /// Responds to a request. The response may come later, from another thread.
    package func handle(_ request: Request, _ responder: Responder) {
        let head = request.head
        if let nodes, isFromNode(head) { return nodes.handle(request, responder) }
        do throws(Problem) {
            guard case .route(let index) = router.match(method: head.uploadMethod, path: head.path) else {
                throw Problem.noSuchPath
            }
            let route = routes[index]
            let principal = try principal(head, route)
            if route.role != nil { try takeTokens(of: principal) }
            let query = try queryRules[index].items(head)
            if route.body != .none { try needPlainBody(head.fields) }
            var context = RequestContext(
                message: request, parameters: try route.parameters(head), query: query,
                principal: principal, disclosure: principal.disclosure(secrets), responder: responder)
            if route.role != nil { context.streams = keyStreams }
            let handler = route.handler(handlers)
            guard route.isAudited else { return try handler(context) }
            audit.record(context, route) { context in
                context.run { () throws(Problem) in try handler(context) }
            }
        } catch {
            responder.send(error.response(requestID: head.requestID))
        }
    }

    /// Returns the problem document for a request that `HTTPServer` refuses.
    package func refusal(_ code: RefusalCode, _ detail: String, _ requestID: String) -> Response {
        Problem(refusal: code, detail).response(requestID: requestID)
    }

    /// Returns the response of a node that does not serve the API.
    package func unserved(_ head: RequestHead) -> Response {
        Problem(.notFound, "This node does not serve the API: FERRY_ROLES does not include api.")
            .response(requestID: head.requestID)
    }

    /// Counts and logs a request after its response. `status`: `nil` if the client disconnected before it.
    package func completed(_ head: RequestHead, status: Int?, durationNanoseconds: Int64) {
        var route: Int?
        if case .route(let index) = router.match(method: head.uploadMethod, path: head.path) { route = index }
        requestMetrics.count(route: route, status: status, nanoseconds: durationNanoseconds)
        // A 500 tells the client to look for the request id in the log; earlier lines have the cause.
        let level: Logger.Level = status == 500 ? .error : .debug
        guard logger.logLevel <= level else { return }
        logger.log(
            level: level, status == 500 ? "A request failed." : "A request was completed.",
            metadata: [
                "request.id": "\(head.requestID)", "method": "\(head.method)",
                "route": "\(route.map { routes[$0].pattern } ?? "none")", "status": "\(status ?? 0)",
                "duration.us": "\(durationNanoseconds / 1_000)",
            ])
    }

    /// Whether a request says that another node has sent it, so that a node of every role answers it.
    package func isFromNode(_ head: RequestHead) -> Bool { nodes != nil && NodeGate.concerns(head) }

    private func principal(_ head: RequestHead, _ route: Route) throws(Problem) -> Principal {
        guard let role = route.role else { return anonymous }
        guard let key = bearerKey(head.fields) else { throw .unauthorized(hasKey: false) }
        guard let principal = keys.principal(key) else { throw .unauthorized(hasKey: true) }
        guard principal.role >= role else {
            throw Problem(
                .forbidden,
                "The request needs the role \(role.rawValue); the key has \(principal.role.rawValue)."
            )
        }
        return principal
    }
}

/// Principal of requests to the routes that need no key.
private let anonymous = Principal(key: KeyID(high: 0, low: 0), tenant: "", role: .viewer)

extension Route {
    /// Returns the percent-decoded values of the parameters in the pattern.
    func parameters(_ head: RequestHead) throws(Problem) -> [String] {
        guard pattern.utf8.contains(UInt8(ascii: "{")) else { return [] }
        do throws(PercentDecodingError) {
            let names = pattern.split(separator: "/", omittingEmptySubsequences: false).dropFirst()
            return zip(names, try head.pathSegments()).filter { $0.0.hasPrefix("{") }.map(\.1)
        } catch {
            throw Problem.noSuchPath
        }
    }
}

extension Principal {
    /// Returns the disclosure of secrets in responses to this principal.
    func disclosure(_ secrets: SecretSeal) -> Disclosure { role < .client ? .redacted : .full(secrets) }
}

extension Problem {
    static var noSuchPath: Problem { Problem(.notFound, "No endpoint has this path.") }
}
