import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// What all loops and file threads of an engine share.
final class EngineContext: Sendable {
    let configuration: EngineConfiguration
    let builder: RequestBuilder
    let lane: FileThreadPool
    let leftovers = Leftovers()
    let metrics = EngineMetrics()
    let registry = Registry()
    let bulk: BulkBoard
    let space: StorageSpace
    let gathering: BufferBudget
    let rates = SharedRateLimits()
    let mirrors = MirrorStatistics()
    let lease: any LeaseHolder
    /// Nil: nothing limits connections.
    let connections: (any ConnectionLimiter)?
    let jobs: any JobLookup
    let clock: any WallClock
    let logger: Logger
    private let failures: FailureLog
    private let sink: any ResultSink
    private let roots = Mutex<[String: StorageDirectory]>([:])

    init(
        _ configuration: EngineConfiguration, sink: any ResultSink, lease: any LeaseHolder,
        jobs: any JobLookup, clock: any WallClock, logger: Logger
    ) {
        self.configuration = configuration
        connections = configuration.connections
        builder = RequestBuilder(userAgent: configuration.userAgent, proxy: configuration.proxy)
        lane = FileThreadPool(threadCount: configuration.fileThreadCount)
        bulk = BulkBoard(loopCount: configuration.loopCount)
        space = StorageSpace(
            reserve: configuration.storageReserve, watched: configuration.watchedDirectories,
            gate: configuration.downloads,
            silence: StorageStallDetector(
                timeout: configuration.storageTimeout, syncs: configuration.fileSync == .full),
            logger: logger)
        gathering = BufferBudget(byteCount: configuration.gatheredByteCountMax)
        self.sink = sink
        self.lease = lease
        self.jobs = jobs
        self.clock = clock
        self.logger = logger
        failures = FailureLog(logger)
    }

    /// Opened once each and kept while its path leads there. A root that was removed meanwhile is made again;
    /// where another directory was put or mounted in its place, files go there.
    private func root(_ path: String, _ modes: FileModes) throws(TransferError) -> StorageDirectory {
        if let open = roots.withLock({ $0[path] }), open.isStill(at: path) { return open }
        let opened = try StorageDirectory.root(path, modes)
        roots.withLock { roots in
            if roots.count >= 1_000 { roots = [:] }
            roots[path] = opened
        }
        return opened
    }

    /// The directory of a tenant's files.
    func storageRoot(of tenant: String) throws(TransferError) -> StorageDirectory {
        try root(configuration.storageRoot(tenant), configuration.fileModes(tenant))
    }

    /// The directory of the files that the service keeps.
    func keptRoot() throws(TransferError) -> StorageDirectory {
        try root(configuration.keptDirectory, .own)
    }

    /// Where the file of an attempt goes: the destination that it names, or the kept files.
    func destination(of attempt: Attempt) throws(TransferError) -> Destination {
        if let named = attempt.spec.destination {
            return Destination(
                root: try storageRoot(of: attempt.tenant), path: named.path,
                ifExists: named.ifExists, of: attempt, isKept: false)
        }
        return Destination(
            root: try keptRoot(), path: ManagedFiles.path(for: attempt.job),
            ifExists: .replace,
            of: attempt, isKept: true)
    }

    /// Where the file of another job went, whose bytes somebody may go on from.
    func destination(of point: ResumePoint) throws(TransferError) -> Destination {
        Destination(
            root: try point.path == nil ? keptRoot() : storageRoot(of: point.tenant),
            path: point.path ?? ManagedFiles.path(for: point.job), job: point.job)
    }

    func noteResumption(_ attempt: Attempt, at offset: Int64) {
        sink.resumed(attempt, at: offset)
    }

    /// What an answer from there says about its host; nil: a proxy of the job's own may have made it up.
    func hostAnswer(_ head: ResponseHead, from url: WebURL, to attempt: Attempt) -> HostResponse? {
        guard builder.isAnsweredByServer(attempt, url) else { return nil }
        let isThrottling = head.status == 429 || head.status == 503
        return HostResponse(
            job: attempt.job, scope: attempt.scope(of: url), status: head.status,
            retryAfter: isThrottling ? head.retryAfter(now: clock.now()) : nil)
    }

    /// Tells of an answer at once: the attempt may go on for long without it.
    func tell(_ answer: HostResponse) { sink.answered(answer) }

    func unanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool {
        sink.unanswered(attempt, at: scope)
    }

    func lendSlot(of attempt: Attempt) -> Bool { sink.lendSlot(of: attempt) }

    func takeBackSlot(of attempt: Attempt) { sink.takeBackSlot(of: attempt) }

    /// The one place from which results leave.
    func report(_ result: AttemptResult) {
        metrics.ended(result.outcome)
        failures.note(result)
        registry.remove(result.attempt)
        sink.record(result)
    }

    func report(unbegun placed: Placed, on loop: Int, _ outcome: AttemptResult.Outcome) {
        if placed.isBulk { bulk.ended(on: loop) }
        report(
            AttemptResult(
                attempt: placed.attempt, outcome: outcome, response: nil, bytesReceived: 0, bytesSent: 0))
    }
}

extension StorageDirectory {
    /// False once the path leads elsewhere, or nowhere. What does not answer is still what it was.
    fileprivate func isStill(at path: String) -> Bool {
        var (found, own) = (stat(), stat())
        guard stat(path, &found) == 0 else { return errno != ENOENT }
        guard fstat(descriptor, &own) == 0 else { return false }
        return found.st_dev == own.st_dev && found.st_ino == own.st_ino
    }
}

/// An attempt on its way to its loop. `isBulk`: it is counted there already.
struct Placed: Sendable {
    let attempt: Attempt
    let progress: ProgressMeter
    let isBulk: Bool
}

/// Which attempt of a job runs, and where. Any thread.
final class Registry: Sendable {
    struct Entry: Sendable {
        let attempt: Attempt
        let loop: Int
        let progress: ProgressMeter

        var number: Int32 { attempt.number }
    }
    private let entries = Mutex<[JobID: Entry]>([:])
    private let running = Mutex<Set<AttemptKey>>([])
    private let emptied = EventDescriptor()

    func add(_ attempt: Attempt, _ entry: Entry) {
        entries.withLock { $0[attempt.job] = entry }
        running.withLock { _ = $0.insert(AttemptKey(attempt)) }
    }

    func remove(_ attempt: Attempt) {
        entries.withLock { entries in
            // A later attempt of the same job may have taken the place.
            if entries[attempt.job]?.number == attempt.number { entries[attempt.job] = nil }
        }
        let isEmpty = running.withLock { running in
            running.remove(AttemptKey(attempt))
            return running.isEmpty
        }
        if isEmpty { emptied.signal() }
    }

    subscript(job: JobID) -> Entry? { entries.withLock { $0[job] } }
    var all: [Entry] { entries.withLock { Array($0.values) } }
    var count: Int { running.withLock { $0.count } }

    /// Waits until nothing runs; false when the time is over first. One waiter at a time.
    func waitUntilEmpty(seconds: Double) -> Bool {
        let end = monotonicNanoseconds() + Int64(max(0, seconds) * 1e9)
        while count > 0 {
            let left = end - monotonicNanoseconds()
            guard left > 0 else { return false }
            var descriptors = pollfd(fd: emptied.descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&descriptors, 1, Int32(min(left / 1_000_000 + 1, 1_000)))
            emptied.clear()
        }
        return true
    }
}

struct AttemptKey: Hashable, Sendable {
    let job: JobID
    let number: Int32
    init(_ attempt: Attempt) {
        job = attempt.job
        number = attempt.number
    }
}

/// Which hosts send or take bulk, and how much of it each loop carries: many large transfers of one host are
/// spread over the loops, small ones stay together for their connections' sake.
final class BulkBoard: Sendable {
    private let origins = Mutex<Set<String>>([])
    private let live: Mutex<[Int]>

    init(loopCount: Int) { live = Mutex(Array(repeating: 0, count: max(1, loopCount))) }

    func isBulk(_ origin: String) -> Bool { origins.withLock { $0.contains(origin) } }

    func note(_ origin: String) {
        origins.withLock { origins in
            if origins.count >= EngineLimits.bulkOriginCountMax { origins = [] }
            origins.insert(origin)
        }
    }

    /// Counts one on the loop with the fewest, on `preferred` when it is among them, and says where.
    func beganOnLeastLoaded(preferred: Int) -> Int {
        live.withLock { live in
            let fewest = live.min() ?? 0
            let loop = live[preferred] == fewest ? preferred : live.firstIndex(of: fewest) ?? preferred
            live[loop] += 1
            return loop
        }
    }

    func began(on loop: Int) { live.withLock { $0[loop] += 1 } }
    func ended(on loop: Int) { live.withLock { $0[loop] -= 1 } }
}
