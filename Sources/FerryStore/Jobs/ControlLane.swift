package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Reads and commands of the API. May be called from any thread. The reply is called on a database thread and
/// must not block.
package final class ControlLane: JobLookup {
    /// A command waiting for the connection. `fail` replies with an error if `run` could not.
    private struct Command: Sendable {
        let name: StaticString
        let run: @Sendable (inout Connection) throws(PostgresError) -> Void
        let fail: @Sendable (StoreError) -> Void
    }

    /// Maximum number of times that a command is sent which the database aborts each time in favor of other
    /// transactions.
    static let sendCountMax = 5

    let context: StoreContext
    let wakeDispatcher: @Sendable () -> Void
    let reads: ReadPool
    private let commands = Mailbox<Command>()
    /// Position of the search for the oldest queued job.
    let oldestJobSearch = Mutex(OldestJobSearch())

    init(_ context: StoreContext, wakeDispatcher: @escaping @Sendable () -> Void) {
        self.context = context
        self.wakeDispatcher = wakeDispatcher
        reads = ReadPool(context)
    }

    func close() {
        commands.close()
        reads.close()
    }

    /// Starts the thread for commands and those for reads.
    func start() -> [Thread] {
        [Thread(name: "control") { [self] in run() }]
            + (0..<reads.threadCount).map { index in
                Thread(name: "reads-\(index)") { [reads] in reads.run(index) }
            }
    }

    /// The sessions as this node knows them.
    package var sessionCache: SessionCache { context.sessions }

    // MARK: Requests

    /// Runs `body` on the connection for commands, or on a read connection if `isRead`, as a read of the
    /// service itself.
    func perform<Value: Sendable>(
        _ name: StaticString, isRead: Bool, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        if isRead { return reads.read(name, of: .service, reply, body) }
        let command = Command(
            name: name,
            run: { connection throws(PostgresError) in reply(try body(&connection)) },
            fail: { reply(.failure($0)) })
        if !commands.send(command) { reply(.failure(.unavailable)) }
    }

    /// Runs a read for a tenant when its turn comes.
    func read<Value: Sendable>(
        _ name: StaticString, for tenant: String, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (inout Connection) throws(PostgresError) -> Result<Value, StoreError>
    ) {
        reads.read(name, of: .tenant(tenant), reply, body)
    }

    /// Reads one job of a tenant, finished or not; requests that arrive together share one statement. Fails
    /// with `notFound` for another tenant's job.
    package func storedJob(_ id: JobID, tenant: String, reply: @escaping Reply<StoredJob>) {
        reads.job(id, tenant: tenant, reply: reply)
    }

    /// Like `storedJob`, for the record only. Needs no statement if this node has just finished the job.
    package func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        guard let record = recentResult(id, tenant: tenant) else {
            return storedJob(id, tenant: tenant) { reply($0.map(\.record)) }
        }
        // On a thread for reads: the caller may be one that must not render a response.
        reads.read("recent_result", of: .tenant(tenant), reply) { _ in .success(record) }
    }

    /// Returns the job if this node has finished it within the last two seconds and no other node can have
    /// deleted it without telling this one; otherwise `nil`.
    package func recentResult(_ id: JobID, tenant: String) -> JobRecord? {
        guard hearsOfDeletions else { return nil }
        return context.recentResults.record(of: id, tenant: tenant, at: Sys.monotonicNanoseconds())
    }

    /// `true` if no other node is alive, or its notifications arrive.
    var hearsOfDeletions: Bool {
        !context.hasPeers.load(ordering: .relaxed) || context.isListening.load(ordering: .relaxed)
    }

    /// Reads what is needed to submit a terminal job again. Fails with `invalidState` for any other job.
    package func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>) {
        storedJob(id, tenant: tenant) { [context] result in
            reply(
                result.flatMap { stored in
                    guard stored.record.state.isTerminal else {
                        return .failure(.invalidState(of: stored.record))
                    }
                    var secrets: JobSecrets? = JobSecrets()
                    if let sealed = stored.sealedSecrets {
                        secrets = context.configuration.openSecrets(sealed)
                    }
                    guard let secrets else { return .failure(.failed) }
                    return .success(
                        RetrySource(record: stored.record, secrets: secrets, payload: stored.payload))
                })
        }
    }

    static func adjust(_ options: inout ConnectionOptions) {
        options.connectTimeout = .seconds(2)
        options.statementTimeout = .seconds(10)
        // Plans are made once, perhaps while the table is nearly empty; only index scans stay right when it
        // grows.
        options.settings.append(.init("plan_cache_mode", "force_generic_plan"))
        options.settings.append(.init("enable_seqscan", "off"))
    }

    // MARK: On the thread for commands

    private func run() {
        let database = context.connection("control", adjust: Self.adjust)
        while true {
            let gathered = commands.wait(milliseconds: -1)
            for command in gathered {
                do {
                    // `run` replies as its last step: if it throws, it has not replied.
                    try database.withConnection(sendingUpTo: Self.sendCountMax, command.run)
                } catch {
                    command.fail(context.failure(of: command.name, error))
                }
            }
            if commands.isClosed && gathered.isEmpty { return }
        }
    }
}

extension StoreContext {
    /// Reads jobs by id. `withBodies`: includes bodies, payloads and secrets.
    func jobs(
        _ ids: [JobID], withBodies: Bool = true, _ connection: inout Connection
    ) throws(PostgresError) -> [JobID: StoredJob] {
        var parameters = Parameters()
        parameters.appendArray(.uuid, ids) { $0.append($1) }
        parameters.append(bool: withBodies)
        let rows = try connection.execute(Statements.readJobs, parameters)
        var found: [JobID: StoredJob] = [:]
        for row in 0..<rows.rowCount {
            guard let stored = StoredJob(rows, row, isWide: true, damagedRows) else { continue }
            found[stored.record.id] = stored
        }
        return found
    }

    /// Reads one job; `nil` if there is none.
    func job(
        _ id: JobID, withBodies: Bool = true, _ connection: inout Connection
    ) throws(PostgresError) -> StoredJob? {
        try jobs([id], withBodies: withBodies, &connection)[id]
    }
}
