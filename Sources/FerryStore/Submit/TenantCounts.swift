package import FerryCore
import Logging
import Postgres
import Sys

/// Counts the unfinished jobs of tenants: of all, for operators, which reads the whole table `jobs`; and of
/// single ones, for submissions of tenants that may have reached a limit. Has its own thread and a connection
/// that is open only while it is needed.
package final class TenantCounts: Sendable {
    enum Message: Sendable {
        case list(Reply<[TenantStatus]>)
        /// A submission about which only a count tells.
        case submission(SubmissionWriter.Pending)
        /// Limits of stored bytes may be new.
        case limits
    }

    /// Seconds for which a count of all tenants is recent enough for operators.
    private static let resultAge = 2.0
    /// Milliseconds without a message until the connection is closed.
    private static let idleMilliseconds: Int32 = 1_000
    /// Nanoseconds between two sums of stored bytes at least, and the pause as a multiple of the duration of
    /// one.
    private static let sumPause: Int64 = 1_000_000_000
    private static let sumPauseFactor: Int64 = 20

    private let context: StoreContext
    private let admission: Admission
    private var mailbox: Mailbox<Message> { writer.countRequests }
    /// Takes the submissions that were decided about.
    private let writer: SubmissionWriter

    init(_ context: StoreContext, _ admission: Admission, _ writer: SubmissionWriter) {
        self.context = context
        self.admission = admission
        self.writer = writer
    }

    /// Returns the tenants that have unfinished jobs, as of at most two seconds ago.
    package func tenants(reply: @escaping Reply<[TenantStatus]>) {
        if !mailbox.send(.list(reply)) { reply(.failure(.unavailable)) }
    }

    func close() { mailbox.close() }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection(
            "tenant-counts",
            adjust: { options in
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(60)
            })
        var last: (tenants: [TenantStatus], at: Int64)?
        var waiting: [SubmissionWriter.Pending] = []
        var nextStep: Int64 = 0
        var nextSum: Int64 = 0
        while true {
            let now = monotonicNanoseconds()
            let pause = max(0, min(Int64(Self.idleMilliseconds), (nextStep - now) / 1_000_000 + 1))
            let messages = mailbox.wait(milliseconds: waiting.isEmpty ? Self.idleMilliseconds : Int32(pause))
            if mailbox.isClosed && messages.isEmpty {
                for pending in waiting { writer.reply(pending, .failure(.unavailable)) }
                return
            }
            var asked: [Reply<[TenantStatus]>] = []
            for message in messages {
                switch message {
                case .list(let reply): asked.append(reply)
                case .submission(let pending): waiting.append(pending)
                case .limits: nextSum = 0
                }
            }
            if !waiting.isEmpty { nextStep = decide(&waiting, database) }
            if !asked.isEmpty { list(asked, &last, database) }
            let sumsBytes = !context.configuration.quotas.storageTenants.isEmpty
            if sumsBytes, monotonicNanoseconds() >= nextSum { nextSum = sumBytes(database) }
            if messages.isEmpty && waiting.isEmpty && !sumsBytes { database.close() }
        }
    }

    /// Reads the stored bytes of the tenants with a limit. Returns when to read them again, in monotonic
    /// nanoseconds.
    private func sumBytes(_ database: ReconnectingConnection) -> Int64 {
        let start = monotonicNanoseconds()
        do {
            try database.withConnection { [context] connection throws(PostgresError) in
                try context.readStoredBytes(&connection)
            }
        } catch {
            if !error.isConnectionLost {
                context.logger.error(
                    "reading the stored bytes of tenants failed", metadata: ["error": "\(error)"])
            }
        }
        let end = monotonicNanoseconds()
        return end + max(Self.sumPause, Self.sumPauseFactor * (end - start))
    }

    // MARK: Submissions

    /// Decides about the submissions for which it can, and counts tenants for the others. Returns when the
    /// next step is due, in monotonic nanoseconds.
    private func decide(
        _ waiting: inout [SubmissionWriter.Pending], _ database: ReconnectingConnection
    ) -> Int64 {
        let due = askAll(&waiting)
        let now = monotonicNanoseconds()
        guard !waiting.isEmpty, due.at <= now else { return due.at }
        guard database.retryIn == .zero else {
            expire(&waiting)
            return now + Int64(database.retryIn / .nanoseconds(1))
        }
        do {
            try database.withConnection {
                [admission, tenants = due.tenants] connection throws(PostgresError) in
                try admission.countJobs(of: tenants, &connection)
            }
        } catch {
            if !error.isConnectionLost {
                context.logger.error(
                    "counting the jobs of a tenant failed", metadata: ["error": "\(error)"])
            }
            expire(&waiting)
            return now + 50_000_000
        }
        return askAll(&waiting).at
    }

    /// Passes on the submissions that are admitted or refused. Returns the tenants to be counted first, and
    /// when.
    private func askAll(
        _ waiting: inout [SubmissionWriter.Pending]
    ) -> (tenants: [String], at: Int64) {
        var left: [SubmissionWriter.Pending] = []
        var counts: [String: Int64] = [:]
        let now = monotonicNanoseconds()
        for pending in waiting {
            guard let at = writer.ask(pending) else { continue }
            guard at - now < Admission.patience else {
                writer.refuse(pending, admission.refusal(of: pending.tenant, countAt: at))
                continue
            }
            counts[pending.tenant] = max(at, now)
            left.append(pending)
        }
        waiting = left
        let first = counts.values.min() ?? .max
        return (counts.filter { $0.value <= first }.keys.sorted(), first)
    }

    /// Replies to submissions that have waited for the database for too long.
    private func expire(_ waiting: inout [SubmissionWriter.Pending]) {
        let limit = monotonicNanoseconds() - Int64(SubmissionWriter.databaseWaitSecondsMax * 1e9)
        for pending in waiting where pending.arrival < limit {
            writer.reply(pending, .failure(.unavailable))
        }
        waiting.removeAll { $0.arrival < limit }
    }

    // MARK: All tenants

    private func list(
        _ asked: [Reply<[TenantStatus]>], _ last: inout (tenants: [TenantStatus], at: Int64)?,
        _ database: ReconnectingConnection
    ) {
        if let last, Double(monotonicNanoseconds() - last.at) < Self.resultAge * 1e9 {
            for reply in asked { reply(.success(last.tenants)) }
            return
        }
        do {
            let tenants = try count(database)
            last = (tenants, monotonicNanoseconds())
            for reply in asked { reply(.success(tenants)) }
        } catch {
            if !error.isConnectionLost {
                context.logger.error(
                    "counting the jobs of tenants failed", metadata: ["error": "\(error)"])
            }
            for reply in asked { reply(.failure(.unavailable)) }
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
