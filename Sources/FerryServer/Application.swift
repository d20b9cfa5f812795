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

/// A node: every part, built in the order of the flow and stopped against it.
final class Application: Sendable {
    private let configuration: Configuration
    private let parts: NodeParts
    // Held for the lock on the data directory.
    private let identity: NodeIdentity
    private let database: Database
    private let surface: Surface
    private let sweeper: Sweeper?
    private let logger: Logger

    private init(
        _ configuration: Configuration, _ parts: NodeParts, identity: NodeIdentity, database: Database,
        surface: Surface, sweeper: Sweeper?, logger: Logger
    ) {
        self.sweeper = sweeper
        self.configuration = configuration
        self.parts = parts
        self.identity = identity
        self.database = database
        self.surface = surface
        self.logger = logger
    }

    /// Builds and starts everything; returns when requests are answered.
    static func start(_ configuration: Configuration, logger: Logger) throws -> Application {
        let budget = budget(configuration, logger: logger)
        let memory = memory(logger: logger)
        let paths = StoragePaths(configuration)
        try paths.prepare()
        for sentence in try paths.exposed() + paths.unwritable() { logger.warning("\(sentence)") }
        let identity = try NodeIdentity(dataDirectory: configuration.dataDirectory)
        let database = try Database.open(configuration, logger: logger)
        var isStarted = false
        defer { if !isStarted { database.close() } }
        let migrations = try database.migrate()
        if let first = migrations.first, let last = migrations.last {
            logger.notice(
                "The schema of the database was brought up to date.",
                metadata: ["migrations": first == last ? "\(last)" : "\(first) to \(last)"])
        }
        let application = try build(
            configuration, budget, memory, identity: identity, database: database, logger: logger)
        isStarted = true
        return application
    }

    private static func budget(_ configuration: Configuration, logger: Logger) -> DescriptorBudget {
        let isWorker = configuration.roles.contains(.worker)
        let limit = raiseDescriptorLimit()
        let transfers = isWorker ? configuration.concurrency : 0
        let budget = DescriptorBudget(
            limit: limit, transfers: transfers, clients: configuration.httpConnections,
            keptConnections: isWorker
                ? max(64, min(transfers, 4096)) * configuration.transferLoops : 0)
        if budget.transfers < transfers || budget.clients < configuration.httpConnections {
            logger.warning(
                """
                The limit of open files is too low: this node runs \(budget.transfers) transfers at \
                once instead of \(transfers), for \(budget.clients) connections of the API instead of \
                \(configuration.httpConnections). Raise it (ulimit -n, LimitNOFILE), or lower \
                FERRY_CONCURRENCY and FERRY_HTTP_CONNECTIONS.
                """, metadata: ["limit": "\(limit)"])
        }
        return budget
    }

    private static func memory(logger: Logger) -> MemoryBudget {
        let limit = memoryLimit()
        let budget = MemoryBudget(limit: limit)
        if budget.bodies < Limits.bodyBytesMax {
            logger.notice(
                "There is little memory: bodies of requests wait and are refused sooner.",
                metadata: ["limit": "\(limit)", "bodies": "\(budget.bodies)"])
        }
        return budget
    }

    private static func build(
        _ configuration: Configuration, _ budget: DescriptorBudget, _ memory: MemoryBudget,
        identity: NodeIdentity, database: Database, logger: Logger
    ) throws -> Application {
        let box = SecretBox(key: try secretKey(configuration))
        let clock = DatabaseClock()
        let slots = SlotLedger(capacity: budget.transfers, lentMax: budget.lentSlots)
        // No place for a transfer, whatever networks are allowed.
        let own = OwnEndpoints(isOwnAddress: isOwnAddress)
        let egress = EgressPolicy(allowing: configuration.egressAllow, own: own)
        let openSecrets = secretsOpener(box)
        var settings = StoreConfiguration(
            url: database.url, node: identity.id, nodeName: identity.name, version: ferryVersion,
            isWorker: configuration.roles.contains(.worker), slots: slots, clock: clock, logger: logger,
            openSecrets: openSecrets, sealSecrets: { box.seal($0.encode()) })
        settings.own = own
        let (downloads, places) = (DownloadGate(), DeliveryPlaces())
        settings.downloads = downloads
        settings.places = places
        settings.limits = configuration.limits
        settings.jobCountMax = configuration.unfinishedJobs
        settings.listens = configuration.notify == .on
        settings.eventRetention = configuration.eventRetention
        settings.openWebhookKeys = { box.webhookKeys($0) }
        let zones = ZoneFiles()
        settings.zones = zones
        settings.retentionSeconds = configuration.retentionSeconds
        settings.sealResumePoint = { box.resumeData($0) }
        let store = Store(settings)
        let engine = try makeEngine(
            configuration, budget, memory, identity.id, store: store, clock: clock, egress: egress,
            downloads: downloads, logger: logger)
        let observers = Observers()
        try store.start(runner: engine, observer: observers, prober: engine)
        let firstStart = try FirstStart.settle(configuration, store: store, box: box)
        let webhooks = try makeWebhooks(
            configuration, store: store, clock: clock, egress: egress, secret: firstStart.webhookSecret,
            places: places, logger: logger)
        let health = Health(
            store: store, engine: engine, downloads: downloads, dataDirectory: configuration.dataDirectory)
        let parts = NodeParts(
            store: store, engine: engine, webhooks: webhooks, health: health, slots: slots, budget: budget,
            memory: memory, box: box, clock: clock, zones: zones, egress: egress,
            paths: StoragePaths(configuration), openSecrets: openSecrets)
        let surface = try Surface(configuration, parts: parts, logger: logger)
        if let address = IPAddress(text: configuration.listenHost) {
            own.add(.init(address, port: surface.port))
        }
        observers.connect(engine: engine, webhooks: webhooks, waiters: surface.waiters)
        // The port is ours: what is shown once comes from a start that succeeds.
        try firstStart.settleAdminKey(
            configuration, store: store, address: address(configuration, surface), now: clock.now(),
            logger: logger)
        try surface.listen()
        let sweeper = makeSweeper(configuration, store: store, clock: clock, logger: logger)
        sweeper?.start()
        return Application(
            configuration, parts, identity: identity, database: database, surface: surface,
            sweeper: sweeper, logger: logger)
    }

    /// Says that it is ready: one line on standard output.
    func announce(json: Bool) {
        let address = Self.address(configuration, surface)
        parts.health.becomeReady()
        let line = Array((json ? #"{"url":"\#(address)"}"# : "Ferry is ready on \(address)").utf8) + [0x0A]
        _ = write(STDOUT_FILENO, line, line.count)
    }

    private static func address(_ configuration: Configuration, _ surface: Surface) -> String {
        let host = configuration.listenHost
        return "http://\(host.contains(":") ? "[\(host)]" : host):\(surface.port)"
    }

    /// False when a part has ended without which nothing works.
    var isHealthy: Bool { !parts.health.isBroken }

    /// Readiness first, then no new work, then what runs may end; the parts stop against the flow.
    func stop() {
        parts.health.beginDraining()
        sweeper?.stop()
        parts.store.drain()
        parts.engine?.drain(seconds: configuration.drainSeconds)
        parts.webhooks?.stop()
        surface.drain(seconds: 5)
        parts.store.stop()
        parts.engine?.stop()
        surface.stop()
        database.close()
        logger.notice("Ferry has stopped.")
    }

    private static func makeEngine(
        _ configuration: Configuration, _ budget: DescriptorBudget, _ memory: MemoryBudget, _ node: NodeID,
        store: Store, clock: DatabaseClock, egress: EgressPolicy, downloads: DownloadGate, logger: Logger
    ) throws -> Engine? {
        guard configuration.roles.contains(.worker) else { return nil }
        let paths = StoragePaths(configuration)
        var settings = EngineConfiguration(
            storageRoot: { paths.root(of: $0) }, keptDirectory: paths.kept, egress: egress,
            userAgent: "Ferry/\(ferryVersion)")
        settings.node = node
        settings.proxy = configuration.proxy
        settings.loopCount = configuration.transferLoops
        settings.storageReserve = configuration.storageReserve
        settings.storageTimeout = configuration.storageTimeout
        settings.watchedDirectories = paths.watched
        settings.downloads = downloads
        settings.connections = store.connections
        settings.fileSync = configuration.fileSync == .full ? .full : .none
        settings.keptConnectionCount = budget.keptConnections
        settings.gatheredByteCountMax = memory.gathered
        return try Engine(
            configuration: settings, sink: store.dispatcher, lease: store.watch, jobs: store.control,
            clock: clock, logger: logger)
    }

    private static func makeSweeper(
        _ configuration: Configuration, store: Store, clock: DatabaseClock, logger: Logger
    ) -> Sweeper? {
        guard configuration.roles.contains(.worker) else { return nil }
        let paths = StoragePaths(configuration)
        return Sweeper(
            store: store, roots: { paths.roots }, kept: paths.kept, clock: clock,
            retentionSeconds: configuration.retentionSeconds, logger: logger)
    }

    private static func makeWebhooks(
        _ configuration: Configuration, store: Store, clock: DatabaseClock, egress: EgressPolicy,
        secret: WebhookSecret, places: DeliveryPlaces, logger: Logger
    ) throws -> WebhookSender? {
        guard configuration.roles.contains(.webhooks) else { return nil }
        var settings = WebhookSender.Configuration(secrets: [secret], policy: egress, version: ferryVersion)
        let answers = WebhookAnswers(
            control: store.control, clock: clock, egress: egress,
            node: .reading(
                hasHTTP3: (try? CurlRuntime.loaded.get().hasHTTP3) ?? false,
                hasNTLM: (try? CurlRuntime.loaded.get().hasNTLM) ?? false), logger: logger)
        settings.takeAnswer = { answers.take($0, $1, done: $2) }
        settings.places = places
        settings.lease = { [watch = store.watch] in watch.lease }
        return try WebhookSender(
            queue: store.deliveries, clock: clock, configuration: settings, logger: logger)
    }

    private static func secretsOpener(_ box: SecretBox) -> @Sendable ([UInt8]) -> JobSecrets? {
        { sealed in
            guard let plain = try? box.open(sealed) else { return nil }
            return try? JobSecrets(json: plain)
        }
    }
}
