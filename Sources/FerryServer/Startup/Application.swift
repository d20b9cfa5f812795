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
import Synchronization
import Sys

/// A node: creates all parts in the order of the data flow and stops them in the reverse order.
final class Application: Sendable {
    private let configuration: Configuration
    private let parts: NodeParts
    // Keeps the data directory locked.
    private let identity: NodeIdentity
    private let database: Database
    private let bootstrap: Bootstrap
    private let server: APIServer
    private let sweeper: Sweeper?
    private let uploadSweeper: UploadSweeper?
    private let uploadMover: UploadMover?
    private let contentSweeper: ContentSweeper?
    private let logger: Logger
    /// Name of the part that `end` waits for.
    private let stopping = Mutex("")

    private init(
        _ configuration: Configuration, _ parts: NodeParts, identity: NodeIdentity, database: Database,
        bootstrap: Bootstrap, server: APIServer, logger: Logger
    ) {
        sweeper = Application.makeSweeper(
            configuration, store: parts.store, clock: parts.clock, logger: logger)
        let (places, uploads) = (parts.places, parts.store.uploads)
        uploadMover =
            parts.engine == nil
            ? nil
            : places.objects.map { objects in
                UploadMover(
                    uploads: uploads, files: places.uploads, isAvailable: { objects.isAvailable })
            }
        uploadSweeper = parts.engine.map { _ in
            UploadSweeper(
                uploads: parts.store.uploads, files: parts.places.uploads,
                directory: StoragePaths(configuration).uploads,
                clock: parts.clock, logger: logger)
        }
        contentSweeper = parts.contentSweeper
        self.configuration = configuration
        self.parts = parts
        self.identity = identity
        self.database = database
        self.bootstrap = bootstrap
        self.server = server
        self.logger = logger
    }

    /// Creates all parts and returns when requests are served. Runs no queued job before `begin`: a start
    /// that fails later must not have begun an attempt that cannot be repeated.
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
                "The schema of the database was migrated.",
                metadata: ["migrations": first == last ? "\(last)" : "\(first) to \(last)"])
        }
        let application = try build(
            configuration, budget, memory, identity: identity, database: database, logger: logger)
        isStarted = true
        do {
            try application.open()
        } catch {
            application.end()
            throw error
        }
        return application
    }

    /// Registers the node in the database and starts to serve requests.
    private func open() throws {
        let observers = CommitObservers()
        observers.connect(engine: parts.engine, webhooks: parts.webhooks, waiters: server.waiters)
        try parts.store.start(
            runner: parts.engine, observer: observers, prober: parts.engine, remover: parts.engine)
        // The port is bound: secrets are shown only by a start that succeeds.
        try bootstrap.prepareAdminKey(
            configuration, store: parts.store, address: address, now: parts.clock.now(), logger: logger)
        try server.listen()
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
                "There is little memory: less of it is used for request bodies.",
                metadata: ["limit": "\(limit)", "bodies": "\(budget.bodies)"])
        }
        return budget
    }

    private static func build(
        _ configuration: Configuration, _ budget: DescriptorBudget, _ memory: MemoryBudget,
        identity: NodeIdentity, database: Database, logger: Logger
    ) throws -> Application {
        let box = SecretBox(key: try secretKey(configuration))
        let bootstrap = try Bootstrap.prepare(configuration, url: database.url, box: box)
        let clock = DatabaseClock()
        let slots = WorkerSlots(capacity: budget.transfers, lentMax: min(budget.lentSlots, memory.lentSlots))
        // Ferry's own endpoints, which transfers may never reach, whatever networks are allowed.
        let own = OwnEndpoints(isOwnAddress: isOwnAddress)
        let egress = EgressPolicy(allowing: configuration.egressAllow, own: own)
        var settings = StoreConfiguration(
            url: database.url, node: identity.id, nodeName: identity.name, version: ferryVersion,
            isWorker: configuration.roles.contains(.worker), slots: slots, clock: clock, logger: logger,
            seal: SecretSeal(seal: { box.seal($0) }, open: { try? box.open($0) }),  // `nil`: another key
            openSecrets: secretsOpener(box), sealSecrets: { box.seal($0.encode()) },
            hashCredentials: { box.shortHash($0) })
        settings.nodeURL = configuration.nodeURL
        settings.own = own
        let (downloads, credits) = (DownloadAdmission(), DeliveryCredits())
        settings.downloads = downloads
        settings.credits = credits
        settings.limits = configuration.limits
        settings.startsPaused = configuration.startsPaused
        settings.jobCountMax = configuration.unfinishedJobs
        settings.sessions = SessionCache(connectionsPerHostMax: configuration.connectionsPerHostMax)
        settings.listens = configuration.notify == .on
        settings.eventRetention = configuration.eventRetention
        settings.openWebhookKeys = { box.webhookKeys($0) }
        let zones = ZoneFiles()
        settings.zones = zones
        settings.retentionSeconds = configuration.retentionSeconds
        settings.sealResumePoint = { box.resumeData($0) }
        settings.openResumePoint = { box.resumePoint($0) }
        settings.egress = egress
        let store = Store(settings, spool: ResultSpool(directory: configuration.dataDirectory))
        let engineSettings = engineSettings(
            configuration, budget, memory, identity.id, store: store, egress: egress, downloads: downloads)
        if engineSettings.nodeCredentials?.lacksKey ?? false {
            logger.warning(
                """
                FERRY_S3_CREDENTIALS_ALLOW is set, and this node has no key: neither AWS_ACCESS_KEY_ID with \
                AWS_SECRET_ACCESS_KEY, nor one in the shared credentials file. Its requests are not signed.
                """)
        }
        let objects = try contentObjects(configuration, bootstrap, clock: clock, logger: logger)
        let places = Places(engineSettings, objects: objects, logger: logger)
        let contentSweeper = objects.map {
            ContentSweeper(
                $0, store: store, unusedSeconds: configuration.contentStoreUnusedSeconds, clock: clock,
                logger: logger)
        }
        let engine: Engine? =
            configuration.roles.contains(.worker)
            ? try Engine(
                configuration: engineSettings, places: places, sink: store.dispatcher,
                lease: store.heartbeat, jobs: store.jobs, clock: clock, logger: logger) : nil
        var webhooks: WebhookSender?
        do {
            webhooks = try makeWebhooks(
                configuration, store: store, clock: clock, egress: egress, secret: bootstrap.webhookSecret,
                credits: credits, logger: logger)
            let health = Health(
                store: store, engine: engine, webhooks: webhooks, downloads: downloads, configuration)
            let parts = NodeParts(
                node: identity.id, store: store, places: places, contentSweeper: contentSweeper,
                engine: engine, webhooks: webhooks, health: health, slots: slots, budget: budget,
                memory: memory, box: box, clock: clock, zones: zones, egress: egress)
            let server = try APIServer(configuration, parts: parts, logger: logger)
            if let address = IPAddress(text: configuration.listenHost) {
                own.add(.init(address, port: server.port))
            }
            return Application(
                configuration, parts, identity: identity, database: database, bootstrap: bootstrap,
                server: server, logger: logger)
        } catch {
            webhooks?.stop(graceSeconds: 0)
            if let engine { engine.stop() } else { _ = places.stop() }
            throw error
        }
    }

    /// Starts to run jobs and reports readiness in one line on standard output.
    func begin(json: Bool) {
        parts.store.beginWork()
        // Claims of the sender failed before this node had a lease.
        parts.webhooks?.wake()
        sweeper?.start()
        uploadSweeper?.start()
        uploadMover?.start()
        contentSweeper?.start()
        parts.health.becomeReady()
        let line = Array((json ? #"{"url":"\#(address)"}"# : "Ferry is ready on \(address)").utf8) + [0x0A]
        _ = write(STDOUT_FILENO, line, line.count)
    }

    private var address: String {
        let host = configuration.listenHost
        return "http://\(host.contains(":") ? "[\(host)]" : host):\(server.port)"
    }

    /// `false` if a required part has ended or hangs.
    var isHealthy: Bool { !parts.health.isBroken }

    /// Stops the node: becomes unready, takes no new work, lets running work end, then stops the parts in the
    /// reverse order of the data flow.
    func stop() {
        end()
        logger.notice("Ferry has stopped.")
    }

    private func end() {
        parts.health.beginDraining()
        sweeper?.stop()
        uploadSweeper?.stop()
        uploadMover?.stop()
        contentSweeper?.stop()
        parts.store.drain()
        wait(for: "transfers") { parts.engine?.drain(seconds: configuration.drainSeconds) }
        wait(for: "webhooks") { parts.webhooks?.stop() }
        wait(for: "requests") { server.drain(seconds: 5) }
        wait(for: "database connections") { parts.store.stop() }
        wait(for: "transfer loops") {
            if let engine = parts.engine { engine.stop() } else { _ = parts.places.stop() }
        }
        wait(for: "server") { server.stop() }
        wait(for: "database") { database.close() }
    }

    private func wait(for part: String, _ end: () -> Void) {
        stopping.withLock { $0 = part }
        end()
    }

    /// Called when `stop` hangs: logs which part it waits for and stops the private PostgreSQL. Running jobs
    /// are then lost as after a kill. Usable on any thread.
    func abandon() {
        logger.critical(
            "Ferry ends although a part does not stop.", metadata: ["part": "\(stopping.withLock { $0 })"])
        database.close()
    }

    /// Returns the settings of the engine, and of the places. A node without an engine only reads contents.
    private static func engineSettings(
        _ configuration: Configuration, _ budget: DescriptorBudget, _ memory: MemoryBudget, _ node: NodeID,
        store: Store, egress: EgressPolicy, downloads: DownloadAdmission
    ) -> EngineConfiguration {
        let paths = StoragePaths(configuration)
        var settings = EngineConfiguration(
            storageRoot: { paths.root(of: $0) }, managedFilesDirectory: paths.managedFiles, egress: egress,
            userAgent: "Ferry/\(ferryVersion)")
        settings.fileModes = { paths.fileModes(of: $0) }
        settings.uploadsDirectory = paths.uploads
        guard configuration.roles.contains(.worker) else {
            settings.fileThreadCount = 1
            return settings
        }
        settings.uploads = store.uploads
        settings.node = node
        settings.proxy = configuration.proxy
        settings.sessions = store.sessions.sessionCache
        if !configuration.storeAllowances.isEmpty {
            settings.nodeCredentials = NodeCredentials(
                configuration.storeAllowances, environment: processEnvironment())
        }
        settings.loopCount = configuration.transferLoops
        settings.storageReserve = configuration.storageReserve
        settings.storageTimeout = configuration.storageTimeout
        settings.lowSpeed = configuration.lowSpeed
        settings.watchedDirectories = paths.watched
        settings.downloads = downloads
        settings.connections = store.connections
        settings.marker = store.dispatcher
        settings.quotas = store.quotas
        settings.isCutOff = { store.isCutOff }
        settings.fileSync = configuration.fileSync == .full ? .full : .none
        settings.keptConnectionCount = budget.keptConnections
        settings.gatheredByteCountMax = memory.gathered
        return settings
    }

    /// `nil` if contents are files of the nodes.
    private static func contentObjects(
        _ configuration: Configuration, _ bootstrap: Bootstrap, clock: DatabaseClock, logger: Logger
    ) throws -> ContentObjects? {
        guard case .bucket(let text) = configuration.contentStore else { return nil }
        let settings = try ContentObjects.Settings(configuration, text, cluster: bootstrap.cluster)
        return try ContentObjects(settings, clock: clock, logger: logger)
    }

    private static func makeSweeper(
        _ configuration: Configuration, store: Store, clock: DatabaseClock, logger: Logger
    ) -> Sweeper? {
        guard configuration.roles.contains(.worker) else { return nil }
        let paths = StoragePaths(configuration)
        return Sweeper(
            store: store, roots: { paths.roots }, managedFiles: paths.managedFiles, clock: clock,
            retentionSeconds: configuration.retentionSeconds, logger: logger)
    }

    private static func makeWebhooks(
        _ configuration: Configuration, store: Store, clock: DatabaseClock, egress: EgressPolicy,
        secret: WebhookSecret, credits: DeliveryCredits, logger: Logger
    ) throws -> WebhookSender? {
        guard configuration.roles.contains(.webhooks) else { return nil }
        var settings = WebhookSender.Configuration(secrets: [secret], policy: egress, version: ferryVersion)
        // Without a usable libcurl, the sender below cannot be created either.
        let runtime = try? CurlRuntime.loaded.get()
        let answers = WebhookAnswers(
            questions: store.questions, clock: clock, egress: egress,
            node: .reading(hasHTTP3: runtime?.hasHTTP3 ?? false, hasNTLM: runtime?.hasNTLM ?? false),
            logger: logger)
        settings.takeAnswer = { answers.take($0, $1, done: $2) }
        settings.credits = credits
        settings.lease = { [heartbeat = store.heartbeat] in heartbeat.lease }
        return try WebhookSender(
            store: store.deliveries, clock: clock, configuration: settings, logger: logger)
    }

    private static func secretsOpener(_ box: SecretBox) -> @Sendable ([UInt8]) -> JobSecrets? {
        { sealed in
            // Unreadable secrets are `nil`: the job then fails, whatever the reason.
            try? JobSecrets(json: box.open(sealed))
        }
    }
}
