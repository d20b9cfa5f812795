package import FerryCore
import Postgres

/// Reads earlier submissions. Any thread.
package final class SubmissionQueries: Sendable {
    private let reads: ReadPool

    init(_ reads: ReadPool) { self.reads = reads }

    /// Returns the first reply to a submission with this key; `nil` if none was accepted. A key that was used
    /// for another kind of request has no such reply.
    package func firstAcceptance(of key: Submission.Idempotency, reply: @escaping Reply<Submission.Accepted?>)
    {
        reads.read("first_answer", of: .tenant(key.tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Submission.Accepted?, StoreError
            > in
            var parameters = Parameters()
            parameters.append(keys: [key], numbered: [0])
            let rows = try connection.execute(Statements.readKeys, parameters)
            guard rows.rowCount == 1 else { return .success(nil) }
            guard rows.bytes(0, 1) == key.fingerprint else { return .failure(.idempotencyKeyReused) }
            return .success(Submission.Accepted(jobs: SubmissionBatch.acceptedJobs(rows, 0), isReplay: true))
        }
    }
}
