import FerryCore
import Logging
import Postgres

/// Reads what has changed in the cookies of sessions since this node has read or written them.
struct CookieReading {
    private let storages: [CookieStorage]

    init(_ storages: [CookieStorage]) { self.storages = storages }

    /// Reads the cookies of the attempts' sessions.
    init(for attempts: some Sequence<AttemptSession>) {
        var found: [ObjectIdentifier: CookieStorage] = [:]
        for attempt in attempts { found[ObjectIdentifier(attempt.cookies)] = attempt.cookies }
        storages = Array(found.values)
    }

    var isEmpty: Bool { storages.isEmpty }

    /// The parameters of changed_cookies.sql.
    var parameters: Parameters {
        var parameters = Parameters()
        parameters.appendArray(.text, storages) { $0.append(text: $1.session.tenant) }
        parameters.appendArray(.text, storages) { $0.append(text: $1.session.name) }
        parameters.appendArray(.int64, storages) { $0.append(int64: $1.version) }
        return parameters
    }

    /// Takes the rows of changed_cookies.sql.
    func take(_ rows: borrowing ResultSet, _ context: StoreContext) {
        var read: [Int: (cookies: [Cookie], version: Int64, isWhole: Bool)] = [:]
        for row in 0..<rows.rowCount {
            let index = Int(rows.int64(row, 0)) - 1
            var found = read.removeValue(forKey: index) ?? ([], rows.int64(row, 1), rows.bool(row, 2))
            if let sealed = rows.bytesOrNil(row, 3),
                let cookie = Self.cookie(sealed, of: storages[index].session, context)
            {
                found.cookies.append(cookie)
            }
            read[index] = found
        }
        for (index, found) in read {
            storages[index].apply(
                found.cookies, version: found.version, isWhole: found.isWhole, now: context.clock.now())
        }
        for storage in storages { context.cookies.noteRead(storage) }
    }

    /// Reads the cookies in a statement of its own.
    func run(_ connection: inout Connection, _ context: StoreContext) throws(PostgresError) {
        guard !isEmpty else { return }
        take(try connection.execute(Statements.changedCookies, parameters), context)
    }

    /// Opens a sealed cookie; `nil` if it is damaged or encrypted with another key.
    private static func cookie(
        _ sealed: [UInt8], of session: SessionKey, _ context: StoreContext
    ) -> Cookie? {
        let cookie = context.configuration.seal.open(sealed).flatMap { try? Cookie(stored: $0) }
        if cookie == nil {
            context.logger.error(
                "a cookie cannot be read and is not sent",
                metadata: ["tenant": "\(session.tenant)", "session": "\(session.name)"])
        }
        return cookie
    }
}
