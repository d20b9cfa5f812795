package import FerryCore
import Logging
import Postgres
import Sys

/// Counts the unfinished jobs of tenants, which reads the whole table `jobs`. Has its own thread and a
/// connection that is open only while it is needed.
package final class TenantCounts: Sendable {
    /// Minimum seconds between two counts, and the pause as a multiple of the duration of one.
    private static let interval = 2.0
    private static let intervalFactor = 10.0
    /// Seconds for which a count is recent enough for operators.
    private static let resultAge = 2.0

    private let context: StoreContext
    private let mailbox = Mailbox<Reply<[TenantStatus]>>()

    init(_ context: StoreContext) { self.context = context }

    /// Returns the tenants that have unfinished jobs, as of at most two seconds ago.
    package func tenants(reply: @escaping Reply<[TenantStatus]>) {
        if !mailbox.send(reply) { reply(.failure(.unavailable)) }
    }

    func close() { mailbox.close() }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection(
            "tenant-counts", adjust: { $0.statementTimeout = .seconds(60) })
        var last: (tenants: [TenantStatus], at: Int64)?
        var nextAt: Int64 = 0
        while true {
            let asked = mailbox.wait(milliseconds: Int32(Self.interval * 500))
            if mailbox.isClosed && asked.isEmpty { return }
            let now = monotonicNanoseconds()
            if let last, Double(now - last.at) < Self.resultAge * 1e9 {
                for reply in asked { reply(.success(last.tenants)) }
                continue
            }
            let needsCount = context.admission.needsCount
            guard !asked.isEmpty || needsCount && now >= nextAt else {
                if !needsCount { database.close() }
                continue
            }
            do {
                let tenants = try count(database)
                let end = monotonicNanoseconds()
                last = (tenants, end)
                nextAt = end + Int64(max(Self.interval * 1e9, Self.intervalFactor * Double(end - now)))
                context.admission.note(tenants, nextAt: nextAt)
                for reply in asked { reply(.success(tenants)) }
            } catch {
                nextAt = now + Int64(Self.interval * 1e9)
                if !error.isConnectionLost {
                    context.logger.error(
                        "counting the jobs of tenants failed", metadata: ["error": "\(error)"])
                }
                for reply in asked { reply(.failure(.unavailable)) }
            }
        }
    }

    private func count(_ database: ReconnectingConnection) throws(PostgresError) -> [TenantStatus] {
        try database.withConnection { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.countTenants, timeout: .seconds(60))
            return (0..<rows.rowCount).map { row in
                TenantStatus(
                    tenant: rows.text(row, 0), waiting: rows.int64(row, 1), queued: rows.int64(row, 2),
                    running: rows.int64(row, 3), suspended: rows.int64(row, 4))
            }
        }
    }
}
