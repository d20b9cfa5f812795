import FerryCore
import Postgres

extension StoreContext {
    /// Reads jobs by id. `withBodies`: includes bodies, payloads and secrets.
    func jobs(
        _ ids: [JobID], withBodies: Bool = true, _ connection: inout Connection
    ) throws(PostgresError) -> [JobID: StoredJob] {
        var parameters = Parameters()
        parameters.appendArray(.uuid, ids) { $0.append($1) }
        parameters.append(bool: withBodies)
        let rows = try connection.execute(Statements.readJobs, parameters)
        var found: [JobID: StoredJob] = [:]
        for row in 0..<rows.rowCount {
            guard let stored = StoredJob(rows, row, isWide: true, damagedRows) else { continue }
            found[stored.record.id] = stored
        }
        return found
    }

    /// Reads one job; `nil` if there is none.
    func job(
        _ id: JobID, withBodies: Bool = true, _ connection: inout Connection
    ) throws(PostgresError) -> StoredJob? {
        try jobs([id], withBodies: withBodies, &connection)[id]
    }
}
