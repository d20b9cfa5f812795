import Curl
import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// State that all loops and file threads of an engine share.
final class EngineContext: Sendable {
    let configuration: EngineConfiguration
    // Values that each attempt reads. To read them from `configuration` copies all of it.
    let egress: EgressPolicy
    let lowSpeed: LowSpeed
    let stallSeconds: Double
    /// Whether a file is on stable storage before its job has succeeded.
    var syncs: Bool { configuration.fileSync == .full }
    let builder: RequestBuilder
    let fileThreads: FileThreadPool
    let metrics = EngineMetrics()
    let registry = Registry()
    let followers = FollowedJobs()
    let bulk: BulkTransfers
    let places: Places
    let gathering: BufferBudget
    /// The memory for copies to stores in addition to one part of each.
    let copies = BufferBudget(byteCount: EngineLimits.copiedByteCountMax)
    let rates = SharedRateLimits()
    /// As in `EngineConfiguration`.
    let sessions: SessionCache
    let spaces = KnownSpaces()
    let mirrors = MirrorStatistics()
    let names: NameLookup
    let lease: any LeaseHolder
    /// As in `EngineConfiguration`.
    let nodeCredentials: NodeCredentials?
    /// `nil` if connections are not limited.
    let connections: (any ConnectionLimiter)?
    /// As in `EngineConfiguration`.
    var marker: (any RequestMarker)? { configuration.marker }
    let jobs: any JobLookup
    let clock: any WallClock
    let logger: Logger
    private let failures: FailureLog
    private let sink: any ResultSink

    init(
        _ configuration: EngineConfiguration, places: Places, sink: any ResultSink, lease: any LeaseHolder,
        jobs: any JobLookup, clock: any WallClock, logger: Logger
    ) {
        self.configuration = configuration
        egress = configuration.egress
        lowSpeed = configuration.lowSpeed
        stallSeconds = configuration.stallSeconds
        connections = configuration.connections
        builder = RequestBuilder(
            userAgent: configuration.userAgent, proxy: configuration.proxy,
            nodeCredentials: configuration.nodeCredentials, clock: clock)
        nodeCredentials = configuration.nodeCredentials
        sessions = configuration.sessions
        self.places = places
        fileThreads = places.fileThreads
        bulk = BulkTransfers(loopCount: configuration.loopCount)
        gathering = BufferBudget(byteCount: configuration.gatheredByteCountMax)
        names = NameLookup(isCutOff: configuration.isCutOff, resolve: configuration.resolve)
        self.sink = sink
        self.lease = lease
        self.jobs = jobs
        self.clock = clock
        self.logger = logger
        failures = FailureLog(logger)
    }

    /// Whether that address may be connected for a request to `url`.
    func allows(_ address: SocketAddress, for attempt: Attempt, _ url: WebURL) -> Bool {
        // The address is the proxy's, which the operator has named.
        builder.usesServiceProxy(attempt, url)
            || allows(address, for: builder.connectedScheme(attempt, url))
    }

    /// Notes that the name of a URL's host has resolved, unless a proxy resolves it.
    func noteResolved(_ url: WebURL, for attempt: Attempt) {
        guard url.address == nil, builder.proxyScheme(attempt, url) == nil else { return }
        names.noteResolved(url.host)
    }

    /// Whether the egress policy allows that address for an endpoint of that scheme.
    func allows(_ address: SocketAddress, for scheme: EndpointAddress.Scheme) -> Bool {
        let plain =
            address.isIPv6
            ? IPAddress(v6High: address.high, low: address.low)
            : IPAddress(v4: UInt32(truncatingIfNeeded: address.low))
        return egress.allows(plain, port: address.port, for: scheme)
    }

    func noteResumption(_ attempt: Attempt, at offset: Int64) {
        sink.resumed(attempt, at: offset)
    }

    /// Returns what a response says about its host; `nil` if the job's own proxy may have made it up.
    func hostResponse(_ head: ResponseHead, from url: WebURL, to attempt: Attempt) -> HostResponse? {
        guard builder.isAnsweredByServer(attempt, url) else { return nil }
        let isThrottling = head.status == 429 || head.status == 503
        return HostResponse(
            job: attempt.job, scope: attempt.scope(of: url), status: head.status,
            retryAfter: isThrottling ? head.retryAfter(now: clock.now()) : nil)
    }

    /// Reports a host's response at once: the attempt may take long to end.
    func report(_ response: HostResponse) { sink.received(response) }

    func noteUnanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool {
        sink.noteUnanswered(attempt, at: scope)
    }

    func lendSlot(of attempt: Attempt) -> Bool { sink.lendSlot(of: attempt) }

    var areSlotsMissing: Bool { sink.areSlotsMissing }

    func lendSlotEarly(of attempt: Attempt) -> Bool { sink.lendSlotEarly(of: attempt) }

    func settleEarlyLoan(of attempt: Attempt) { sink.settleEarlyLoan(of: attempt) }

    func takeBackSlot(of attempt: Attempt, isEarly: Bool) {
        sink.takeBackSlot(of: attempt, isEarly: isEarly)
    }

    /// Reports a result, once it is known whether a host whose name did not resolve exists. Other mirrors may
    /// have the file of a job with mirrors.
    func report(_ result: AttemptResult) {
        // The exchanges of a copy know which of its servers has responded.
        let isCopy = result.attempt.spec.isCopy
        let result = isCopy ? result : result.explainedByStore(of: result.attempt, nodeCredentials)
        guard case .failed(let error, let retryAfter) = result.outcome, error.unresolvedHost != nil,
            result.attempt.spec.mirrors.isEmpty
        else { return finish(result) }
        names.judge(error) { [self] error in
            finish(result.with(.failed(error, retryAfter: retryAfter)))
        }
    }

    /// The only place from which results leave the engine.
    private func finish(_ result: AttemptResult) {
        metrics.ended(result.outcome)
        failures.note(result)
        registry.remove(result.attempt)
        sink.record(result)
    }

    func report(unbegun assigned: AssignedAttempt, on loop: Int, _ outcome: AttemptResult.Outcome) {
        if assigned.placement.isBulk { bulk.ended(on: loop) }
        report(
            AttemptResult(
                attempt: assigned.attempt, outcome: outcome, response: nil, bytesReceived: 0, bytesSent: 0))
    }
}

/// An attempt that is assigned to a loop.
struct AssignedAttempt: Sendable {
    let attempt: Attempt
    let progress: ProgressMeter
    let placement: BulkTransfers.Placement
}

/// The running attempt of each job, and its loop. Any thread.
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
            // A later attempt of the same job may have replaced the entry.
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
    /// Number of attempts by tenant.
    var countsByTenant: [String: Int] {
        entries.withLock { entries in
            var counts: [String: Int] = [:]
            // Attempts of one tenant often follow each other, and comparing costs less than hashing.
            var (tenant, count) = ("", 0)
            for entry in entries.values {
                if entry.attempt.tenant != tenant {
                    if count > 0 { counts[tenant, default: 0] += count }
                    (tenant, count) = (entry.attempt.tenant, 0)
                }
                count += 1
            }
            if count > 0 { counts[tenant, default: 0] += count }
            return counts
        }
    }

    /// Waits until no attempt runs. Returns `false` if the time is over first. One thread at a time.
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
