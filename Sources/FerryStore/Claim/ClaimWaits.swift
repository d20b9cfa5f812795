import FerryCore
import FerryScheduler
import Postgres

// Jobs that would be leased next and whose hosts nobody reaches: they wait instead, and nothing has begun.
extension Claims {
    /// The parameters of await_hosts.sql.
    var awaiting: Parameters {
        var parameters = Parameters()
        parameters.appendArray(.int64, away) { $0.append(int64: $1.id) }
        parameters.append(int32: Int32(Limits.claimBatchMax))
        parameters.appendArray(.text, HostSignal.unreachableCodes) { $0.append(text: $1.rawValue) }
        parameters.appendArray(.text, HostSignal.unreachableCodes) { $0.append(text: $1.awayErrorJSON) }
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
    /// What jobs say that wait for a host of which others have found this out.
    fileprivate var awayErrorJSON: [UInt8] {
        TransferError(
            self, "Nobody reaches the server; the service looks for it.", phase: phases.first ?? .connecting,
            isRetryable: true
        ).json
    }
}
