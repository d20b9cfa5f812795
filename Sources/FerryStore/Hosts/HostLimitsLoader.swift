import FerryCore
import FerryScheduler
import Postgres

/// Loads `HostLimits` from the table `host_limits`: at each heartbeat, and when a node notifies that they
/// have changed.
struct HostLimitsLoader: Sendable {
    /// Payload of the notification that the limits of an origin have changed.
    static let notification = "hosts"
    /// Maximum number of scopes in memory, about 4 MB. Claims read the table itself, so a scope beyond this
    /// number is still limited.
    static let countMax: Int32 = 20_000

    private let limits: HostLimits
    private let signals: StoreSignals

    init(_ limits: HostLimits, _ signals: StoreSignals) {
        self.limits = limits
        self.signals = signals
    }

    /// Replaces the limits. Returns `true` if they have changed. `reading`: the value of
    /// `HostLimits.beginReading`.
    static func apply(_ rows: borrowing ResultSet, to limits: HostLimits, reading: Int) -> Bool {
        var all: [String: [HostScope: HostLimit]] = [:]
        for row in 0..<rows.rowCount {
            let scope = HostScope(tenant: rows.text(row, 1), path: rows.text(row, 2))
            all[rows.text(row, 0), default: [:]][scope] = HostLimit(
                connectionLimit: rows.isNull(row, 3) ? nil : Int(rows.int32(row, 3)),
                blockedUntil: rows.instantOrNil(row, 4), isPaused: rows.bool(row, 5),
                requestRate: rows.float64OrNil(row, 6))
        }
        return limits.replace(all, reading: reading)
    }

    /// The parameters of read_host_limits.sql.
    static var parameters: Parameters {
        var parameters = Parameters.int32(countMax)
        parameters.append(Timestamp.distantFuture)
        return parameters
    }

    /// Reloads the limits of origins on `connection`.
    func load(_ connection: inout Connection) throws(PostgresError) {
        let reading = limits.beginReading()
        let rows = try connection.execute(Statements.readHostLimits, Self.parameters)
        if Self.apply(rows, to: limits, reading: reading) { signals.lookForJobs() }
    }
}
