package import FerryCore
import Postgres

// Deliveries, API keys and settings.
extension ControlLane {
    /// Reads a page of the deliveries of a job or an endpoint with their tries, newest first. `state` and
    /// `type` filter them if given.
    package func deliveries(
        of subject: DeliverySubject, tenant: String, state: DeliveryRecord.State? = nil, type: String? = nil,
        before: DeliveryID? = nil, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        let page = DeliveryListReading(
            subject: subject, tenant: tenant, state: state, type: type, limit: limit, before: before ?? .last)
        reads.readPage("list_deliveries", of: .tenant(tenant), page, reply)
    }

    /// Reads a delivery with its tries.
    package func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        read("delivery", for: tenant, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            let found = DeliveryRecord.all(try connection.execute(Statements.readDelivery, parameters))
            return found.first.map { .success($0) } ?? .failure(.notFound)
        }
    }

    /// Makes a delivery due at once, whatever its state is.
    package func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<Void>) {
        let context = context
        perform("redeliver", isRead: false, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            guard try connection.execute(Statements.redeliver, parameters).rowCount == 1 else {
                return .failure(.notFound)
            }
            context.commitObserver?.deliveriesAdded(1)
            return .success(())
        }
    }

    // MARK: Keys

    /// Creates a key, unless one with the same hash exists.
    package func createKey(_ key: APIKey, reply: @escaping Reply<Void>) {
        createKey(NewKey(key)) { reply($0.map { _ in }) }
    }

    /// Creates a key, or finds the one that the first request with the same idempotency key created.
    package func createKey(_ new: NewKey, reply: @escaping Reply<KeyCreation>) {
        let node = context.configuration.node
        perform("create_key", isRead: false, reply) {
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
        let node = context.configuration.node
        perform("create_first_key", isRead: false, reply) { connection throws(PostgresError) in
            let isSettled = try connection.transaction { connection throws(PostgresError) in
                guard let first = try Self.putSetting("first_admin_key", key.hash, &connection) else {
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
        perform("all_keys", isRead: true, reply) { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.allKeys)
            return .success((0..<rows.rowCount).map { APIKey(rows, $0) })
        }
    }

    /// Reads a page of keys, including revoked ones, newest first.
    package func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>) {
        perform("list_keys", isRead: true, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listKeys, parameters)
            return .success((0..<rows.rowCount).map { APIKey(rows, $0) })
        }
    }

    /// Reads a key, revoked or not.
    package func key(_ id: KeyID, reply: @escaping Reply<APIKey>) {
        perform("read_key", isRead: true, reply) { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.readKey, .identifier(id))
            return rows.rowCount == 1 ? .success(APIKey(rows, 0)) : .failure(.notFound)
        }
    }

    /// Revokes a key for good. Fails with `notFound` if there is no such key, or it was revoked before.
    package func revokeKey(_ id: KeyID, reply: @escaping Reply<Void>) {
        perform("revoke_key", isRead: false, reply) { connection throws(PostgresError) in
            let changed = try connection.execute(Statements.revokeKey, .identifier(id))
            return changed.affectedRowCount == 1 ? .success(()) : .failure(.notFound)
        }
    }

    // MARK: Settings

    /// Reads the value of a setting; `nil` if it is not set.
    package func setting(_ name: String, reply: @escaping Reply<[UInt8]?>) {
        perform("setting", isRead: true, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(text: name)
            let rows = try connection.execute(Statements.readSetting, parameters)
            return .success(rows.rowCount == 1 ? rows.bytes(0, 0) : nil)
        }
    }

    /// Writes a setting unless it is set. Returns the value that is stored; `nil` if it could not be read.
    static func putSetting(
        _ name: String, _ value: [UInt8], _ connection: inout Connection
    ) throws(PostgresError) -> [UInt8]? {
        var parameters = Parameters()
        parameters.append(text: name)
        parameters.append(bytea: value)
        // A value that another transaction inserts at the same time may be invisible to the first statement.
        for _ in 0..<3 {
            let rows = try connection.execute(Statements.putSetting, parameters)
            if rows.rowCount == 1 { return rows.bytes(0, 0) }
        }
        return nil
    }
}

/// The job or endpoint whose deliveries are listed.
package enum DeliverySubject: Sendable {
    case job(JobID)
    case webhook(WebhookID)
}

/// State of a page of deliveries that is read in several turns.
private struct DeliveryListReading: ListReading {
    let subject: DeliverySubject
    let tenant: String
    let state: DeliveryRecord.State?
    let type: String?
    let limit: Int
    /// Where the next turn begins.
    var before: DeliveryID
    private var records: [DeliveryRecord] = []
    private var scan = ListScan()
    private(set) var value: ListPage<DeliveryRecord, DeliveryKindTag>?

    init(
        subject: DeliverySubject, tenant: String, state: DeliveryRecord.State?, type: String?, limit: Int,
        before: DeliveryID
    ) {
        (self.subject, self.tenant, self.state, self.type) = (subject, tenant, state, type)
        (self.limit, self.before) = (limit, before)
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        let rowCount = scan.turnRowCount
        let rows = try connection.execute(Statements.listDeliveries, parameters(rowCount))
        var stoppedAt: DeliveryID?
        if rows.rowCount > 0, rows.int64(rows.rowCount - 1, 18) == Int64(rowCount) {
            stoppedAt = rows.identifier(rows.rowCount - 1, 0)
        }
        records += DeliveryRecord.all(rows)
        guard records.count < limit, let stoppedAt else {
            return value = ListPage(records)
        }
        before = stoppedAt
        if !scan.add(rowCount) { value = ListPage(records, stoppedAt: stoppedAt) }
    }

    private func parameters(_ rowCount: Int) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: tenant)
        parameters.append(before)
        var (job, webhook): (JobID?, WebhookID?)
        switch subject {
        case .job(let id): job = id
        case .webhook(let id): webhook = id
        }
        parameters.append(job)
        parameters.append(text: state?.rawValue)
        parameters.append(int32: Int32(clamping: limit - records.count))
        parameters.append(webhook)
        parameters.append(text: type)
        parameters.append(int32: Int32(rowCount))
        return parameters
    }
}

extension DeliveryRecord {
    /// Reads rows of list_deliveries.sql: one for each try, or one that only says how far the list was
    /// scanned.
    fileprivate static func all(_ rows: borrowing ResultSet) -> [DeliveryRecord] {
        var all: [DeliveryRecord] = []
        for row in 0..<rows.rowCount where !rows.isNull(row, 1) {
            let delivery = DeliveryRecord(rows, row)
            if all.last?.id != delivery.id { all.append(delivery) }
            if !rows.isNull(row, 12) { all[all.count - 1].tries.append(Try(rows, row)) }
        }
        return all
    }

    private init(_ rows: borrowing ResultSet, _ row: Int) {
        let state = State(rawValue: rows.text(row, 9)) ?? .givenUp
        self.init(
            id: rows.identifier(row, 0), event: rows.identifier(row, 1), type: rows.text(row, 2),
            tenant: rows.text(row, 3), session: rows.text(row, 4), job: rows.identifierOrNil(row, 5),
            webhook: rows.identifierOrNil(row, 11), sequence: rows.int64(row, 6),
            occurredAt: rows.instant(row, 7), url: rows.text(row, 8),
            state: state, nextTryAt: state == .pending ? rows.instant(row, 10) : nil)
    }
}

extension DeliveryRecord.Try {
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            number: rows.int32(row, 12), startedAt: rows.instant(row, 13), duration: rows.float64(row, 14),
            status: rows.int32OrNil(row, 15), error: rows.textOrNil(row, 16), answer: rows.text(row, 17))
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
