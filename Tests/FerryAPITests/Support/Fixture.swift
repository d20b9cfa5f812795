import FerryAPI
import FerryCore
import Glibc
import HTTPServer
import Logging
import Synchronization
import Sys
import Testing

struct FixedClock: WallClock {
    func now() -> Timestamp { Timestamp(microseconds: 1_795_298_400_000_000) }
}

/// A response of the API.
struct ReceivedResponse: Sendable {
    let message: Response
    var status: Int { message.status }
    var body: [UInt8] { if case .bytes(let bytes) = message.body { bytes } else { [] } }
    var json: JSON { (try? JSON.parse(body)) ?? .null }
    var code: String? { json["code"]?.string }
    func header(_ name: String) -> String? { message.fields[name] }
}

/// A clock that a test sets: seconds since the process started.
final class ManualUptime: Sendable {
    private let seconds = Mutex(12.5)
    func now() -> Double { seconds.withLock { $0 } }
    func advance(_ count: Double) { seconds.withLock { $0 += count } }
}

extension StorePorts {
    init(_ store: MemoryStore) {
        self.init(
            jobs: store, jobControl: store, submissions: store, dependencies: store, answers: store,
            bulkOperations: store, groups: store, uploads: store, sessions: store, cookies: store,
            credentials: store, schedules: store, windows: store, events: store, webhooks: store,
            deliveries: store, hosts: store, limits: store,
            tenantLimits: store, keys: store, control: store, audit: store)
    }
}

/// The API with a store in memory, without an HTTP server.
final class Fixture: Sendable {
    /// The key of the configuration: an admin key, whatever role is stored for it.
    static let adminKey = "an-admin-key"
    static let adminKeyID = KeyID(high: 0, low: 9)
    let store: MemoryStore
    let waiters = JobWaiters()
    /// Content of running jobs.
    let arrivals = MemoryArrivals()
    let uptime = ManualUptime()
    let quotas = TenantQuotas()
    let api: API
    let clientKey: String
    let viewerKey: String
    let strangerKey: String

    init(
        rateLimit: RateLimit = RateLimit(), readiness: [ReadinessCheck] = [.init("database", isOK: true)],
        bodyBytesMax: Int = Limits.bodyBytesMax, store: MemoryStore = MemoryStore(),
        egress: EgressPolicy = EgressPolicy(), contentStore: (any ContentStoreControl)? = nil
    ) {
        self.store = store
        var ports = APIPorts(
            store: StorePorts(store), submissions: store, feed: store, tenants: store, node: store,
            content: store,
            arriving: arrivals, clock: FixedClock(), egress: egress, waiters: waiters)
        ports.readiness = { readiness }
        ports.quotas = quotas
        ports.contentStore = contentStore
        ports.metrics = { Array("# HELP a b\n".utf8) }
        ports.running = { store.state.withLock { $0.running } }
        ports.progress = { job in
            store.state.withLock { $0.running }.first { $0.job == job }?.progress
        }
        ports.seal = { [0xEE] + $0.reversed() }
        ports.open = { sealed in Array(sealed.dropFirst().reversed()) }
        ports.openWebhookKeys = { Fixture.openKeys($0) }
        ports.uptime = { [uptime] in uptime.now() }
        var configuration = APIConfiguration(version: "9.9", adminKey: Self.adminKey)
        configuration.rateLimit = rateLimit
        configuration.bodyBytesMax = bodyBytesMax
        api = API(configuration, ports, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let configured = APIKey(
            id: Self.adminKeyID, role: .viewer, name: "FERRY_ADMIN_KEY",
            hash: digest(ofKey: Self.adminKey), createdAt: Timestamp(microseconds: 0))
        store.createKey(NewKey(configured)) { _ in }
        clientKey = Self.add(.client, "default", 1, store)
        viewerKey = Self.add(.viewer, "default", 2, store)
        strangerKey = Self.add(.admin, "other", 3, store)
        api.refreshKeys()
        waiters.start()
    }

    deinit { api.stop() }

    /// Opens what `seal` has sealed.
    static func openKeys(_ sealed: [UInt8]) -> WebhookKeys? {
        WebhookKeys(json: sealed.dropFirst().reversed())
    }

    private static func add(_ role: Role, _ tenant: String, _ number: UInt64, _ store: MemoryStore) -> String
    {
        let key = makeKey()
        let record = APIKey(
            id: KeyID(high: 0, low: number), tenant: tenant, role: role, name: role.rawValue,
            hash: digest(ofKey: key), createdAt: Timestamp(microseconds: 0), revokedAt: nil)
        store.createKey(NewKey(record)) { _ in }
        return key
    }

    /// Sends a request through `plan` and `handle`; waits up to 120 s for the response.
    func send(
        _ method: String, _ target: String, _ body: String? = nil, key: String? = Fixture.adminKey,
        _ headers: [(name: String, value: String)] = []
    ) throws -> ReceivedResponse {
        var fields = HTTPFields(headers)
        if let key { fields.append("Authorization", "Bearer \(key)") }
        if body != nil, !fields.contains("Content-Type") { fields.append("Content-Type", "application/json") }
        var head = RequestHead(method: method, target: target, fields: fields, requestID: "req-1")
        head.expectsBody = body != nil
        head.contentLength = body.map { Int64($0.utf8.count) }
        let mailbox = Mailbox<ReceivedResponse>()
        let responder = Responder { mailbox.send(ReceivedResponse(message: $0)) }
        switch api.plan(head) {
        case .refuse(let response):
            api.completed(head, status: response.status, durationNanoseconds: 1_000)
            return ReceivedResponse(message: response)
        case .collect(let limit, _):
            try #require((body?.utf8.count ?? 0) <= limit)
            api.handle(Request(head: head, body: Array((body ?? "").utf8)), responder)
        case .stream: Issue.record("nothing is streamed")
        }
        let responses = mailbox.wait(milliseconds: 120_000)
        let response = try #require(responses.first, "no response")
        api.completed(head, status: response.status, durationNanoseconds: 1_000)
        return response
    }

    /// Sends a request without a body.
    func send(_ method: String, _ target: String, _ headers: [(name: String, value: String)]) throws
        -> ReceivedResponse
    {
        try send(method, target, nil, headers)
    }

    /// Submits a small job and returns its identifier.
    func submit(_ extra: String = "") throws -> JobID {
        let response = try send("POST", "/v1/jobs", small(extra))
        try #require(response.status == 201)
        return try #require(response.json["id"]?.string.flatMap { JobID($0) })
    }
}

/// Returns the body of a minimal job.
func small(_ extra: String = "") -> String {
    #"{"kind":"data","request":{"url":"http://a.example/"}\#(extra)}"#
}
