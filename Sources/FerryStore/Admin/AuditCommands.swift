package import FerryCore
import Postgres

/// Writes and reads the log of requests of operators. Any thread.
package final class AuditCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool

    init(_ commands: CommandQueue, _ reads: ReadPool) {
        self.commands = commands
        self.reads = reads
    }

    /// Records that an operator requests something, before it is carried out.
    package func beginAudit(_ entry: AuditEntry, reply: @escaping Reply<Void>) {
        commands.perform("begin_audit", reply) { connection throws(PostgresError) in
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
        commands.perform("end_audit", reply) { connection throws(PostgresError) in
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
        reads.read("list_audit", of: .service, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listAudit, parameters)
            return .success((0..<rows.rowCount).map { AuditEntry(rows, $0) })
        }
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
