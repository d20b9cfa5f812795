import FerryCore
import FerryScheduler
import Postgres

// Queued jobs of unreachable origins wait for connectivity instead of being leased.
extension Claims {
    /// Returns the first jobs of claim queues whose origins are unreachable, with their claim queues and the
    /// changes that let them wait. No lease and no attempt is used up. Locks them: call in a transaction.
    func lockUnreachable(
        _ connection: inout Connection
    ) throws(PostgresError) -> [JobID: (queue: Int64, change: JobChange)] {
        guard !unreachable.isEmpty else { return [:] }
        var parameters = Parameters()
        parameters.appendArray(.int64, unreachable) { $0.append(int64: $1.id) }
        parameters.append(int32: Int32(Limits.claimBatchMax))
        let rows = try connection.execute(Statements.lockUnreachableJobs, parameters)
        var found: [JobID: (queue: Int64, change: JobChange)] = [:]
        for row in 0..<rows.rowCount {
            let id: JobID = rows.identifier(row, 1)
            var change = JobChange(.loseOrigin, id)
            // An earlier error stays.
            if !rows.bool(row, 3), let code = TransferError.Code(rawValue: rows.text(row, 2)) {
                change.error = code.unreachableError
            }
            found[id] = (rows.int64(row, 0), change)
        }
        return found
    }
}

extension Claims.Outcome {
    /// Notes that a job of a claim queue waits for connectivity now.
    mutating func noteWait(in queue: Int64) {
        diverted.insert(queue)
        awaitedCount += 1
    }
}

extension TransferError.Code {
    /// The error of a job that waits because other jobs have found its origin unreachable.
    fileprivate var unreachableError: Stored<ErrorRecord> {
        let error = TransferError(
            self, "Nobody reaches the server; the service looks for it.", phase: phases.first ?? .connecting,
            isRetryable: true)
        return Stored(error)
    }
}
