package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Reads and commands of the API. Any thread asks; the reply comes on the lane's thread and must not block.
package final class ControlLane: JobLookup {
    /// What one request does with the connection; `fail` answers it when that was not possible.
    struct Work: Sendable {
        let name: StaticString
        let run: @Sendable (inout Connection) throws(PostgresError) -> Void
        let fail: @Sendable (StoreError) -> Void
    }

    enum Message: Sendable {
        case work(Work)
        case read(JobID, tenant: String, reply: Reply<StoredJob>)
    }

    /// What a thread and its connection serve. A page of a list may take as long as a statement may, when its
    /// filter fits hardly any row of a long history: what reads a few rows does not wait behind it.
    private enum Desk: Int, CaseIterable { case commands, reads, lists }

    /// How often a request is sent that the database undoes each time in favor of others.
    static let sendCountMax = 5

    let context: StoreContext
    let wakeDispatcher: @Sendable () -> Void
    /// One a desk.
    private let mailboxes: [Mailbox<Message>]
    /// What the next look for the oldest queued job begins with.
    let queueLook = Mutex(QueueLook())

    init(_ context: StoreContext, wakeDispatcher: @escaping @Sendable () -> Void) {
        self.context = context
        self.wakeDispatcher = wakeDispatcher
        mailboxes = Desk.allCases.map { _ in Mailbox() }
    }

    var threadCount: Int { mailboxes.count }

    func close() { mailboxes.forEach { $0.close() } }

    /// The body of the `index`th thread.
    func run(_ index: Int) {
        let lane = context.connection(
            "control-\(index)",
            adjust: { options in
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(10)
                // Plans are made once, perhaps on a table that is nearly empty: only indexes are right later.
                options.settings.append(.init("plan_cache_mode", "force_generic_plan"))
                options.settings.append(.init("enable_seqscan", "off"))
            })
        let mailbox = mailboxes[index]
        while true {
            let messages = mailbox.wait(milliseconds: -1)
            serve(messages, lane)
            if mailbox.isClosed && messages.isEmpty { return }
        }
    }

    // MARK: Requests

    /// Runs `body` on the connection for commands, or the one for reads.
    func perform<Value: Sendable>(
        _ name: StaticString, isRead: Bool, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        send(name, to: isRead ? .reads : .commands, reply, body)
    }

    /// Runs `body`, which reads a page through a filter, on the connection for lists.
    func performList<Value: Sendable>(
        _ name: StaticString, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        send(name, to: .lists, reply, body)
    }

    private func send<Value: Sendable>(
        _ name: StaticString, to desk: Desk, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        let work = Work(
            name: name,
            run: { connection throws(PostgresError) in reply(try body(&connection)) },
            fail: { reply(.failure($0)) })
        if !mailboxes[desk.rawValue].send(.work(work)) { reply(.failure(.unavailable)) }
    }

    /// Reads one job of a tenant, finished or not; what gathers is read with one statement. Another tenant's
    /// job is `notFound`.
    package func storedJob(_ id: JobID, tenant: String, reply: @escaping Reply<StoredJob>) {
        if !mailboxes[Desk.reads.rawValue].send(.read(id, tenant: tenant, reply: reply)) {
            reply(.failure(.unavailable))
        }
    }

    package func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        storedJob(id, tenant: tenant) { reply($0.map(\.record)) }
    }

    // MARK: On the lane's thread

    private func serve(_ messages: [Message], _ lane: LaneConnection) {
        var reads: [(id: JobID, tenant: String, reply: Reply<StoredJob>)] = []
        for message in messages {
            if case .read(let id, let tenant, let reply) = message { reads.append((id, tenant, reply)) }
        }
        if !reads.isEmpty { serve(reads, lane) }
        for case .work(let work) in messages {
            do {
                // It answers last, so what throws has answered nobody.
                try lane.withConnection(sendingUpTo: Self.sendCountMax, work.run)
            } catch {
                work.fail(failure(of: work.name, error))
            }
        }
    }

    private func serve(
        _ reads: [(id: JobID, tenant: String, reply: Reply<StoredJob>)], _ lane: LaneConnection
    ) {
        do {
            let found = try lane.withConnection(sendingUpTo: Self.sendCountMax) {
                connection throws(PostgresError) in
                try Self.read(Array(Set(reads.map(\.id))), &connection)
            }
            for read in reads {
                guard let stored = found[read.id], stored.record.tenant == read.tenant else {
                    read.reply(.failure(.notFound))
                    continue
                }
                read.reply(.success(stored))
            }
        } catch {
            let failure = failure(of: "read_jobs", error)
            for read in reads { read.reply(.failure(failure)) }
        }
    }

    private func failure(of name: StaticString, _ error: PostgresError) -> StoreError {
        if error.isConnectionLost { return .unavailable }
        if error.isRetryable || error.isShortage {
            context.logger.warning(
                "the database could not serve a request",
                metadata: ["request": "\(name)", "error": "\(error)"])
            return .unavailable
        }
        context.logger.error("a request failed", metadata: ["request": "\(name)", "error": "\(error)"])
        return .failed
    }

    static func read(_ ids: [JobID], _ connection: inout Connection) throws(PostgresError) -> [JobID:
        StoredJob]
    {
        var parameters = Parameters()
        parameters.appendArray(.uuid, ids.sorted()) { $0.append($1) }
        let rows = try connection.execute(Statements.readJobs, parameters)
        var found: [JobID: StoredJob] = [:]
        for row in 0..<rows.rowCount {
            let stored = StoredJob(rows, row, isWide: true)
            found[stored.record.id] = stored
        }
        return found
    }
}
