import FerryCore
import FerryScheduler
import Postgres

// Queued jobs of unreachable origins wait for connectivity instead of being leased.
extension Claims {
    /// The parameters of await_hosts.sql.
    var waitParameters: Parameters {
        var parameters = Parameters()
        parameters.appendArray(.int64, unreachable) { $0.append(int64: $1.id) }
        parameters.append(int32: Int32(Limits.claimBatchMax))
        parameters.appendArray(.text, HostSignal.unreachableCodes) { $0.append(text: $1.rawValue) }
        parameters.appendArray(.text, HostSignal.unreachableCodes) {
            $0.append(text: $1.unreachableErrorJSON)
        }
        return parameters
    }
}

extension Claims.Outcome {
    mutating func read(awaited rows: borrowing ResultSet) {
        for row in 0..<rows.rowCount {
            diverted.insert(rows.int64(row, 0))
            awaitedCount += Int(rows.int64(row, 1))
        }
    }
}

extension TransferError.Code {
    /// The error of a job that waits because other jobs have found its origin unreachable.
    fileprivate var unreachableErrorJSON: [UInt8] {
        TransferError(
            self, "Nobody reaches the server; the service looks for it.", phase: phases.first ?? .connecting,
            isRetryable: true
        ).json
    }
}
