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

    /// How often a request is sent that the database undoes each time in favor of others.
    static let sendCountMax = 5

    let context: StoreContext
    let wakeDispatcher: @Sendable () -> Void
    /// The first one serves commands; the others, when there are any, reads.
    private let mailboxes: [Mailbox<Message>]
    private let nextReader = Atomic<Int>(0)

    init(_ context: StoreContext, wakeDispatcher: @escaping @Sendable () -> Void) {
        self.context = context
        self.wakeDispatcher = wakeDispatcher
        mailboxes = (0...context.configuration.readLaneCount).map { _ in Mailbox() }
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

    /// Runs `body` on the command connection, or on one for reads.
    func perform<Value: Sendable>(
        _ name: StaticString, isRead: Bool, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        let work = Work(
            name: name,
            run: { connection throws(PostgresError) in reply(try body(&connection)) },
            fail: { reply(.failure($0)) })
        if !mailbox(isRead: isRead).send(.work(work)) { reply(.failure(.unavailable)) }
    }

    /// Reads one job of a tenant, finished or not; what gathers is read with one statement. Another tenant's
    /// job is `notFound`.
    package func storedJob(_ id: JobID, tenant: String, reply: @escaping Reply<StoredJob>) {
        if !mailbox(isRead: true).send(.read(id, tenant: tenant, reply: reply)) {
            reply(.failure(.unavailable))
        }
    }

    package func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        storedJob(id, tenant: tenant) { reply($0.map(\.record)) }
    }

    private func mailbox(isRead: Bool) -> Mailbox<Message> {
        guard isRead && mailboxes.count > 1 else { return mailboxes[0] }
        let turn = nextReader.add(1, ordering: .relaxed).oldValue
        return mailboxes[1 + Int(UInt(bitPattern: turn) % UInt(mailboxes.count - 1))]
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
