package import FerryCore
import Postgres

// Commands of operators, and their audit log.
extension ControlLane {
    /// Pauses or resumes the service: this node at once, other nodes when they are notified. Running
    /// transfers continue.
    package func pause(_ isPaused: Bool, reply: @escaping Reply<Void>) {
        perform("pause", isRead: false, reply) { [self] connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(bool: isPaused)
            _ = try connection.execute(Statements.changePause, parameters)
            try adoptOperatorSettings(&connection)
            return .success(())
        }
    }

    /// Starts or ends the drain of a node and returns its status. Fails with `notFound` if there is no such
    /// node.
    package func drain(_ node: NodeID, _ drains: Bool, reply: @escaping Reply<NodeStatus>) {
        perform("drain", isRead: false, reply) { [self] connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(node)
            parameters.append(bool: drains)
            guard try connection.execute(Statements.changeDrain, parameters).rowCount == 1 else {
                return .failure(.notFound)
            }
            try adoptOperatorSettings(&connection)
            let rows = try connection.execute(Statements.readNodes)
            let nodes = (0..<rows.rowCount).map { NodeStatus(rows, $0) }
            return nodes.first { $0.id == node }.map { .success($0) } ?? .failure(.notFound)
        }
    }

    /// Reloads operator settings. Called when another node has been notified.
    func adoptOperatorSettings() {
        perform("adopt_operator_settings", isRead: true, { (_: Result<Void, StoreError>) in }) {
            [self] connection throws(PostgresError) in
            try adoptOperatorSettings(&connection)
            return .success(())
        }
    }

    private func adoptOperatorSettings(_ connection: inout Connection) throws(PostgresError) {
        let rows = try connection.execute(Statements.readOperations, .operatorSettings(context))
        if let settings = OperatorSettings(rows), context.adopt(settings) { wakeDispatcher() }
    }

    // MARK: Audit

    /// Records that an operator requests something, before it is carried out.
    package func beginAudit(_ entry: AuditEntry, reply: @escaping Reply<Void>) {
        perform("begin_audit", isRead: false, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(entry.id)
            parameters.append(entry.requestedAt)
            parameters.append(entry.key)
            parameters.append(text: entry.operation)
            parameters.append(text: entry.path)
            parameters.append(text: entry.requestID)
            _ = try connection.execute(Statements.beginAudit, parameters)
            return .success(())
        }
    }

    /// Records the outcome of an operator's request. `body`: of a request that was carried out.
    package func endAudit(_ id: AuditID, status: Int, body: [UInt8]?, reply: @escaping Reply<Void>) {
        perform("end_audit", isRead: false, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: Int32(clamping: status))
            parameters.append(text: body)
            _ = try connection.execute(Statements.endAudit, parameters)
            return .success(())
        }
    }

    /// Reads a page of the audit log, newest first.
    package func audit(before: AuditID?, limit: Int, reply: @escaping Reply<[AuditEntry]>) {
        perform("list_audit", isRead: true, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listAudit, parameters)
            return .success((0..<rows.rowCount).map { AuditEntry(rows, $0) })
        }
    }
}

extension OperatorSettings {
    /// Reads the row of read_operations.sql; `nil` if there is none.
    init?(_ rows: borrowing ResultSet) {
        guard rows.rowCount == 1 else { return nil }
        self.init(revision: rows.int64(0, 0), isPaused: rows.bool(0, 1), drains: rows.bool(0, 2))
    }
}

extension AuditEntry {
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            id: rows.identifier(row, 0), requestedAt: rows.instant(row, 1), key: rows.identifierOrNil(row, 2),
            operation: rows.text(row, 3), path: rows.text(row, 4), requestID: rows.text(row, 5),
            status: rows.int32OrNil(row, 6), body: rows.bytesOrNil(row, 7))
        keyName = rows.textOrNil(row, 8)
    }
}

extension Parameters {
    /// The parameters of read_operations.sql.
    static func operatorSettings(_ context: StoreContext) -> Parameters {
        var parameters = Parameters()
        parameters.append(context.configuration.node)
        parameters.append(context.startedAt)
        return parameters
    }
}
