package import FerryCore
import FerryScheduler
import Postgres

/// Reads hosts, and changes their settings for operators. Any thread.
package final class HostCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let clock: DatabaseClock
    private let loader: HostLimitsLoader

    init(
        _ commands: CommandQueue, _ reads: ReadPool, _ clock: DatabaseClock, _ loader: HostLimitsLoader
    ) {
        self.commands = commands
        self.reads = reads
        self.clock = clock
        self.loader = loader
    }

    /// Number of decisions that a list shows of each host.
    private static let listedDecisionCount: Int32 = 3

    /// Reads a page of hosts that have a row, in order of their origins, after `origin`.
    package func hosts(after origin: String, limit: Int, reply: @escaping Reply<[HostRecord]>) {
        let clock = clock
        reads.read("list_hosts", of: .service, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(text: origin)
            parameters.append(int32: Int32(clamping: limit))
            parameters.append(int32: Self.listedDecisionCount)
            let rows = try connection.execute(Statements.listHosts, parameters)
            let now = clock.now()
            return .success((0..<rows.rowCount).map { HostRecord(rows, $0, now) })
        }
    }

    /// Reads one host, whether it has a row or not.
    package func host(_ origin: String, reply: @escaping Reply<HostRecord>) {
        let clock = clock
        reads.read("read_host", of: .service, reply) { connection throws(PostgresError) in
            .success(try Self.host(origin, clock.now(), &connection))
        }
    }

    private static func host(
        _ origin: String, _ now: Timestamp, _ connection: inout Connection
    ) throws(PostgresError) -> HostRecord {
        var parameters = Parameters()
        parameters.append(text: origin)
        parameters.append(int32: Int32(HostTransaction.decisionCountMax))
        let rows = try connection.execute(Statements.readHost, parameters)
        return HostRecord(rows, 0, now)
    }

    /// Changes the settings of a host on all nodes. Fails with `overloaded` if there are too many hosts
    /// already.
    package func changeHost(
        _ origin: String, _ patch: HostPatch,
        if isAllowed: @escaping @Sendable (HostRecord) -> Bool,
        reply: @escaping Reply<Result<HostRecord, InvalidFields>>
    ) {
        let (clock, loader) = (clock, loader)
        commands.perform("change_host", reply) {
            (connection: inout Connection) throws(PostgresError)
                -> Result<Result<HostRecord, InvalidFields>, StoreError> in
            let now = clock.now()
            let outcome = try connection.transaction { connection throws(PostgresError) in
                try Self.change(origin, patch, isAllowed, now, &connection)
            }
            switch outcome {
            case .unknown: return .failure(.overloaded)
            case .refused(let error): return .failure(error)
            case .invalid(let fields): return .success(.failure(fields))
            case .done:
                // The change applies on this node when the reply arrives; other nodes are notified.
                try loader.load(&connection)
                return .success(.success(try Self.host(origin, now, &connection)))
            }
        }
    }

    /// Reloads the limits of origins. Called when another node has changed them.
    func adopt() {
        let loader = loader
        reads.read("adopt_hosts", of: .service, { (_: Result<Void, StoreError>) in }) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            try loader.load(&connection)
            return .success(())
        }
    }

    private enum HostChange {
        case done, unknown
        case refused(StoreError)
        case invalid(InvalidFields)
    }

    private static func change(
        _ origin: String, _ patch: HostPatch, _ isAllowed: (HostRecord) -> Bool, _ now: Timestamp,
        _ connection: inout Connection
    ) throws(PostgresError) -> HostChange {
        let hosts = [(origin: origin, countMax: HostHealth.rowCountMax)]
        let rows = try HostTransaction.lock(hosts, now, dueMax: 0, probeCountMax: 0, &connection)
        guard let row = rows.first else { return .unknown }
        var host = row.control
        let finding = ChangeCheck { () throws(InvalidFields) in try host.settings.merging(patch) }
            .matching { isAllowed(HostRecord(origin, host, now)) }
        let settings: HostSettings
        switch finding {
        case .invalid(let fields): return .invalid(fields)
        case .refused(let error): return .refused(error)
        case .allowed(let changed): settings = changed
        }
        let decision = host.configure(settings, backoffUntil: patch.backoffUntil, now: now)
        try HostTransaction.save(
            [origin: host], [], decision.map { [(origin, $0)] } ?? [], now, &connection)
        var notification = Parameters()
        notification.append(text: HostCoordinator.notification)
        _ = try connection.execute(Statements.notify, notification)
        return .done
    }
}

extension HostSettings {
    fileprivate func merging(_ patch: HostPatch) throws(InvalidFields) -> HostSettings {
        var settings = self
        if let least = patch.connectionsMin { settings.connectionsMin = least }
        if let most = patch.connectionsMax { settings.connectionsMax = most }
        if let isPaused = patch.isPaused { settings.isPaused = isPaused }
        if let rate = patch.bytesPerSecondMax { settings.bytesPerSecondMax = rate }
        if let rate = patch.requestsPerSecondMax { settings.requestsPerSecondMax = rate }
        if let least = settings.connectionsMin, let most = settings.connectionsMax, least > most {
            throw HostPatch.invalidBounds()
        }
        return settings
    }
}

extension HostRecord {
    /// Reads columns of list_hosts.sql.
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int, _ now: Timestamp) {
        let kept = rows.isNull(row, 1) ? nil : HostControl(json: rows.bytes(row, 1))
        self.init(rows.text(row, 0), kept ?? HostControl(), now)
        inFlight = Int(rows.int32(row, 2))
        decisions = rows.textArray(row, 3).compactMap { $0.map { Array($0.utf8) } }
    }

    /// Sets everything except `inFlight` and `decisions`.
    fileprivate init(_ origin: String, _ host: HostControl, _ now: Timestamp) {
        let state = host.state(at: now)
        self.init(origin: origin, state: state)
        reason = host.reason(at: now).map { Reason(code: state.rawValue, detail: $0) }
        let limit = host.limits(at: now)[.origin]
        connectionLimit = limit?.connectionLimit
        requestRateLimit = limit?.requestRate
        // An operator's pause has no end.
        backoffUntil = host.settings.isPaused ? nil : limit?.blockedUntil
        unreachableSince = host.unreachableSince
        nextProbeAt = host.nextProbeAt
        jobsPerSecond = host.answeredPerSecond
        bytesPerSecond = host.bytesPerSecond
        connectionsMin = host.settings.connectionsMin
        connectionsMax = host.settings.connectionsMax
        isPaused = host.settings.isPaused
        bytesPerSecondMax = host.settings.bytesPerSecondMax
        requestsPerSecondMax = host.settings.requestsPerSecondMax
        scopes = host.scopes(at: now).filter { !$0.scope.isOrigin }.map { status in
            Scope(
                tenant: status.scope.tenant, path: status.scope.path.isEmpty ? nil : status.scope.path,
                state: status.state, detail: status.reason,
                connectionLimit: status.limit.connectionLimit, requestRateLimit: status.limit.requestRate,
                backoffUntil: status.limit.blockedUntil)
        }
    }
}
