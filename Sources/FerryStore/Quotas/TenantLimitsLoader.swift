package import FerryCore
import Postgres

/// Loads `TenantQuotas` from the table `tenant_limits`: at each heartbeat, and when a node notifies that
/// limits have changed. Any thread.
final class TenantLimitsLoader: Sendable {
    /// Payload of the notification that the limits of a tenant have changed.
    static let notification = "tenants"

    private let context: StoreContext
    private let signals: StoreSignals
    private let sumBytes: @Sendable () -> Void

    /// `sumBytes` is called when limits of stored bytes may be new.
    init(_ context: StoreContext, _ signals: StoreSignals, sumBytes: @escaping @Sendable () -> Void) {
        self.context = context
        self.signals = signals
        self.sumBytes = sumBytes
    }

    /// Replaces limits and usage by the rows of list_tenant_limits.sql. `reading`: the value of
    /// `TenantQuotas.beginReading`.
    func apply(_ rows: borrowing ResultSet, reading: Int) {
        var readings: [String: TenantQuotas.Reading] = [:]
        for row in 0..<rows.rowCount {
            readings[rows.text(row, 0)] = TenantQuotas.Reading(
                limits: TenantLimits(rows, row, at: 1), transferredByteCount: rows.int64(row, 5))
        }
        let quotas = context.configuration.quotas
        guard quotas.apply(readings, reading: reading, at: context.clock.now()) else { return }
        // Jobs that have waited for a tenant's bytes may begin.
        signals.lookForJobs()
        sumBytes()
    }

    /// Reloads the limits on `connection`.
    func load(_ connection: inout Connection) throws(PostgresError) {
        let reading = context.configuration.quotas.beginReading()
        let rows = try connection.execute(Statements.listTenantLimits)
        apply(rows, reading: reading)
    }
}

/// Reads and changes the limits of tenants. Any thread.
package final class TenantLimitCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let loader: TenantLimitsLoader

    init(
        _ commands: CommandQueue, _ reads: ReadPool, _ loader: TenantLimitsLoader
    ) {
        self.commands = commands
        self.reads = reads
        self.loader = loader
    }

    /// Reads the limits of a tenant; none if it is unknown.
    package func tenantLimits(_ tenant: String, reply: @escaping Reply<TenantLimits>) {
        reads.read("tenant_limits", of: .service, reply) { connection throws(PostgresError) in
            .success(try TenantLimits(of: tenant, &connection))
        }
    }

    /// Replaces the limits of a tenant: on this node at once, on others when they are notified.
    package func replaceTenantLimits(
        _ tenant: String, _ limits: TenantLimits, if isAllowed: @escaping @Sendable (TenantLimits) -> Bool,
        reply: @escaping Reply<TenantLimits>
    ) {
        let loader = loader
        commands.perform("replace_tenant_limits", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<TenantLimits, StoreError> in
            // An iteration fails only if another transaction has changed the limits meanwhile.
            for _ in 0..<10 {
                let current = try TenantLimits(of: tenant, &connection)
                let finding = ChangeCheck.allowed(current).matching { isAllowed(current) }
                if case .refused(let error) = finding { return .failure(error) }
                var parameters = Parameters()
                parameters.append(text: tenant)
                parameters.append(limits)
                parameters.append(current)
                guard try connection.execute(Statements.replaceTenantLimits, parameters).rowCount == 1 else {
                    continue
                }
                try loader.load(&connection)
                var notification = Parameters()
                notification.append(text: TenantLimitsLoader.notification)
                _ = try connection.execute(Statements.notify, notification)
                return .success(limits)
            }
            return .failure(.unavailable)
        }
    }

    /// Reloads the limits of tenants. Called when another node has changed some.
    func adopt() {
        let loader = loader
        reads.read("adopt_tenant_limits", of: .service, { (_: Result<Void, StoreError>) in }) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            try loader.load(&connection)
            return .success(())
        }
    }
}

extension TenantLimits {
    fileprivate init(of tenant: String, _ connection: inout Connection) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(text: tenant)
        let rows = try connection.execute(Statements.readTenantLimits, parameters)
        self = rows.rowCount == 1 ? TenantLimits(rows, 0, at: 0) : TenantLimits()
    }

    /// Reads four columns from `first` on.
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int, at first: Int) {
        self.init(
            jobCountMax: rows.int64OrNil(row, first), bytesPerDay: rows.int64OrNil(row, first + 1),
            storageByteCountMax: rows.int64OrNil(row, first + 2),
            requestsPerSecond: rows.int64OrNil(row, first + 3))
    }
}

extension Parameters {
    fileprivate mutating func append(_ limits: TenantLimits) {
        append(int64: limits.jobCountMax)
        append(int64: limits.bytesPerDay)
        append(int64: limits.storageByteCountMax)
        append(int64: limits.requestsPerSecond)
    }
}
