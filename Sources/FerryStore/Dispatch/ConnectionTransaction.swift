import FerryCore
import FerryScheduler
import Logging
import Postgres
import Sys

/// Transaction that asks the database for connections to limited origins, and writes which ones were given
/// back: one transaction for all that has gathered. Used on the dispatcher's thread only.
struct ConnectionTransaction {
    /// Maximum number of writes, and of requests, of one transaction.
    private static let countMax = 200
    /// Nanoseconds until claim queues are tried again that another transaction held.
    private static let lockedPause: Int64 = 5_000_000
    /// Nanoseconds until the next transaction after an error.
    private static let errorPause: Int64 = 1_000_000_000

    let queueState: QueueState
    /// Monotonic nanoseconds before which no transaction begins.
    private var notBefore: Int64 = 0

    init(_ queueState: QueueState) {
        self.queueState = queueState
    }

    private var registry: ConnectionRegistry { queueState.hostState.connections }

    /// Returns when the next transaction is due in monotonic nanoseconds; `nil` if there is no work.
    func nextStep(_ now: Int64) -> Int64? { registry.hasWork ? max(now, notBefore) : nil }

    /// Runs a transaction if one is due. Returns the scopes in which connections were given back.
    mutating func step(_ database: ReconnectingConnection) -> Set<RequestScope> {
        let now = Sys.monotonicNanoseconds()
        guard registry.hasWork, now >= notBefore else { return [] }
        let work = registry.takeWork(Self.countMax)
        guard !work.isEmpty else { return [] }
        do {
            let outcomes = try database.withConnection { connection throws(PostgresError) in
                try commit(work, &connection)
            }
            settle(work, outcomes, now)
        } catch {
            registry.putBack(work)
            // The attempts may ask again later.
            for ask in work.asks { ask.reply(.refused(hold(ask))) }
            notBefore = now + Self.errorPause
            if !error.isConnectionLost, !error.isRetryable {
                queueState.context.logger.error(
                    "granting connections failed", metadata: ["error": "\(error)"])
            }
        }
        return Set(work.writes.lazy.map(\.key.scope))
    }

    /// Returns by index of the request whether it was granted. Requests without a result are to be asked
    /// again.
    private func commit(
        _ work: ConnectionRegistry.Work, _ connection: inout Connection
    ) throws(PostgresError) -> [Int: Bool] {
        let names = work.asks.map { name(of: $0) }
        let queues = try queueState.claimQueues.find(Set(names), &connection, isCommitted: true)
        let numbers = names.map { queues[$0]?.id ?? 0 }
        // Each claim queue is locked once. Of claim queues that count together lock_claim_queues.sql locks
        // the first; the others come first next time.
        var seen: Set<Int64> = []
        let wanted = names.compactMap { queues[$0] }.filter { seen.insert($0.id).inserted }
        var locks = Parameters()
        locks.appendArray(.int64, wanted) { $0.append(int64: $1.id) }
        var results = try connection.pipeline { pipeline in
            if !work.writes.isEmpty { pipeline.send(Statements.writeConnections, .writes(work.writes)) }
            guard !work.asks.isEmpty else { return }
            pipeline.send(Statements.lockClaimQueues, locks)
            pipeline.send(Statements.grantConnections, grants(work.asks, numbers, wanted))
        }
        guard !work.asks.isEmpty else { return [:] }
        let rows = results.take(work.writes.isEmpty ? 1 : 2)
        var outcomes: [Int: Bool] = [:]
        for row in 0..<rows.rowCount { outcomes[Int(rows.int64(row, 0)) - 1] = rows.bool(row, 1) }
        return outcomes
    }

    private func grants(_ asks: [ConnectionRegistry.Ask], _ numbers: [Int64], _ queues: [ClaimQueue])
        -> Parameters
    {
        let sessions = queueState.context.sessions.current
        var parameters = Parameters()
        parameters.appendArray(.int64, queues) { $0.append(int64: $1.id) }
        parameters.appendArray(.int32, queues) { parameters, queue in
            let limit = sessions.share(tenant: queue.tenant, session: queue.session).connectionLimit
            parameters.append(int32: limit.map { Int32(clamping: $0) })
        }
        parameters.appendArray(.int64, numbers) { $0.append(int64: $1) }
        parameters.appendArray(.uuid, asks) { $0.append($1.key.owner.job) }
        parameters.appendArray(.int32, asks) { $0.append(int32: $1.key.owner.attempt) }
        parameters.appendArray(.text, asks) { $0.append(text: $1.key.scope.path) }
        parameters.append(queueState.context.configuration.node)
        parameters.append(float64: queueState.context.configuration.leaseSeconds)
        return parameters
    }

    private mutating func settle(_ work: ConnectionRegistry.Work, _ outcomes: [Int: Bool], _ now: Int64) {
        let granted = work.asks.indices.filter { outcomes[$0] == true }
        let refused = work.asks.indices.filter { outcomes[$0] == false }
        registry.settle(work, granted: granted, refused: refused)
        for index in granted { work.asks[index].reply(.granted) }
        for index in refused { work.asks[index].reply(.refused(hold(work.asks[index]))) }
        let missing = work.asks.indices.filter { outcomes[$0] == nil }.map { work.asks[$0] }
        guard !missing.isEmpty else { return }
        // The claim queues may have been removed: they are looked up again.
        queueState.claimQueues.forget(
            Set(missing.compactMap { queueState.claimQueues.known(name(of: $0))?.id }))
        registry.putBack(asks: missing)
        notBefore = now + Self.lockedPause
    }

    private func hold(_ ask: ConnectionRegistry.Ask) -> HostHold {
        registry.hold(ask.key.scope, ask.session)
    }

    /// Returns the name of the claim queue whose limits apply to the connection.
    private func name(of ask: ConnectionRegistry.Ask) -> ClaimQueueCache.Name {
        let scope = ask.key.scope
        return ClaimQueueCache.Name(
            tenant: scope.tenant, session: ask.session, origin: scope.origin,
            path: queueState.context.configuration.hosts.limitsPath(of: scope) ? scope.path : "")
    }
}

extension Parameters {
    /// The parameters of write_connections.sql.
    fileprivate static func writes(
        _ writes: [(key: ConnectionRegistry.Key, holding: ConnectionRegistry.Holding)]
    ) -> Parameters {
        var parameters = Parameters(capacity: writes.count * 128)
        parameters.appendArray(.text, writes) { $0.append(text: $1.key.scope.origin) }
        parameters.appendArray(.uuid, writes) { $0.append($1.key.owner.job) }
        parameters.appendArray(.int32, writes) { $0.append(int32: $1.key.owner.attempt) }
        parameters.appendArray(.text, writes) { $0.append(text: $1.key.scope.tenant) }
        parameters.appendArray(.text, writes) { $0.append(text: $1.holding.session) }
        parameters.appendArray(.int32, writes) { $0.append(int32: Int32($1.holding.count)) }
        parameters.appendArray(.text, writes) { $0.append(text: $1.key.scope.path) }
        return parameters
    }
}
