import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Runs the API's reads over a few connections, which tenants use in turn (`ReadQueue`). Any thread may ask.
/// The reply comes on a thread of the pool and must not block.
final class ReadPool: Sendable {
    fileprivate enum Read: Sendable {
        /// `run` replies as its last step. If it throws it has not replied, and `fail` replies.
        case work(
            StaticString, run: @Sendable (inout Connection) throws(PostgresError) -> Void,
            fail: @Sendable (StoreError) -> Void)
        /// Reads of one tenant that wait together use one statement.
        case job(JobID, tenant: String, reply: Reply<StoredJob>)

        var isJob: Bool { if case .job = self { true } else { false } }
    }

    fileprivate struct Turn: Sendable {
        let owner: ReadOwner
        let reads: [Read]
    }

    private struct State {
        var queue: ReadQueue<Read>
        /// Threads that wait for a turn, by index.
        var idle: [Int] = []
        var isClosed = false

        /// Begins the next turn; `nil` if nothing may run now.
        mutating func next() -> Turn? {
            queue.next(joins: \.isJob, countMax: ReadPool.jobCountMax).map {
                Turn(owner: $0.owner, reads: $0.reads)
            }
        }
    }

    /// Jobs that one statement reads at most: each may have a body of some size.
    private static let jobCountMax = 50

    private let context: StoreContext
    private let state: Mutex<State>
    /// The turn that a thread is given; one mailbox for each thread.
    private let mailboxes: [Mailbox<Turn>]

    init(_ context: StoreContext) {
        self.context = context
        mailboxes = (0..<Limits.readConnectionCount).map { _ in Mailbox() }
        state = Mutex(
            State(
                queue: ReadQueue(
                    connectionCount: Limits.readConnectionCount, waitingCountMax: Limits.waitingReadCountMax))
        )
    }

    var threadCount: Int { mailboxes.count }

    /// Refuses further reads with `unavailable`. Reads that wait already still run.
    func close() {
        state.withLock { $0.isClosed = true }
        for mailbox in mailboxes { mailbox.close() }
    }

    // MARK: Any thread

    /// Runs `body` on a connection when it is the owner's turn. `continues`: a read of the same request was
    /// admitted before, so that this one is not refused.
    func read<Value: Sendable>(
        _ name: StaticString, of owner: ReadOwner, continues: Bool = false, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        let work = Read.work(
            name, run: { connection throws(PostgresError) in reply(try body(&connection)) },
            fail: { reply(.failure($0)) })
        if let refusal = add(work, of: owner, continues: continues) { reply(.failure(refusal)) }
    }

    /// Reads a page in as many turns as `ListScan` allows. `body` adds what one turn finds, and says whether
    /// the page needs another one.
    func readPage<Page: ListReading>(
        _ name: StaticString, of owner: ReadOwner, _ page: Page, continues: Bool = false,
        _ reply: @escaping Reply<Page.Value>
    ) {
        let step: Reply<Page> = { [self] result in
            switch result {
            case .failure(let error): reply(.failure(error))
            case .success(let page):
                guard let value = page.value else {
                    return readPage(name, of: owner, page, continues: true, reply)
                }
                reply(.success(value))
            }
        }
        read(name, of: owner, continues: continues, step) { connection throws(PostgresError) in
            var next = page
            try next.readTurn(&connection)
            return .success(next)
        }
    }

    /// Reads one job of a tenant, finished or not. Another tenant's job is `notFound`.
    func job(_ id: JobID, tenant: String, reply: @escaping Reply<StoredJob>) {
        let read = Read.job(id, tenant: tenant, reply: reply)
        if let refusal = add(read, of: .tenant(tenant), continues: false) { reply(.failure(refusal)) }
    }

    /// Returns why the read was not accepted, or `nil` if it was.
    private func add(_ read: Read, of owner: ReadOwner, continues: Bool) -> StoreError? {
        state.withLock { state in
            if state.isClosed && !continues { return .unavailable }
            guard state.queue.add(read, of: owner, continues: continues) else { return .tooManyReads }
            // After the end, the thread whose read continues takes it.
            guard !state.isClosed, let thread = state.idle.last, let turn = state.next() else { return nil }
            state.idle.removeLast()
            // Under the lock: mailboxes are closed after `isClosed` is set.
            mailboxes[thread].send(turn)
            return nil
        }
    }

    // MARK: Threads of the pool

    /// The body of the `index`th thread.
    func run(_ index: Int) {
        let database = context.connection("reads-\(index)", adjust: Self.adjust)
        var ended: ReadOwner?
        while let turn = nextTurn(index, ended) {
            serve(turn, database)
            ended = turn.owner
        }
    }

    static func adjust(_ options: inout ConnectionOptions) {
        options.connectTimeout = .seconds(2)
        options.statementTimeout = .seconds(Limits.readSecondsMax)
        options.readInOrderOfIndexes()
    }

    /// Waits for a turn. `ended` is the owner of the turn before. Returns `nil` once the pool is closed and
    /// nothing waits.
    private func nextTurn(_ index: Int, _ ended: ReadOwner?) -> Turn? {
        let (turn, isOver): (Turn?, Bool) = state.withLock { state in
            if let ended { state.queue.end(ended) }
            if let turn = state.next() { return (turn, false) }
            if state.isClosed { return (nil, true) }
            state.idle.append(index)
            return (nil, false)
        }
        if turn != nil || isOver { return turn }
        while true {
            // A turn that was given before the end is still run.
            if let turn = mailboxes[index].wait(milliseconds: -1).first { return turn }
            if mailboxes[index].isClosed { return mailboxes[index].take().first }
        }
    }

    private func serve(_ turn: Turn, _ database: ReconnectingConnection) {
        var jobs: [(id: JobID, tenant: String, reply: Reply<StoredJob>)] = []
        for read in turn.reads {
            switch read {
            case .job(let id, let tenant, let reply): jobs.append((id, tenant, reply))
            case .work(let name, let run, let fail):
                do {
                    try database.withConnection(sendingUpTo: CommandQueue.sendCountMax, run)
                } catch {
                    fail(context.failure(ofRead: name, error))
                }
            }
        }
        if !jobs.isEmpty { serve(jobs, database) }
    }

    private func serve(
        _ jobs: [(id: JobID, tenant: String, reply: Reply<StoredJob>)], _ database: ReconnectingConnection
    ) {
        do {
            let found = try database.withConnection(sendingUpTo: CommandQueue.sendCountMax) {
                connection throws(PostgresError) in
                try context.jobs(Array(Set(jobs.map(\.id))), &connection)
            }
            for job in jobs {
                guard let stored = found[job.id], stored.record.tenant == job.tenant else {
                    job.reply(.failure(.notFound))
                    continue
                }
                job.reply(.success(stored))
            }
        } catch {
            let failure = context.failure(ofRead: "read_jobs", error)
            for job in jobs { job.reply(.failure(failure)) }
        }
    }
}

/// A page of a list that is read in turns.
protocol ListReading: Sendable {
    associatedtype Value: Sendable
    /// The page; `nil` if it needs another turn.
    var value: Value? { get }
    /// Reads on from where the turn before ended.
    mutating func readTurn(_ connection: inout Connection) throws(PostgresError)
}

extension StoreContext {
    /// Logs why the database did not serve a request, and returns the error for the API.
    func failure(of name: StaticString, _ error: PostgresError) -> StoreError {
        if error.isConnectionLost { return .unavailable }
        if error.isRetryable || error.isShortage {
            logger.warning(
                "the database could not serve a request",
                metadata: ["request": "\(name)", "error": "\(error)"])
            return .unavailable
        }
        logger.error("a request failed", metadata: ["request": "\(name)", "error": "\(error)"])
        return .failed
    }

    /// Like `failure(of:_:)`, for a read: `readStopped` if it took too long, and the client may ask again.
    func failure(ofRead name: StaticString, _ error: PostgresError) -> StoreError {
        let failure = failure(of: name, error)
        return error.isCancellation ? .readStopped : failure
    }
}
