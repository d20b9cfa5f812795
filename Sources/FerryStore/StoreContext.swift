import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// What the lanes of one store share. Everything in it may be used from any thread.
final class StoreContext: Sendable {
    let configuration: StoreConfiguration
    let metrics = StoreMetrics()
    /// Jobs that this process holds a lease of, so that leases nobody knows of can be found and given back.
    let book = LeaseBook()
    /// For events and deliveries.
    let identifiers: IdentifierGenerator
    private let backlog = Atomic<Bool>(false)
    /// Grows whenever rows were queued: what a claim has not seen, it must not deny.
    private let queuedGeneration = Atomic<Int>(0)
    /// False while draining.
    let isLeasing: Atomic<Bool>
    /// Whether other nodes are alive, who must be notified.
    let hasPeers = Atomic<Bool>(true)
    let isListening = Atomic<Bool>(false)
    private let runner = Mutex<(any AttemptRunner)?>(nil)
    private let observer = Mutex<(any CommitObserver)?>(nil)

    init(_ configuration: StoreConfiguration) {
        self.configuration = configuration
        let clock = configuration.clock
        identifiers = IdentifierGenerator { clock.now() }
        isLeasing = Atomic(configuration.isWorker)
    }

    /// Whether queued rows are known or likely to exist; then a new job must queue behind them.
    var hasBacklog: Bool { backlog.load(ordering: .acquiring) }

    /// To be called after rows were queued and committed.
    func noteQueued() {
        queuedGeneration.add(1, ordering: .acquiringAndReleasing)
        backlog.store(true, ordering: .releasing)
    }

    /// What a claim remembers before it looks.
    var generation: Int { queuedGeneration.load(ordering: .acquiring) }

    /// A claim that began at `generation` found less than it asked for: nothing queues, unless rows came meanwhile.
    func noteEmpty(since generation: Int) {
        backlog.store(false, ordering: .sequentiallyConsistent)
        if queuedGeneration.load(ordering: .sequentiallyConsistent) != generation {
            backlog.store(true, ordering: .releasing)
        }
    }

    func connect(runner: (any AttemptRunner)?, observer: (any CommitObserver)?) {
        self.runner.withLock { $0 = runner }
        self.observer.withLock { $0 = observer }
    }

    var logger: Logger { configuration.logger }
    var clock: DatabaseClock { configuration.clock }
    var attemptRunner: (any AttemptRunner)? { runner.withLock { $0 } }
    var commitObserver: (any CommitObserver)? { observer.withLock { $0 } }

    /// The connection of a lane, which only that lane's thread uses. `adjust` changes the lane's session.
    func connection(
        _ lane: String, setUp: @escaping (inout Connection) throws(PostgresError) -> Void = { _ throws(PostgresError) in },
        adjust: (inout ConnectionOptions) -> Void = { _ in }
    ) -> LaneConnection {
        var options = ConnectionOptions()
        options.applicationName = "ferry \(lane)"
        options.settings = [.init("ferry.shard", "\(configuration.node.uuidText)/\(lane)")]
        adjust(&options)
        let (logger, metrics) = (logger, metrics)
        var isFirst = true
        return LaneConnection(url: configuration.url, options: options, setUp: setUp) { state in
            switch state {
            case .connected:
                if !isFirst { metrics.reconnects.add(1, ordering: .relaxed) }
                isFirst = false
                logger.debug("database connected", metadata: ["lane": "\(lane)"])
            case .disconnected(let error, let delay):
                logger.warning(
                    "database connection lost",
                    metadata: ["lane": "\(lane)", "error": "\(error)", "retry_in": "\(delay)"])
            }
        }
    }
}

/// The jobs whose lease this process knows that it holds.
final class LeaseBook: Sendable {
    private let jobs = Mutex<Set<JobID>>([])

    func insert(_ added: some Sequence<JobID>) {
        jobs.withLock { for job in added { $0.insert(job) } }
    }

    func remove(_ removed: some Sequence<JobID>) {
        jobs.withLock { for job in removed { $0.remove(job) } }
    }

    func contains(_ job: JobID) -> Bool { jobs.withLock { $0.contains(job) } }

    var count: Int { jobs.withLock { $0.count } }
}

extension Identifier {
    /// As PostgreSQL writes a uuid.
    var uuidText: String {
        let digits = Array("0123456789abcdef".utf8)
        var text: [UInt8] = []
        for index in 0..<32 {
            if [8, 12, 16, 20].contains(index) { text.append(UInt8(ascii: "-")) }
            let word = index < 16 ? high : low
            text.append(digits[Int(word >> UInt64(60 - 4 * (index % 16)) & 15)])
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads what PostgreSQL writes. Nil for anything else.
    init?(uuidText: String) {
        let digits = uuidText.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32, uuidText.utf8.count == 36,
            let high = UInt64(String(decoding: digits.prefix(16), as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: digits.suffix(16), as: UTF8.self), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }

    /// Above every identifier there will be: where a list begins.
    static var last: Self { Self(high: .max, low: .max) }
}
