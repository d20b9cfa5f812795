import FerryCore
import Postgres

/// Changes of cookies that one transaction writes. After it, `confirm` or `putBack` is called once.
struct CookieWriting {
    private let changes: [(storage: CookieStorage, changes: [CookieChange])]

    /// Takes the changes of all sessions that are not written yet.
    init(allOf storages: CookieStorages) { changes = storages.takeChanges() }

    /// Takes the changes of one session.
    init(of storage: CookieStorage) {
        let taken = storage.takeChanges()
        changes = taken.isEmpty ? [] : [(storage, taken)]
    }

    var isEmpty: Bool { changes.isEmpty }

    /// Returns the parameters of store_cookies.sql.
    func parameters(_ context: StoreContext) -> Parameters {
        let seal = context.configuration.seal
        let rows = changes.flatMap { change in change.changes.map { (change.storage, $0) } }
        var parameters = Parameters()
        parameters.appendArray(.text, rows) { $0.append(text: $1.0.session.tenant) }
        parameters.appendArray(.text, rows) { $0.append(text: $1.0.session.name) }
        parameters.appendArray(.timestamp, rows) { $0.append($1.0.createdAt) }
        parameters.appendArray(.bytea, rows) { $0.append(bytea: $1.1.key.octets) }
        parameters.appendArray(.bytea, rows) { $0.append(bytea: $1.1.cookie.map { seal.seal($0.stored) }) }
        parameters.appendArray(.timestamp, rows) { $0.append($1.1.cookie?.expiresAt) }
        parameters.append(context.clock.now())
        return parameters
    }

    /// Writes the changes in a transaction of their own.
    func run(_ connection: inout Connection, _ context: StoreContext) throws(PostgresError) {
        guard !isEmpty else { return }
        do throws(PostgresError) {
            let rows = try connection.execute(Statements.storeCookies, parameters(context))
            confirm(Self.versions(rows))
        } catch {
            putBack()
            throw error
        }
    }

    /// Reads the rows of store_cookies.sql.
    static func versions(_ rows: borrowing ResultSet) -> [SessionKey: Int64] {
        var versions: [SessionKey: Int64] = [:]
        for row in 0..<rows.rowCount {
            versions[SessionKey(tenant: rows.text(row, 0), name: rows.text(row, 1))] = rows.int64(row, 2)
        }
        return versions
    }

    /// Notes that the transaction is committed. Sessions without a version were removed.
    func confirm(_ versions: [SessionKey: Int64]) {
        for (storage, changes) in changes {
            storage.confirm(changes, version: versions[storage.session] ?? storage.version)
        }
    }

    /// Notes that the transaction has failed, or that its outcome is unknown.
    func putBack() {
        for (storage, changes) in changes { storage.putBack(changes) }
    }
}

extension CookieChange {
    /// The cookie, or `nil` if it is gone.
    fileprivate var cookie: Cookie? {
        switch self {
        case .stored(let cookie): cookie
        case .removed: nil
        }
    }
}
