import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// State shared by all threads of one store: its settings, clock, log and counters, and their connections.
/// Any thread.
final class StoreContext: Sendable {
    let configuration: StoreConfiguration
    let damagedRows: DamagedRows
    let metrics = StoreMetrics()
    /// The cookies of the sessions that this node uses.
    let cookies: CookieStorages
    /// For events and deliveries.
    let identifiers: IdentifierGenerator
    /// Start of this process, as in the table `nodes`.
    let startedAt: Timestamp
    /// Shortens the waits of all connections once the store stops.
    let shutdownTimeout = ShutdownTimeout()

    init(_ configuration: StoreConfiguration) {
        self.configuration = configuration
        damagedRows = DamagedRows(configuration.logger)
        cookies = CookieStorages(of: configuration.sessions, publicSuffixes: .installed)
        let clock = configuration.clock
        identifiers = IdentifierGenerator(random: BufferedRandom()) { clock.now() }
        startedAt = clock.now()
    }

    var logger: Logger { configuration.logger }
    var clock: DatabaseClock { configuration.clock }
    var sessions: SessionCache { configuration.sessions }

    /// Makes the connection of one thread, which alone uses it. `name` appears in the log and in
    /// `application_name`. `adjust` changes its options. With `counts` it often changes `job_counts`, and
    /// gets a new row there every few seconds.
    func connection(
        _ name: String, counts: Bool = false,
        setUp: @escaping (inout Connection) throws(PostgresError) -> Void = { _ throws(PostgresError) in },
        adjust: (inout ConnectionOptions) -> Void = { _ in }
    ) -> ReconnectingConnection {
        var options = ConnectionOptions()
        options.applicationName = "ferry \(name)"
        let shard = "\(configuration.node.uuidText)/\(name)"
        options.settings = [.init("ferry.shard", shard)]
        options.shutdownTimeout = shutdownTimeout
        options.idleInTransactionTimeout = .seconds(Limits.idleTransactionSeconds)
        adjust(&options)
        let (logger, metrics, clock) = (logger, metrics, clock)
        let own = configuration.own
        let renew = { (connection: inout Connection) throws(PostgresError) in
            _ = try connection.execute(Statements.setShard, .shard(shard, at: clock.now()))
        }
        var isFirst = true
        var isAway = false
        return ReconnectingConnection(
            url: configuration.url, options: options, setUp: setUp,
            renewalInterval: .seconds(Limits.shardSeconds), renew: counts ? renew : nil
        ) { state in
            switch state {
            case .connected(_, let server):
                own.add(server: server.address.flatMap { IPAddress(text: $0) }, port: server.port)
                if !isFirst { metrics.reconnects.add(1, ordering: .relaxed) }
                isFirst = false
                logger.log(
                    level: isAway ? .notice : .debug, "database connected",
                    metadata: ["connection": "\(name)"])
                isAway = false
            case .disconnected(let error, let delay):
                // One warning for each outage.
                logger.log(
                    level: isAway ? .debug : .warning, "database connection lost",
                    metadata: ["connection": "\(name)", "error": "\(error)", "retry_in": "\(delay)"])
                isAway = true
            }
        }
    }
}

extension Parameters {
    /// The parameters of set_shard.sql.
    fileprivate static func shard(_ name: String, at now: Timestamp) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: "\(name)/\(now.microseconds / 1_000_000)")
        return parameters
    }
}

extension Identifier {
    /// The text form that PostgreSQL writes.
    var uuidText: String {
        var text: [UInt8] = []
        for index in 0..<32 {
            if [8, 12, 16, 20].contains(index) { text.append(UInt8(ascii: "-")) }
            let word = index < 16 ? high : low
            text.append(hexDigit(UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index % 16)) & 15)))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads the text form that PostgreSQL writes. `nil` for anything else.
    init?(uuidText: String) {
        let digits = uuidText.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32, uuidText.utf8.count == 36,
            let high = UInt64(String(decoding: digits.prefix(16), as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: digits.suffix(16), as: UTF8.self), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }

    /// The largest identifier, above all real ones: where a list begins.
    static var last: Self { Self(high: .max, low: .max) }
}
