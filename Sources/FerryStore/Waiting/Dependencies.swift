package import FerryCore
import Postgres
import Sys

/// Prepares jobs for others that depend on them. Any thread.
package final class Dependencies: Sendable {
    private let commands: CommandQueue

    init(_ commands: CommandQueue) {
        self.commands = commands
    }

    /// Attempts to mark rows that other transactions have locked, and the pause between two attempts in
    /// milliseconds.
    private static let flagAttemptMax = 50
    private static let flagPause: Int32 = 4

    /// Marks the jobs so that their end is reported to their dependents. Must complete before jobs that
    /// depend on them are submitted. Replies with the jobs that the tenant does not have; `unavailable` if
    /// rows stay locked for 0.2 s.
    package func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        commands.perform("prepare_dependencies", reply) { connection throws(PostgresError) in
            try Self.mark(jobs, tenant: tenant, &connection)
        }
    }

    /// Marks the jobs, as `prepareDependencies`.
    static func mark(
        _ jobs: [JobID], tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Result<[JobID], StoreError> {
        var left = Set(jobs)
        let pause = Mailbox<Never>()
        for _ in 0..<flagAttemptMax {
            var parameters = Parameters.identifiers(Array(left))
            parameters.append(text: tenant)
            let rows = try connection.execute(Statements.flagDependencies, parameters)
            var busy: Set<JobID> = []
            for row in 0..<rows.rowCount {
                let id: JobID = rows.identifier(row, 0)
                left.remove(id)
                if !rows.bool(row, 1) { busy.insert(id) }
            }
            if !left.isEmpty { return .success(jobs.filter(left.contains)) }
            if busy.isEmpty { return .success([]) }
            left = busy
            _ = pause.wait(milliseconds: flagPause)
        }
        return .failure(.unavailable)
    }
}
