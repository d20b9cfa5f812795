import FerryCore
import FerryStore
import Logging
import Postgres
import Synchronization
import Sys
import TestSupport

/// What a job costs the store between its queue and its end: claims of a hundred, attempts that succeed at
/// once, results in batches. PostgreSQL is real; nothing is transferred.
final class ClaimFigures: AttemptRunner, CommitObserver {
    private static let jobCount = 20_000
    private static let hostCount = 10_000
    private static let wideLot = 1_000_000

    private let finished = Mailbox<Int>()
    private let dispatcher = Mutex<DispatcherLane?>(nil)

    /// `queued`: rows that are there already and of which none goes before the measured ones.
    static func print(queued: Int) throws {
        let database = try TestDatabase()
        try Migrator.migrate(url: database.url)
        var connection = try Connection(url: database.url)
        try fill(&connection, count: queued + jobCount)
        let figures = ClaimFigures()
        let identifiers = IdentifierGenerator { Timestamp(microseconds: wallMicroseconds()) }
        var configuration = StoreConfiguration(
            url: database.url, node: identifiers.make(), nodeName: "bench", version: "0", isWorker: true,
            slots: SlotLedger(capacity: 512), clock: DatabaseClock(),
            logger: Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }, openSecrets: { _ in nil },
            sealSecrets: { $0.encode() })
        configuration.readLaneCount = 0
        let store = Store(configuration)
        figures.dispatcher.withLock { $0 = store.dispatcher }
        let begin = monotonicNanoseconds()
        try store.start(runner: figures, observer: figures)
        var count = 0
        while count < jobCount { count += figures.finished.wait(milliseconds: 60_000).reduce(0, +) }
        let nanoseconds = (monotonicNanoseconds() - begin) / Int64(count)
        store.stop()
        figures.dispatcher.withLock { $0 = nil }
        Swift.print("\(nanoseconds) ns  store: claim and finish a job, \(queued) more in the queue")
    }

    /// Rows as submissions write them, of many hosts, without the submissions. Of those that come later a
    /// tenth waits for a begin date, and the hosts of a third are backed off.
    private static func fill(_ connection: inout Connection, count: Int) throws(PostgresError) {
        try connection.execute(
            script: """
                INSERT INTO lots (id, tenant, session) VALUES (\(wideLot), 'bench', 'default');
                INSERT INTO lots (id, tenant, session, origin)
                SELECT -1 - h, 'bench', 'default', 'http://host-' || h || '.example:80'
                FROM generate_series(0, \(hostCount - 1), 3) AS h WHERE \(count) > \(jobCount);
                INSERT INTO hosts (origin, blocked_until)
                SELECT origin, now() + '1 hour' FROM lots WHERE id < 0;
                INSERT INTO jobs (id, created_at, expires_at, priority, kind, state, waiting_for,
                    next_attempt_at, tenant, session, origin, lot, urgency, spec)
                SELECT ('0190' || lpad(to_hex(n), 12, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid, now(),
                    now() + '1 day', 0.5, 'download', state::job_state,
                    CASE WHEN state = 'waiting' THEN 'begin_date' END::waiting_for,
                    CASE WHEN state = 'waiting' THEN now() + '1 hour' END, 'bench', 'default', origin,
                    CASE WHEN host % 3 = 0 THEN -1 - host ELSE \(wideLot) END, now(),
                    '{"kind":"download","session":"default","request":{"url":"' || origin || '/' || n ||
                    '","method":"GET"},"destination":{"path":"' || n || '","if_exists":"replace"}}'
                FROM (
                    SELECT n, host, 'http://host-' || host || '.example:80' AS origin,
                        CASE WHEN n > \(jobCount) AND n % 10 = 0 THEN 'waiting' ELSE 'queued' END AS state
                    FROM (
                        SELECT n, CASE WHEN n <= \(jobCount) AND n % \(hostCount) % 3 = 0 THEN 1 ELSE 0 END
                            + n % \(hostCount) AS host
                        FROM generate_series(1, \(count)) AS n
                    ) AS drawn
                ) AS made;
                INSERT INTO job_counts (shard, queued, waiting)
                SELECT 'bench', count(*) FILTER (WHERE state = 'queued'),
                    count(*) FILTER (WHERE state = 'waiting') FROM jobs;
                ANALYZE jobs; ANALYZE lots; ANALYZE hosts;
                """)
    }

    // MARK: What the store calls

    func begin(_ attempts: [Attempt]) {
        guard let dispatcher = dispatcher.withLock({ $0 }) else { return }
        for attempt in attempts {
            dispatcher.record(
                AttemptResult(
                    attempt: attempt,
                    outcome: .succeeded(
                        TransferResult(
                            path: "a", size: 1, sha256: "ab", body: nil, isKept: false, verified: .length)),
                    response: nil, bytesReceived: 1, bytesSent: 0))
        }
    }
    func stop(_ job: JobID, _ how: AttemptStop) {}
    func changeRate(_ job: JobID, bytesPerSecondMax: Int64?) {}
    func setLimits(_ limits: TransferLimits, workerCount: Int) {}
    func setSessionRates(_ rates: [SessionKey: Int64]) {}
    func setHostRates(_ rates: [String: Int64]) {}
    func progress(of job: JobID) -> TransferProgress? { nil }
    func jobsFinished(_ jobs: [JobID]) { finished.send(jobs.count) }
    func deliveriesAdded(_ count: Int) {}
}
