import Curl
import FerryCore
import FerryEngine
import Glibc
import Logging
import Synchronization
import Sys
import TestSupport
import Testing

/// An engine with its own directory; everything it may reach is the loopback interface.
final class Fixture: Sendable {
    final class Sink: ResultSink {
        let arrived = Signal<AttemptResult>()
        let resumed = Signal<Int64>()
        let received = Signal<HostResponse>()
        func record(_ result: AttemptResult) {
            if let error = result.failure { expectDocumented(error) }
            arrived.fire(result)
        }
        func resumed(_ attempt: Attempt, at offset: Int64) { resumed.fire(offset) }
        func received(_ response: HostResponse) { received.fire(response) }
        let unanswered = Signal<String>()
        func noteUnanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool {
            unanswered.fire(scope.origin)
            let isAccepted = acceptsStallReports.withLock { $0 }
            if isAccepted { stallReported.fire(()) }
            return isAccepted
        }
        /// Whether reports of hosts that do not respond are accepted, and when they came.
        let acceptsStallReports = Mutex(true)
        let stallReported = Signal<Void>()
        /// Slots that were lent and are not back, and whether any more may be.
        let lent = Mutex(0)
        let lendings = Signal<JobID>()
        let lends = Atomic<Bool>(true)
        func lendSlot(of attempt: Attempt) -> Bool {
            guard lends.load(ordering: .relaxed) else { return false }
            lent.withLock { $0 += 1 }
            lendings.fire(attempt.job)
            return true
        }
        /// Whether tenants wait for slots.
        let isMissing = Atomic<Bool>(false)
        var areSlotsMissing: Bool { isMissing.load(ordering: .relaxed) }
        /// Early loans that are not back, and not ordinary ones by now.
        let early = Mutex(0)
        func lendSlotEarly(of attempt: Attempt) -> Bool {
            guard areSlotsMissing else { return false }
            early.withLock { $0 += 1 }
            return lendSlot(of: attempt)
        }
        func settleEarlyLoan(of attempt: Attempt) { early.withLock { $0 -= 1 } }
        func takeBackSlot(of attempt: Attempt, isEarly: Bool) {
            lent.withLock { $0 -= 1 }
            if isEarly { early.withLock { $0 -= 1 } }
        }
        /// Whatever happens is in the table of docs/errors.md.
        private func expectDocumented(_ error: TransferError) {
            let isRetryable = error.code.repetition == .always
            #expect(error.code.phases.contains(error.phase), "\(error)")
            #expect(error.code.repetition == .sometimes || error.isRetryable == isRetryable, "\(error)")
        }
    }
    final class Lease: LeaseHolder {
        let isHeld = Atomic<Bool>(true)
        /// While it is set, questions about leases wait for it.
        let gate = Mutex<Gate?>(nil)
        let asked = Signal<Void>()
        func holdsLease(of job: JobID, attempt: Int32) -> Bool {
            if let gate = gate.withLock({ $0 }) {
                asked.fire(())
                _ = gate.pass()
            }
            return isHeld.load(ordering: .relaxed)
        }
    }
    /// Jobs that have ended, as the store would know them.
    final class Jobs: JobLookup {
        private let records = Mutex<[JobID: JobRecord]>([:])
        func add(_ record: JobRecord) { records.withLock { $0[record.id] = record } }
        func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
            let found = records.withLock { $0[id] }
            reply(
                found.map { $0.tenant == tenant ? .success($0) : .failure(.notFound) } ?? .failure(.notFound))
        }
    }
    struct SystemClock: WallClock {
        func now() -> Timestamp { Timestamp(microseconds: wallMicroseconds()) }
    }

    let directory: String
    let places: Places
    let engine: Engine
    let sink = Sink()
    let lease = Lease()
    let jobs = Jobs()
    /// Nanoseconds that the last `run` took.
    private let took = Atomic<Int64>(0)
    let ids = IdentifierGenerator { Timestamp(microseconds: wallMicroseconds()) }

    /// The tenant's files.
    var root: String { directory + "/tenant" }

    init(
        allowsLoopback: Bool = true, at place: String? = nil,
        _ change: (inout EngineConfiguration) -> Void = { _ in }
    )
        throws
    {
        let directory = try place ?? TemporaryDirectory.make("engine")
        self.directory = directory
        let loopback = IPNetwork(cidr: "127.0.0.0/8").map { [$0] } ?? []
        var configuration = EngineConfiguration(
            storageRoot: { "\(directory)/\($0)" }, managedFilesDirectory: directory + "/results",
            egress: EgressPolicy(allowing: allowsLoopback ? loopback : []), userAgent: "ferry-test")
        change(&configuration)
        mkdir(directory + "/tenant", 0o755)
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        places = Places(configuration, logger: logger)
        engine = try Engine(
            configuration: configuration, places: places, sink: sink, lease: lease, jobs: jobs,
            clock: SystemClock(), logger: logger)
    }

    func stop() {
        engine.stop()
        TemporaryDirectory.remove(directory)
    }

    func attempt(
        _ kind: JobKind = .download, _ url: String, job: JobID? = nil, number: Int32 = 1,
        home: NodeID? = nil, after redirect: DelayedRedirect? = nil, next: NextRequest? = nil,
        _ change: (inout Draft) -> Void = { _ in }
    ) -> Attempt {
        var draft = Draft(kind, url)
        change(&draft)
        let now = SystemClock().now()
        return Attempt(
            job: job ?? ids.make(), number: number, failedAttemptCount: number - 1, revision: 1,
            tenant: "tenant",
            createdAt: now, startedAt: now, spec: draft.spec, storedSpec: StoredSpec(draft.spec, json: []),
            secrets: draft.secrets,
            payload: draft.payload, origin: (try? WebURL.parse(url).origin) ?? url,
            scopePath: RequestScope.path(ofURL: url, credentials: nil), traceparent: nil,
            retryOf: nil,
            isCancelRequested: false, home: home, nextRequest: next ?? redirect.map { .redirect($0) })
    }

    /// Runs one attempt and returns its result.
    func run(
        _ kind: JobKind = .download, _ url: String, job: JobID? = nil, number: Int32 = 1,
        _ change: (inout Draft) -> Void = { _ in }
    ) -> AttemptResult? {
        let began = monotonicNanoseconds()
        defer { took.store(monotonicNanoseconds() - began, ordering: .relaxed) }
        engine.begin([attempt(kind, url, job: job, number: number, change)])
        return sink.arrived.wait().first
    }

    /// So many requests for the parts of the last run; more only when it took so long that a part may have
    /// counted as slow, for then others help it.
    func most(_ count: Int) -> Int { took.load(ordering: .relaxed) < 1_000_000_000 ? count : 40 }

    /// Makes a job known that has succeeded with this result, or is in another state.
    func addJob(
        _ result: TransferResult, state: JobState = .succeeded, tenant: String = "tenant",
        response: TransferResponse? = nil, node: NodeID? = nil
    ) -> JobID {
        let id: JobID = ids.make()
        let now = SystemClock().now()
        var record = JobRecord(
            id: id, tenant: tenant, state: state, waitingFor: nil, revision: 2, attempt: 1,
            failedAttemptCount: 0, node: node, createdAt: now, startedAt: now, finishedAt: now, retryOf: nil,
            storedSpec: StoredSpec([]))
        record.storedResponse = response.map { Stored($0, .inverted) }
        record.storedResult = Stored(result)
        record.body = result.body
        jobs.add(record)
        return id
    }

    /// Every name below the directory but directories.
    func files() -> Set<String> {
        var found: Set<String> = []
        func visit(_ path: String) {
            for name in directoryNames(directory + path) {
                var status = stat()
                lstat("\(directory)\(path)/\(name)", &status)
                if status.st_mode & S_IFMT == S_IFDIR {
                    visit(path + "/" + name)
                } else {
                    found.insert(String((path + "/" + name).dropFirst()))
                }
            }
        }
        visit("")
        return found
    }
}

/// Properties of a job that tests vary.
struct Draft {
    var spec: JobSpec
    var secrets = JobSecrets()
    var payload: [UInt8]?

    init(_ kind: JobKind, _ url: String) {
        spec = JobSpec()
        spec.kind = kind
        spec.request = .init(url: url, method: kind == .upload ? "PUT" : "GET")
        // Shorter than `Signal` waits, so that a hanging test names its cause.
        spec.request.timeoutForRequest = 100
        spec.schedule.timeoutForResource = 600
    }

    mutating func to(_ path: String, _ ifExists: JobSpec.Destination.IfExists = .replace) {
        spec.destination = .init(path: path, ifExists: ifExists)
    }
}

extension AttemptResult {
    var success: TransferResult? { if case .succeeded(let result) = outcome { result } else { nil } }
    var failure: TransferError? { if case .failed(let error, _) = outcome { error } else { nil } }
    var retryAfter: Double? { if case .failed(_, let seconds) = outcome { seconds } else { nil } }
    var isCancelled: Bool { if case .cancelled = outcome { true } else { false } }
    var isReleased: Bool { if case .released = outcome { true } else { false } }
    var isSuspended: Bool { if case .suspended = outcome { true } else { false } }
}

extension Attempt {
    /// An edit of the job while the attempt runs.
    func edit(_ change: (inout JobSpec, inout JobSecrets) -> Void) -> AttemptEdit {
        var (spec, secrets) = (spec, secrets)
        change(&spec, &secrets)
        return AttemptEdit(
            attempt: number, revision: revision + 1, spec: spec, storedSpec: StoredSpec(spec, json: []),
            secrets: secrets)
    }
}
