import FerryCore
import FerryStore
import Glibc
import Logging
import Postgres
import Synchronization
import Sys
import TestSupport

/// A store with PostgreSQL, clients that submit, and attempts that succeed without transferring anything.
final class StoreBench: AttemptRunner, CommitObserver {
    let database: TestDatabase
    private let store: Store
    private let dispatcher: JobDispatcher
    private let finished: Mailbox<Int>
    private let answered = Mailbox<Int>()
    private let identifiers = IdentifierGenerator { Timestamp(microseconds: wallMicroseconds()) }
    /// Nanoseconds that an attempt takes.
    private let duration: Int64
    private let ending = Mailbox<(AttemptResult, Int64)>()
    private let timer = Mutex<Thread?>(nil)

    /// `other`: another node of the same database, which counts the ends of both. `prepare`: what is there
    /// before the store begins.
    init(
        slots: Int = 512, milliseconds: Double = 0, beside other: StoreBench? = nil,
        prepare: (inout Connection) throws(PostgresError) -> Void = { _ throws(PostgresError) in }
    ) throws {
        database = try other?.database ?? TestDatabase()
        finished = other?.finished ?? Mailbox()
        duration = Int64(milliseconds * 1e6)
        if other == nil { try Migrator.migrate(url: database.url) }
        var connection = try Connection(url: database.url)
        try prepare(&connection)
        var configuration = StoreConfiguration(
            url: database.url, node: identifiers.make(), nodeName: "bench", version: "0", isWorker: true,
            slots: WorkerSlots(capacity: slots), clock: DatabaseClock(),
            logger: Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }, seal: seal,
            openSecrets: { _ in nil },
            sealSecrets: { $0.encode() }, hashCredentials: { "\($0.count)" })
        configuration.sessions = SessionCache(connectionsPerHostMax: nil)
        store = Store(configuration)
        dispatcher = store.dispatcher
    }

    func start() throws {
        if duration > 0 {
            timer.withLock {
                $0 = Thread(name: "timer") { [ending, dispatcher] in
                    Self.end(ending, dispatcher)
                }
            }
        }
        try store.start(runner: self, observer: self)
        store.beginWork()
    }

    func stop() {
        store.stop()
        ending.close()
        timer.withLock { $0.take() }?.join()
    }

    /// Waits until so many jobs have ended since the last call; returns how many have. Stops the process if
    /// none ends for a minute.
    func wait(_ count: Int) -> Int {
        var ended = 0
        while ended < count {
            let more = finished.wait(milliseconds: 60_000).reduce(0, +)
            guard more > 0 else { fatalError("no job has ended for a minute; \(ended) of \(count) have") }
            ended += more
        }
        return ended
    }

    /// Submits so many jobs, each in a request of its own, `clientCount` requests at a time, and waits for
    /// their ends. Returns nanoseconds for each.
    func run(_ count: Int, clientCount: Int = 8, hostCount: Int = 1) -> Int64 {
        let begin = monotonicNanoseconds()
        var (sent, open) = (0, 0)
        while sent < count || open > 0 {
            while sent < count, open < clientCount {
                submit(host: sent % hostCount)
                sent += 1
                open += 1
            }
            open -= answered.wait(milliseconds: 60_000).count
        }
        _ = wait(count)
        return (monotonicNanoseconds() - begin) / Int64(count)
    }

    private func submit(host: Int) {
        let body =
            #"{"kind":"download","request":{"url":"http://host-\#(host).example/a"},"#
            + #""destination":{"path":"a","if_exists":"replace"}}"#
        guard let json = try? JSONView(parsing: Array(body.utf8)),
            let job = try? JobRequest(json, refusal: { _ in nil })
        else { preconditionFailure("the body is valid") }
        let new = NewJob(
            id: identifiers.make(), tenant: "bench", job, specJSON: job.spec.encodeStored(),
            sealedSecrets: nil,
            traceparent: nil, retryOf: nil)
        let answered = answered
        store.submissions.submit(
            Submission(jobs: [new], idempotency: nil) { result in
                guard case .success = result else { preconditionFailure("a job was refused") }
                answered.send(1)
            })
    }

    /// Ends each when its time has come; they come in order.
    private static func end(_ ending: Mailbox<(AttemptResult, Int64)>, _ dispatcher: JobDispatcher) {
        var waiting: [(AttemptResult, Int64)] = []
        while !ending.isClosed {
            waiting += waiting.isEmpty ? ending.wait(milliseconds: 1_000) : ending.take()
            let now = monotonicNanoseconds()
            let due = waiting.prefix { $0.1 <= now }
            waiting.removeFirst(due.count)
            for (result, _) in due { dispatcher.record(result) }
            guard let next = waiting.first?.1 else { continue }
            var left = timespec(tv_sec: 0, tv_nsec: Int(max(0, next - monotonicNanoseconds())))
            nanosleep(&left, nil)
        }
    }

    // MARK: What the store calls

    func begin(_ attempts: [Attempt]) {
        let end = monotonicNanoseconds() + duration
        for attempt in attempts {
            let result = AttemptResult(
                attempt: attempt,
                outcome: .succeeded(
                    TransferResult(
                        location: .namedFile(path: "a"), size: 1, sha256: "ab", verified: .length)),
                response: nil, bytesReceived: 1, bytesSent: 0)
            if duration > 0 { ending.send((result, end)) } else { dispatcher.record(result) }
        }
    }
    func stop(_ job: JobID, _ how: AttemptStop) {}
    func adopt(_ edit: AttemptEdit, of job: JobID) {}
    func attemptCounts() -> [String: Int] { [:] }
    func lendSlots() {}
    func setLimits(_ limits: TransferLimits, shares: RateShares) {}
    func takeRateDemand() -> RateDemand { RateDemand() }
    func setSessionRates(_ rates: [SessionKey: Int64]) {}
    func setHostRates(_ rates: [String: Int64]) {}
    func progress(of job: JobID) -> TransferProgress? { nil }
    func jobsFinished(_ jobs: [JobID]) { finished.send(jobs.count) }
    func deliveriesAdded(_ count: Int) {}
}
