import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys

/// The claim queues (rows of the table `queues`) that this process knows, by name. Any thread.
final class ClaimQueueCache: Sendable {
    struct Name: Hashable, Sendable {
        let tenant: String
        let session: String
        /// Empty for a wide claim queue: all origins of the session that nothing limits.
        let origin: String
        /// Empty for every path that has no limit of its own.
        var path = ""
        /// The only node that can run its jobs; `nil` for any node.
        var home: NodeID?
    }

    /// About 10 MB.
    private static let countMax = 50_000
    /// Nanoseconds after which all entries are read again. A claim queue without jobs is removed after a much
    /// longer time without a reader (`Reaper`).
    private static let lifetime: Int64 = 600_000_000_000

    private struct State {
        var queues: [Name: ClaimQueue] = [:]
        var bornAt: Int64 = 0
    }
    private let state = Mutex(State())

    /// Returns the claim queue of that name; `nil` if it is unknown or was read too long ago.
    func known(_ name: Name) -> ClaimQueue? {
        state.withLock { state in
            guard let queue = state.queues[name] else { return nil }
            guard Sys.monotonicNanoseconds() - state.bornAt <= Self.lifetime else {
                state = State()
                return nil
            }
            return queue
        }
    }

    /// The wide claim queues that any node can claim from.
    var wide: [ClaimQueue] {
        state.withLock { $0.queues.values.filter { $0.origin == nil && $0.home == nil } }
    }

    /// Forgets claim queues that do not exist.
    func forget(_ numbers: Set<Int64>) {
        state.withLock { state in state.queues = state.queues.filter { !numbers.contains($0.value.id) } }
    }

    /// Returns the claim queues of these names; reads or creates the unknown ones in the database.
    /// `isCommitted`: the statement commits by itself, so that the result may be remembered.
    func find(
        _ names: some Collection<Name>, _ connection: inout Connection, isCommitted: Bool
    ) throws(PostgresError) -> [Name: ClaimQueue] {
        var found: [Name: ClaimQueue] = [:]
        var missing: Set<Name> = []
        state.withLock { state in
            let now = Sys.monotonicNanoseconds()
            if state.queues.isEmpty || state.queues.count > Self.countMax
                || now - state.bornAt > Self.lifetime
            {
                state = State(queues: [:], bornAt: now)
            }
            for name in names {
                if let queue = state.queues[name] { found[name] = queue } else { missing.insert(name) }
            }
        }
        guard !missing.isEmpty else { return found }
        var parameters = Parameters()
        parameters.appendArray(.text, missing) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, missing) { $0.append(text: $1.session) }
        parameters.appendArray(.text, missing) { $0.append(text: $1.origin) }
        parameters.appendArray(.uuid, missing) { $0.append($1.home) }
        parameters.appendArray(.text, missing) { $0.append(text: $1.path) }
        let rows = try connection.execute(Statements.findClaimQueues, parameters)
        for row in 0..<rows.rowCount {
            let queue = ClaimQueue(rows, row, at: 0)
            found[Name(queue)] = queue
        }
        if isCommitted { state.withLock { [found] in $0.queues.merge(found) { $1 } } }
        return found
    }
}

extension ClaimQueueCache.Name {
    init(_ queue: ClaimQueue) {
        self.init(
            tenant: queue.tenant, session: queue.session, origin: queue.origin ?? "", path: queue.path,
            home: queue.home
        )
    }
}

extension ClaimQueue {
    /// Reads number, tenant, session, origin, node and path from six columns, the first of them `column`.
    init(_ rows: borrowing ResultSet, _ row: Int, at column: Int) {
        let origin = rows.text(row, column + 3)
        self.init(
            id: rows.int64(row, column), tenant: rows.text(row, column + 1),
            session: rows.text(row, column + 2), origin: origin.isEmpty ? nil : origin,
            path: rows.text(row, column + 5), home: rows.identifierOrNil(row, column + 4))
    }
}

extension QueueState {
    /// Returns the name of a job's claim queue: a narrow one if a limit applies to the job. `home` is the
    /// only node that can run it.
    func claimQueueName(
        _ scope: RequestScope, session: String, home: NodeID? = nil, _ sessions: SessionSnapshot
    ) -> ClaimQueueCache.Name {
        let hosts = context.configuration.hosts
        let limitsPath = hosts.limitsPath(of: scope)
        let isLimited =
            limitsPath || hosts.limit(of: scope) != nil
            || sessions.share(tenant: scope.tenant, session: session).connectionLimit != nil
        return ClaimQueueCache.Name(
            tenant: scope.tenant, session: session, origin: isLimited ? scope.origin : "",
            path: limitsPath ? scope.path : "", home: home)
    }

    /// Returns the scope of a request to `url` with these secrets.
    func scope(tenant: String, url: String, origin: String, _ secrets: JobSecrets) -> RequestScope {
        let credentials = secrets.credentialBytes.map { context.configuration.hashCredentials($0) }
        return RequestScope(
            tenant: tenant, origin: origin, path: RequestScope.path(ofURL: url, credentials: credentials))
    }

    func scope(of job: NewJob) -> RequestScope {
        guard let bytes = job.request.secrets.credentialBytes else { return job.scope }
        let path = job.scope.path + "#" + context.configuration.hashCredentials(bytes)
        return RequestScope(tenant: job.tenant, origin: job.origin, path: path)
    }

    /// The wide claim queues of sessions with a connection limit, as far as this process knows them.
    func limitedQueues(_ sessions: SessionSnapshot) -> [Int64] {
        claimQueues.wide.filter {
            sessions.share(tenant: $0.tenant, session: $0.session).connectionLimit != nil
        }.map(\.id)
    }
}
