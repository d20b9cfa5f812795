import FerryCore
import Postgres

/// Settings of the service that are stored in the database. Any thread.
final class Settings: Sendable {
    private let reads: ReadPool

    init(_ reads: ReadPool) {
        self.reads = reads
    }

    /// Reads the value of a setting; `nil` if it is not set.
    func value(of name: String, reply: @escaping Reply<[UInt8]?>) {
        reads.read("setting", of: .service, reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(text: name)
            let rows = try connection.execute(Statements.readSetting, parameters)
            return .success(rows.rowCount == 1 ? rows.bytes(0, 0) : nil)
        }
    }

    /// Writes a setting unless it is set. Returns the value that is stored; `nil` if it could not be read.
    static func put(
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
