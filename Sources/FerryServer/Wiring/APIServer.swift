import Curl
import FerryAPI
import FerryCore
import FerryEngine
import FerryStore
import FerryWebhooks
import Glibc
import HTTPServer
import Logging
import OpenSSL
import Sys

/// The HTTP server of a node: the API, its ports, and the server that runs it.
final class APIServer: Sendable {
    let waiters: JobWaiters
    private let api: API
    private let server: Server
    private let content: ContentReader
    private let nodes: NodeClient
    private let refresh: KeyRefresh

    var port: UInt16 { server.port }

    /// Binds the address. Requests are not served before `listen`.
    init(_ configuration: Configuration, parts: NodeParts, logger: Logger) throws {
        let waiters = JobWaiters()
        let content = ContentReader(places: parts.places)
        let (engine, health, box, store) = (parts.engine, parts.health, parts.box, parts.store)
        var ports = APIPorts(
            store: StorePorts(store), submissions: store.submissions, feed: store.eventTail,
            tenants: store.tenantCounts,
            node: NodeAdapter(store: store, places: parts.places, engine: engine, health: health),
            content: content, arriving: ArrivingFiles(engine: engine), clock: parts.clock,
            egress: parts.egress, waiters: waiters)
        ports.id = parts.node
        ports.contentStore = parts.contentSweeper
        // A node without an engine takes no uploads.
        ports.uploads = engine.map { _ in parts.places.uploads }
        let key = box.key(for: NodeSignature.purpose)
        let nodes = NodeClient(
            node: parts.node, key: key, peers: store.peers, clock: parts.clock, logger: logger)
        ports.others = nodes
        ports.nodeGate = NodeGate(node: parts.node, key: key, clock: parts.clock)
        ports.progress = { engine?.progress(of: $0) }
        ports.running = { engine?.runningTransfers ?? [] }
        ports.queue = { store.queueConditions }
        ports.quotas = store.quotas
        ports.zones = parts.zones
        ports.seal = { box.seal($0) }
        // The only error: sealed with another key, or damaged. The port returns `nil`.
        ports.open = { try? box.open($0) }
        ports.openWebhookKeys = { box.webhookKeys($0) }
        ports.openResumeData = { box.resumePoint($0) }
        ports.readiness = {
            health.checks.map { ReadinessCheck($0.name, isOK: $0.isPassed, isRequired: $0.isRequired) }
        }
        ports.uptime = { ProcessMetrics.uptimeSeconds }
        let page = MetricsPage(parts)
        ports.metrics = { page.text() }
        var settings = APIConfiguration(version: ferryVersion, adminKey: configuration.adminKey)
        // Without a usable libcurl this node has no optional features; only other roles need libcurl.
        let runtime = try? CurlRuntime.loaded.get()
        settings.hasHTTP3 = runtime?.hasHTTP3 ?? false
        settings.hasNTLM = runtime?.hasNTLM ?? false
        settings.rateLimit = RateLimit(perSecond: configuration.rateLimit, burst: configuration.rateBurst)
        settings.retentionSeconds = configuration.retentionSeconds
        settings.bodyBytesMax = parts.memory.bodies
        settings.uploadByteCountMax = configuration.uploadByteCountMax
        let api = API(settings, ports, logger: logger)
        page.connect(
            api.requestMetrics,
            waiting: .init(
                listenerCount: { [weak api] in api?.listenerCount ?? 0 },
                followerCount: { [weak api] in api?.followerCount ?? 0 },
                forwardedCount: { nodes.forwardedCount }, waitCount: { waiters.count }))
        var limits = ServerLimits()
        limits.connections = parts.budget.clients
        server = try Server(
            address: configuration.listenHost, port: configuration.listenPort, limits: limits,
            handler: configuration.roles.contains(.api) ? api : ProbesOnly(api: api)
        ) { message in logger.debug("libmicrohttpd", metadata: ["detail": "\(message)"]) }
        self.waiters = waiters
        self.content = content
        self.nodes = nodes
        self.api = api
        refresh = KeyRefresh(api)
    }

    /// Starts to serve requests. Throws if the API keys cannot be read.
    func listen() throws {
        try refresh.start()
        waiters.start()
        try server.start()
    }

    /// Accepts no more connections and completes requests in progress. These need the store, which must stop
    /// later.
    func drain(seconds: Double) {
        api.endWaits()
        api.endStreams()
        content.endWaits()
        server.drain(deadlineSeconds: seconds)
    }

    func stop() {
        refresh.stop()
        api.stop()
        server.stop()
        nodes.stop()
        content.stop()
    }
}

/// API of a node without the role `api`: serves only probes, metrics, and what other nodes ask for.
private struct ProbesOnly: RequestHandler {
    let api: API

    func plan(_ head: RequestHead) -> BodyPlan {
        let isServed = ["/livez", "/readyz", "/metrics"].contains(head.path) || api.isFromNode(head)
        if isServed { return api.plan(head) }
        return .refuse(api.unserved(head))
    }

    func handle(_ request: Request, _ responder: Responder) { api.handle(request, responder) }

    func refusal(_ code: RefusalCode, _ detail: String, _ requestID: String) -> Response {
        api.refusal(code, detail, requestID)
    }

    func completed(_ head: RequestHead, status: Int?, durationNanoseconds: Int64) {
        api.completed(head, status: status, durationNanoseconds: durationNanoseconds)
    }
}

/// Parts of a node that the API and the metrics use.
struct NodeParts: Sendable {
    let node: NodeID
    let store: Store
    let places: Places
    /// `nil` if contents are files of the nodes.
    let contentSweeper: ContentSweeper?
    let engine: Engine?
    let webhooks: WebhookSender?
    let health: Health
    let slots: WorkerSlots
    let budget: DescriptorBudget
    let memory: MemoryBudget
    let box: SecretBox
    let clock: DatabaseClock
    let zones: ZoneFiles
    let egress: EgressPolicy
}

/// Reads the API keys every three seconds, so that keys created or revoked on other nodes take effect within
/// five.
private final class KeyRefresh: Sendable {
    private static let milliseconds: Int32 = 3_000
    private let api: API
    private let stopping = Mailbox<Void>()

    init(_ api: API) { self.api = api }

    /// Waits for the first read, so that no valid key is refused at the beginning.
    func start() throws {
        try Bootstrap.wait { api.refreshKeys(done: $0) }
        _ = Thread(name: "keys") { [api, stopping] in
            while !stopping.isClosed {
                _ = stopping.wait(milliseconds: Self.milliseconds)
                if !stopping.isClosed { api.refreshKeys() }
            }
        }
    }

    func stop() { stopping.close() }
}
