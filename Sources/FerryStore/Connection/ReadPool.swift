import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Reads of the API over a few connections, which tenants use in turn (`ReadQueue`). Any thread asks; the
/// reply comes on a thread of this lane and must not block.
final class ReadPool: Sendable {
    fileprivate enum Read: Sendable {
        /// `run` replies last; what throws has not replied, and `fail` does.
        case work(
            StaticString, run: @Sendable (inout Connection) throws(PostgresError) -> Void,
            fail: @Sendable (StoreError) -> Void)
        /// Of one tenant: what waits together is read with one statement.
        case job(JobID, tenant: String, reply: Reply<StoredJob>)

        var isJob: Bool { if case .job = self { true } else { false } }
    }

    fileprivate struct Turn: Sendable {
        let owner: ReadOwner
        let reads: [Read]
    }

    private struct State {
        var queue: ReadQueue<Read>
        /// Threads that wait for a turn.
        var idle: [Int] = []
        var isClosed = false

        /// Nil: nothing may run now.
        mutating func next() -> Turn? {
            queue.next(joins: \.isJob, countMax: ReadPool.jobCountMax).map {
                Turn(owner: $0.owner, reads: $0.reads)
            }
        }
    }

    /// Jobs that one statement reads: each may have a body of some size.
    private static let jobCountMax = 50

    private let context: StoreContext
    private let state: Mutex<State>
    /// One a thread: the turn that it is given.
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

    /// Refuses further reads with `unavailable`. What waits is still read.
    func close() {
        state.withLock { $0.isClosed = true }
        for mailbox in mailboxes { mailbox.close() }
    }

    // MARK: Any thread

    /// Runs `body` on a connection when it is the owner's turn. `continues`: it goes on with a read of the
    /// same request, which was admitted before.
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
            // Closed: the thread that has asked for more takes it.
            guard !state.isClosed, let thread = state.idle.last, let turn = state.next() else { return nil }
            state.idle.removeLast()
            // Under the lock: mailboxes are closed after it says so.
            mailboxes[thread].send(turn)
            return nil
        }
    }

    // MARK: On the lane's threads

    /// The body of the `index`th thread.
    func run(_ index: Int) {
        let lane = context.connection("reads-\(index)", adjust: Self.adjust)
        var ended: ReadOwner?
        while let turn = nextTurn(index, ended) {
            serve(turn, lane)
            ended = turn.owner
        }
    }

    static func adjust(_ options: inout ConnectionOptions) {
        options.connectTimeout = .seconds(2)
        options.statementTimeout = .seconds(Limits.readSecondsMax)
        options.readInOrderOfIndexes()
    }

    /// Waits for a turn. `ended`: the owner of the one before. Nil: the lane is closed and nothing waits.
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
            // Closed: a turn that was given before is still taken.
            if let turn = mailboxes[index].wait(milliseconds: -1).first { return turn }
            if mailboxes[index].isClosed { return mailboxes[index].take().first }
        }
    }

    private func serve(_ turn: Turn, _ lane: ReconnectingConnection) {
        var jobs: [(id: JobID, tenant: String, reply: Reply<StoredJob>)] = []
        for read in turn.reads {
            switch read {
            case .job(let id, let tenant, let reply): jobs.append((id, tenant, reply))
            case .work(let name, let run, let fail):
                do {
                    try lane.withConnection(sendingUpTo: ControlLane.sendCountMax, run)
                } catch {
                    fail(context.failure(ofRead: name, error))
                }
            }
        }
        if !jobs.isEmpty { serve(jobs, lane) }
    }

    private func serve(
        _ jobs: [(id: JobID, tenant: String, reply: Reply<StoredJob>)], _ lane: ReconnectingConnection
    ) {
        do {
            let found = try lane.withConnection(sendingUpTo: ControlLane.sendCountMax) {
                connection throws(PostgresError) in
                try ControlLane.read(Array(Set(jobs.map(\.id))), &connection)
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

/// A page that is read in turns.
protocol ListReading: Sendable {
    associatedtype Value: Sendable
    /// The page. Nil: it needs another turn.
    var value: Value? { get }
    /// Reads on from where the turn before has ended.
    mutating func readTurn(_ connection: inout Connection) throws(PostgresError)
}

extension StoreContext {
    /// Logs why the database did not serve a request, and says it as the API needs it.
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

    /// As `failure(of:_:)`, for what changes nothing: whoever was stopped can simply ask again.
    func failure(ofRead name: StaticString, _ error: PostgresError) -> StoreError {
        let failure = failure(of: name, error)
        return error.isCancellation ? .readStopped : failure
    }
}

extension ConnectionOptions {
    /// Holds the planner to indexes that have the order which a statement asks for. Plans are made once,
    /// perhaps on tables that are nearly empty: everything else is wrong later. Bitmaps stay: an index on
    /// arrays is read in no other way.
    mutating func readInOrderOfIndexes() {
        settings.append(.init("plan_cache_mode", "force_generic_plan"))
        for kind in ["seqscan", "sort", "incremental_sort", "hashjoin", "mergejoin"] {
            settings.append(.init("enable_\(kind)", "off"))
        }
    }
}
