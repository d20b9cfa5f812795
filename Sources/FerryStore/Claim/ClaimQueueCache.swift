import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys

/// The numbers of lots as this process has learned them. Any thread.
final class ClaimQueueCache: Sendable {
    struct Name: Hashable, Sendable {
        let tenant: String
        let session: String
        /// Empty: the wide lot.
        let origin: String
        /// Empty: every path that is not limited by itself.
        var path = ""
        /// The only node that can do its jobs; nil: any.
        var home: NodeID?
    }

    /// About 10 MB.
    private static let countMax = 50_000
    /// Nanoseconds after which everything is learned anew. A lot without jobs is removed when nobody has
    /// learned of it for much longer (`Heartbeat`).
    private static let lifetime: Int64 = 600_000_000_000

    private struct State {
        var lots: [Name: ClaimQueue] = [:]
        var bornAt: Int64 = 0
    }
    private let state = Mutex(State())

    /// Nil also when it was learned too long ago.
    func known(_ name: Name) -> ClaimQueue? {
        state.withLock { state in
            guard let lot = state.lots[name] else { return nil }
            guard Sys.monotonicNanoseconds() - state.bornAt <= Self.lifetime else {
                state = State()
                return nil
            }
            return lot
        }
    }

    /// They are not there.
    func forget(_ numbers: Set<Int64>) {
        state.withLock { state in state.lots = state.lots.filter { !numbers.contains($0.value.id) } }
    }

    /// The lots of these names, of which those that nobody knows are asked for. `isCommitted`: what is made
    /// here stays, whatever becomes of the caller's transaction.
    func find(
        _ names: some Collection<Name>, _ connection: inout Connection, isCommitted: Bool
    ) throws(PostgresError) -> [Name: ClaimQueue] {
        var found: [Name: ClaimQueue] = [:]
        var missing: Set<Name> = []
        state.withLock { state in
            let now = Sys.monotonicNanoseconds()
            if state.lots.isEmpty || state.lots.count > Self.countMax || now - state.bornAt > Self.lifetime {
                state = State(lots: [:], bornAt: now)
            }
            for name in names {
                if let lot = state.lots[name] { found[name] = lot } else { missing.insert(name) }
            }
        }
        guard !missing.isEmpty else { return found }
        var parameters = Parameters()
        parameters.appendArray(.text, missing) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, missing) { $0.append(text: $1.session) }
        parameters.appendArray(.text, missing) { $0.append(text: $1.origin) }
        parameters.appendArray(.uuid, missing) { $0.append($1.home) }
        parameters.appendArray(.text, missing) { $0.append(text: $1.path) }
        let rows = try connection.execute(Statements.findLots, parameters)
        for row in 0..<rows.rowCount {
            let lot = ClaimQueue(rows, row, at: 0)
            found[Name(lot)] = lot
        }
        if isCommitted { state.withLock { [found] in $0.lots.merge(found) { $1 } } }
        return found
    }
}

extension ClaimQueueCache.Name {
    init(_ lot: ClaimQueue) {
        self.init(
            tenant: lot.tenant, session: lot.session, origin: lot.origin ?? "", path: lot.path, home: lot.home
        )
    }
}

extension ClaimQueue {
    /// Reads number, tenant, session, origin, node and path from six columns.
    init(_ rows: borrowing ResultSet, _ row: Int, at column: Int) {
        let origin = rows.text(row, column + 3)
        self.init(
            id: rows.int64(row, column), tenant: rows.text(row, column + 1),
            session: rows.text(row, column + 2), origin: origin.isEmpty ? nil : origin,
            path: rows.text(row, column + 5), home: rows.identifierOrNil(row, column + 4))
    }
}

/// What a session's configuration says about its place in the queue.
struct SessionShare: Sendable, Equatable {
    var weight = 1.0
    /// Connections to one host; nil: no limit.
    var connectionLimit: Int?
}

extension SessionSnapshot {
    func share(tenant: String, session: String) -> SessionShare {
        guard let record = record(tenant, session) else { return SessionShare() }
        let configuration = record.configuration
        return SessionShare(
            weight: configuration.weight, connectionLimit: configuration.connectionsPerHostMax)
    }
}

extension StoreContext {
    /// The lot that a job belongs to: a narrow one if something limits it. `home`: the only node that can do
    /// it.
    func lotName(
        _ scope: RequestScope, session: String, home: NodeID? = nil, _ sessions: SessionSnapshot
    ) -> ClaimQueueCache.Name {
        let hosts = configuration.hosts
        let limitsPath = hosts.limitsPath(of: scope)
        let isLimited =
            limitsPath || hosts.limit(of: scope) != nil
            || sessions.share(tenant: scope.tenant, session: session).connectionLimit != nil
        return ClaimQueueCache.Name(
            tenant: scope.tenant, session: session, origin: isLimited ? scope.origin : "",
            path: limitsPath ? scope.path : "", home: home)
    }

    /// The scope of a request to `url` with these secrets.
    func scope(tenant: String, url: String, origin: String, _ secrets: JobSecrets) -> RequestScope {
        let credentials = secrets.credentialBytes.map { configuration.hashCredentials($0) }
        return RequestScope(
            tenant: tenant, origin: origin, path: RequestScope.path(ofURL: url, credentials: credentials))
    }

    func scope(of job: NewJob) -> RequestScope {
        scope(tenant: job.tenant, url: job.spec.request.url, origin: job.origin, job.secrets)
    }

    /// The wide lots of limited sessions, as far as jobs of them were seen here.
    func limitedLots(_ sessions: SessionSnapshot) -> [Int64] {
        sessions.records.compactMap { key, record in
            guard record.configuration.connectionsPerHostMax != nil else { return nil }
            return lots.known(.init(tenant: key.tenant, session: key.name, origin: ""))?.id
        }
    }
}
