import FerryCore
import Postgres

/// An ended attempt of a tenant whose stored bytes are limited.
struct StoredAttempt: Sendable {
    let job: JobID
    let tenant: String
    /// Bytes that are left for a later attempt.
    let leftByteCount: Int64

    /// `nil` if the stored bytes of the tenant are not limited.
    init?(_ result: AttemptResult, _ quotas: TenantQuotas) {
        guard quotas.limits(of: result.attempt.tenant)?.storageByteCountMax != nil else { return nil }
        (job, tenant) = (result.attempt.job, result.attempt.tenant)
        leftByteCount = result.attempt.spec.destination == nil ? result.partialDownload?.byteCount ?? 0 : 0
    }
}

extension StoreContext {
    /// Reads the stored bytes of tenants that have a limit of them.
    func readStoredBytes(_ connection: inout Connection) throws(PostgresError) {
        let quotas = configuration.quotas
        let tenants = quotas.storageTenants
        guard !tenants.isEmpty else { return }
        let earlier = quotas.beginStorageReading()
        // Both statements see the same ends of jobs.
        let (stored, ended) = try connection.transaction {
            connection throws(PostgresError) -> ([String: Int64], [JobID]) in
            try connection.execute(script: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            var parameters = Parameters()
            parameters.appendArray(.text, tenants) { $0.append(text: $1) }
            let rows = try connection.execute(
                Statements.sumStoredBytes, parameters, timeout: .seconds(60))
            var stored: [String: Int64] = [:]
            for row in 0..<rows.rowCount {
                let index = Int(rows.int64(row, 0)) - 1
                if tenants.indices.contains(index) { stored[tenants[index]] = rows.int64(row, 1) }
            }
            let jobs = quotas.jobsOfStorageReading
            guard !jobs.isEmpty else { return (stored, []) }
            return (stored, try Self.ended(jobs, since: earlier, &connection))
        }
        quotas.apply(stored: stored, finished: Set(ended))
    }

    /// Returns which of the jobs have ended, as the transaction sees it. `earlier`: jobs that had begun
    /// before it. It may not see a later one at all.
    private static func ended(
        _ jobs: [JobID], since earlier: Set<JobID>, _ connection: inout Connection
    ) throws(PostgresError) -> [JobID] {
        let rows = try connection.execute(Statements.endedJobs, .identifiers(jobs))
        return (0..<rows.rowCount).compactMap { row in
            let job: JobID = rows.identifier(row, 0)
            return earlier.contains(job) || rows.bool(row, 1) ? job : nil
        }
    }
}
