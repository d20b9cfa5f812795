import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys

/// The numbers of lots as this process has learned them. Any thread.
final class LotBook: Sendable {
    struct Name: Hashable, Sendable {
        let tenant: String
        let session: String
        /// Empty: the wide lot.
        let origin: String
        /// The only node that can do its jobs; nil: any.
        var home: NodeID?
    }

    /// About 10 MB.
    private static let countMax = 50_000
    /// Nanoseconds after which everything is learned anew. A lot without jobs is removed when nobody has
    /// learned of it for much longer (`WatchLane`).
    private static let lifetime: Int64 = 600_000_000_000

    private struct State {
        var lots: [Name: Lot] = [:]
        var bornAt: Int64 = 0
    }
    private let state = Mutex(State())

    /// Nil also when it was learned too long ago.
    func known(_ name: Name) -> Lot? {
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
    ) throws(PostgresError) -> [Name: Lot] {
        var found: [Name: Lot] = [:]
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
        let rows = try connection.execute(Statements.findLots, parameters)
        for row in 0..<rows.rowCount {
            let lot = Lot(rows, row, at: 0)
            found[Name(lot)] = lot
        }
        if isCommitted { state.withLock { [found] in $0.lots.merge(found) { $1 } } }
        return found
    }
}

extension LotBook.Name {
    init(_ lot: Lot) {
        self.init(tenant: lot.tenant, session: lot.session, origin: lot.origin ?? "", home: lot.home)
    }
}

extension Lot {
    /// Reads number, tenant, session, origin and node from five columns.
    init(_ rows: borrowing ResultSet, _ row: Int, at column: Int) {
        let origin = rows.text(row, column + 3)
        self.init(
            id: rows.int64(row, column), tenant: rows.text(row, column + 1),
            session: rows.text(row, column + 2), origin: origin.isEmpty ? nil : origin,
            home: rows.identifierOrNil(row, column + 4))
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
    /// The lot that a job belongs to: a narrow one when something limits it. `home`: the only node that can
    /// do it.
    func lotName(
        tenant: String, session: String, origin: String, home: NodeID? = nil, _ sessions: SessionSnapshot
    ) -> LotBook.Name {
        let isLimited =
            configuration.hosts.limit(of: origin) != nil
            || sessions.share(tenant: tenant, session: session).connectionLimit != nil
        return LotBook.Name(tenant: tenant, session: session, origin: isLimited ? origin : "", home: home)
    }

    /// The wide lots of limited sessions, as far as jobs of them were seen here.
    func limitedLots(_ sessions: SessionSnapshot) -> [Int64] {
        sessions.records.compactMap { key, record in
            guard record.configuration.connectionsPerHostMax != nil else { return nil }
            return lots.known(.init(tenant: key.tenant, session: key.name, origin: ""))?.id
        }
    }
}
