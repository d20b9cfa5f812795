package import FerryCore
import Postgres

/// Reads, creates and revokes API keys. Any thread.
package final class KeyCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let node: NodeID

    init(_ commands: CommandQueue, _ reads: ReadPool, node: NodeID) {
        self.commands = commands
        self.reads = reads
        self.node = node
    }

    /// Creates a key, unless one with the same hash exists.
    package func createKey(_ key: APIKey, reply: @escaping Reply<Void>) {
        createKey(NewKey(key)) { reply($0.map { _ in }) }
    }

    /// Creates a key, or finds the one that the first request with the same idempotency key created.
    package func createKey(_ new: NewKey, reply: @escaping Reply<KeyCreation>) {
        let node = node
        commands.perform("create_key", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<KeyCreation, StoreError> in
            let rows = try connection.execute(Statements.createKey, .new(new, node: node))
            if rows.bool(0, 0) { return .success(.made) }
            var parameters = Parameters()
            for text in [new.idempotency?.tenant, new.idempotency?.key] {
                parameters.append(text: text)
            }
            let first = try connection.execute(Statements.readFirstKey, parameters)
            // Housekeeping has just removed the idempotency key; the client's next attempt will find it free.
            guard first.rowCount == 1 else { return .failure(.idempotencyKeyInProgress) }
            guard first.bytes(0, 7) == new.idempotency?.fingerprint else {
                return .failure(.idempotencyKeyReused)
            }
            return .success(.known(APIKey(first, 0), sealedText: first.bytes(0, 8)))
        }
    }

    /// Creates the first key of the service, unless a node has created one, and calls `show` before the
    /// commit. A key that was not shown is therefore never stored: if this process ends in between, the next
    /// start creates another one. Nodes that start at the same time wait for each other here, so that only
    /// one shows its key.
    package func createFirstKey(
        _ key: APIKey, show: @escaping @Sendable () -> Void, reply: @escaping Reply<Void>
    ) {
        let node = node
        commands.perform("create_first_key", reply) { connection throws(PostgresError) in
            let isSettled = try connection.transaction { connection throws(PostgresError) in
                guard let first = try Settings.put("first_admin_key", key.hash, &connection) else {
                    return false
                }
                guard first == key.hash else { return true }
                _ = try connection.execute(Statements.createKey, .new(NewKey(key), node: node))
                show()
                return true
            }
            return isSettled ? .success(()) : .failure(.unavailable)
        }
    }

    /// Reads all keys, including revoked ones.
    package func keys(reply: @escaping Reply<[APIKey]>) {
        reads.read("all_keys", of: .service, reply) { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.allKeys)
            return .success((0..<rows.rowCount).map { APIKey(rows, $0) })
        }
    }

    /// Reads a page of keys, including revoked ones, newest first.
    package func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>) {
        reads.read("list_keys", of: .service, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listKeys, parameters)
            return .success((0..<rows.rowCount).map { APIKey(rows, $0) })
        }
    }

    /// Reads a key, revoked or not.
    package func key(_ id: KeyID, reply: @escaping Reply<APIKey>) {
        reads.read("read_key", of: .service, reply) { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.readKey, .identifier(id))
            return rows.rowCount == 1 ? .success(APIKey(rows, 0)) : .failure(.notFound)
        }
    }

    /// Revokes a key for good. Fails with `notFound` if there is no such key, or it was revoked before.
    package func revokeKey(_ id: KeyID, reply: @escaping Reply<Void>) {
        commands.perform("revoke_key", reply) { connection throws(PostgresError) in
            let changed = try connection.execute(Statements.revokeKey, .identifier(id))
            return changed.affectedRowCount == 1 ? .success(()) : .failure(.notFound)
        }
    }
}

extension Parameters {
    /// The parameters of create_key.sql.
    fileprivate static func new(_ new: NewKey, node: NodeID) -> Parameters {
        let key = new.key
        var parameters = Parameters()
        parameters.append(key.id)
        parameters.append(text: key.tenant)
        parameters.append(text: key.role.rawValue)
        parameters.append(text: key.name)
        parameters.append(bytea: key.hash)
        parameters.append(key.createdAt)
        parameters.append(text: new.idempotency?.tenant)
        parameters.append(text: new.idempotency?.route)
        parameters.append(text: new.idempotency?.key)
        parameters.append(bytea: new.idempotency?.fingerprint)
        parameters.append(bytea: new.sealedText)
        parameters.append(node)
        return parameters
    }
}

extension APIKey {
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1),
            role: Role(rawValue: rows.text(row, 2)) ?? .viewer,
            name: rows.text(row, 3), hash: rows.bytes(row, 4), createdAt: rows.instant(row, 5),
            revokedAt: rows.instantOrNil(row, 6))
    }
}
