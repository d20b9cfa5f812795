import FerryCore
import Postgres
import Sys

extension Admission {
    /// Nanoseconds that a submission waits for a count at most.
    static let patience: Int64 = 500_000_000

    /// Counts the unfinished jobs of tenants for `admit`.
    func countJobs(of tenants: [String], _ connection: inout Connection) throws(PostgresError) {
        let numbers = tenants.map { beginCount(of: $0) }
        let start = monotonicNanoseconds()
        var parameters = Parameters()
        parameters.appendArray(.text, tenants) { $0.append(text: $1) }
        let rows = try connection.execute(
            Statements.countTenantJobs, parameters, timeout: .seconds(60))
        let duration = monotonicNanoseconds() - start
        for row in 0..<rows.rowCount {
            let index = Int(rows.int64(row, 0)) - 1
            guard tenants.indices.contains(index) else { continue }
            note(rows.int64(row, 1), of: tenants[index], numbers[index], nanoseconds: duration)
        }
    }

    /// Admits jobs of one tenant in a transaction, before it inserts any, and counts the tenant's jobs if
    /// only that tells. Returns the refusal, or `nil` if all jobs are admitted.
    func refusal(
        of jobs: [NewJob], _ admitted: inout AdmittedJobs, _ connection: inout Connection
    ) throws(PostgresError) -> StoreError? {
        guard let tenant = jobs.first?.tenant else { return nil }
        // A count that another thread begins meanwhile makes this one void.
        for _ in 0..<3 {
            switch admit(jobs.count, of: tenant, storesBytes: jobs.contains(where: \.spec.storesBytes)) {
            case .admitted:
                admitted.add(jobs.count, of: tenant)
                return nil
            case .refused(let error): return error
            case .needsCount(let at):
                guard at - monotonicNanoseconds() < Self.patience else {
                    return refusal(of: tenant, countAt: at)
                }
                try countJobs(of: [tenant], &connection)
            }
        }
        return refusal(of: tenant, countAt: monotonicNanoseconds())
    }
}
