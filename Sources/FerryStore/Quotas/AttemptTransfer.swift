import FerryCore
import Postgres

/// Bytes of bodies that an ended attempt has received and sent, of a tenant with a limit of bytes in a day.
struct AttemptTransfer: Sendable {
    let job: JobID
    let attempt: Int32
    let tenant: String
    let byteCount: Int64

    /// `nil` if the bytes of the tenant are not counted, or there are none.
    init?(_ result: AttemptResult, _ quotas: TenantQuotas) {
        let byteCount = result.trace?.transactions.bodyByteCount ?? 0
        guard byteCount > 0, quotas.countsTransfers(of: result.attempt.tenant) else { return nil }
        (job, attempt) = (result.attempt.job, result.attempt.number)
        tenant = result.attempt.tenant
        self.byteCount = byteCount
    }
}

extension Parameters {
    /// The parameters of count_transfers.sql.
    static func transfers(_ transfers: [AttemptTransfer], of node: NodeID) -> Parameters {
        var parameters = identifier(node)
        parameters.appendArray(.uuid, transfers) { $0.append($1.job) }
        parameters.appendArray(.int32, transfers) { $0.append(int32: $1.attempt) }
        parameters.appendArray(.text, transfers) { $0.append(text: $1.tenant) }
        parameters.appendArray(.int64, transfers) { $0.append(int64: $1.byteCount) }
        return parameters
    }
}
