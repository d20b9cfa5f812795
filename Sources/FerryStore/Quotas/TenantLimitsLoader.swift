package import FerryCore
import Postgres
import Sys

/// Loads `TenantQuotas` from the table `tenant_limits`: at each heartbeat, and when a node notifies that
/// limits have changed.
enum TenantLimitsLoader {
    /// Payload of the notification that the limits of a tenant have changed.
    static let notification = "tenants"

    /// Replaces limits and usage by the rows of list_tenant_limits.sql. `reading`: the value of
    /// `TenantQuotas.beginReading`.
    static func apply(
        _ rows: borrowing ResultSet, reading: Int, _ context: StoreContext, _ wakeDispatcher: () -> Void
    ) {
        var readings: [String: TenantQuotas.Reading] = [:]
        for row in 0..<rows.rowCount {
            readings[rows.text(row, 0)] = TenantQuotas.Reading(
                limits: TenantLimits(rows, row, at: 1), transferredByteCount: rows.int64(row, 5))
        }
        let quotas = context.configuration.quotas
        guard quotas.apply(readings, reading: reading, at: context.clock.now()) else { return }
        // Jobs that have waited for a tenant's bytes may begin.
        context.backlog.addUnknown()
        wakeDispatcher()
        _ = context.countRequests.send(.limits)
    }

    /// Reloads the limits on `connection`.
    static func load(
        _ context: StoreContext, _ wakeDispatcher: () -> Void, _ connection: inout Connection
    ) throws(PostgresError) {
        let reading = context.configuration.quotas.beginReading()
        let rows = try connection.execute(Statements.listTenantLimits)
        apply(rows, reading: reading, context, wakeDispatcher)
    }
}

/// Reads and changes the limits of tenants. Any thread.
package final class TenantLimitCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let context: StoreContext
    private let wakeDispatcher: @Sendable () -> Void

    init(
        _ commands: CommandQueue, _ reads: ReadPool, _ context: StoreContext,
        wakeDispatcher: @escaping @Sendable () -> Void
    ) {
        self.commands = commands
        self.reads = reads
        self.context = context
        self.wakeDispatcher = wakeDispatcher
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
        let (context, wakeDispatcher) = (context, wakeDispatcher)
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
                try TenantLimitsLoader.load(context, wakeDispatcher, &connection)
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
        let (context, wakeDispatcher) = (context, wakeDispatcher)
        reads.read("adopt_tenant_limits", of: .service, { (_: Result<Void, StoreError>) in }) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            try TenantLimitsLoader.load(context, wakeDispatcher, &connection)
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
