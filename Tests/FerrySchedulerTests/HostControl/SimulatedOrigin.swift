import FerryCore
import FerryScheduler

/// Simulates one origin, the jobs of several tenants, and the nodes that run them.
///
/// Claims obey the limits of `HostControl`. Nodes report each second, and a failure at once if it is the
/// first one or has `Retry-After`. A failed job is retried after `Retry-After`, or after 1 s doubling to
/// 60 s.
struct SimulatedOrigin {
    /// Jobs of one tenant for one path.
    struct Stream {
        var tenant: String
        var path: String
        /// Attempts at once without limits.
        var wanted: Int
        /// Jobs that wait at the start; `nil` if there is always one more.
        var count: Int?
        /// Jobs that are added per second.
        var perSecond = 0.0
        /// The result of each of its requests; `nil` if the origin decides.
        var response: HostSignal?
        var seconds = 0.1
        /// Second in which its jobs are added.
        var startsAt = 0.0
    }
    struct Counts {
        var answered = 0
        /// Throttled or lost.
        var failed = 0
        /// Number of times that a limit kept one of its jobs from beginning.
        var held = 0
        /// Time at which its last job succeeded.
        var doneAt = 0.0
    }

    /// Requests that the origin serves at once, and per second; and how many at once after a pause.
    var capacity: Int?
    var rate: Double?
    var burst = 1.0
    /// The response to requests beyond that.
    var refusal = HostSignal.throttled(status: 503, retryAfter: nil)
    var refusalSeconds = 0.005
    /// Share of requests that fails at any load.
    var failureShare = 0.0
    var failure = HostSignal.throttled(status: 503, retryAfter: nil)
    /// Period, in seconds, in which each request gets `refusal`.
    var outage: Range<Double>?
    /// Period, in seconds, in which requests get no response.
    var hang: Range<Double>?
    /// Seconds from the end of an attempt to the next claim, for the database.
    var overhead = 0.01
    var hasControl = true

    var control = HostControl()
    private(set) var streams: [Stream]
    /// Counts of each stream by second.
    private(set) var counts: [[Counts]] = []
    private(set) var decisions: [HostDecision] = []
    private(set) var time = 0.0
    var now: Timestamp { Self.start + time }

    private struct Job {
        var id: JobID
        var failures = 0
    }
    private struct End {
        var stream: Int
        var job: Job
        var signal: HostSignal
        var seconds: Double
        /// `true` if the request counts against `capacity`.
        var isServed: Bool
    }
    private var ready: [[Job]]
    private var arrived: [Double]
    private var ends: [Int: [End]] = [:]
    private var retries: [Int: [(stream: Int, job: Job)]] = [:]
    private var freed: [Int: [Int]] = [:]
    private var inFlight: [Int]
    private var served = 0
    private var tokens: Double
    private var credits: [HostScope: Double] = [:]
    private var limits: [HostScope: HostLimit] = [:]
    private var reports: [HostScope: ScopeReport] = [:]
    private var isStored = false
    private var tick = 0
    private var serial: UInt64 = 0
    private var random: Seeded
    private static let start = Timestamp(microseconds: 1_700_000_000_000_000)
    /// Steps of the clock per second.
    private let ticks: Int
    private let step: Double

    init(_ streams: [Stream], ticks: Int = 100, seed: UInt64 = 1) {
        self.streams = streams
        self.ticks = ticks
        step = 1 / Double(ticks)
        random = Seeded(seed)
        inFlight = streams.map { _ in 0 }
        ready = streams.map { _ in [] }
        arrived = streams.map { Double($0.count ?? 0) }
        tokens = 0
    }

    mutating func run(seconds: Int) {
        if time == 0 { tokens = burst }
        for _ in 0..<seconds {
            counts.append(streams.map { _ in Counts() })
            for _ in 0..<ticks { advance() }
            report()
        }
    }

    private mutating func advance() {
        tick += 1
        time = Double(tick) * step
        if let rate { tokens = min(max(1, burst, 2 * rate * step), tokens + rate * step) }
        for end in ends.removeValue(forKey: tick) ?? [] { finish(end) }
        for stream in freed.removeValue(forKey: tick) ?? [] { inFlight[stream] -= 1 }
        for (stream, job) in retries.removeValue(forKey: tick) ?? [] { ready[stream].append(job) }
        if hasControl {
            if let due = control.dueAt(now), due <= now { report() }
            for (scope, limit) in limits {
                guard let rate = limit.requestRate else { continue }
                credits[scope] = min(max(1.5, rate * 0.02), (credits[scope] ?? 0) + rate * step)
            }
        }
        for index in streams.indices {
            if time >= streams[index].startsAt { arrived[index] += streams[index].perSecond * step }
            claim((index + tick) % streams.count)
        }
    }

    private mutating func finish(_ end: End) {
        let stream = streams[end.stream]
        let scope = HostScope(tenant: stream.tenant, path: stream.path)
        reports[scope, default: ScopeReport()].add(
            end.signal, job: end.job.id, seconds: end.seconds, bytes: 1_000)
        var isUrgent = false
        switch end.signal {
        case .answered:
            counts[counts.count - 1][end.stream].answered += 1
            counts[counts.count - 1][end.stream].doneAt = time
        case .throttled(_, let retryAfter):
            isUrgent = !isStored || retryAfter != nil
            retry(end, after: retryAfter)
        default:
            isUrgent = !isStored
            retry(end, after: nil)
        }
        if end.isServed { served -= 1 }
        freed[tick + max(1, Int(overhead / step)), default: []].append(end.stream)
        if isUrgent { report() }
    }

    private mutating func retry(_ end: End, after asked: Double?) {
        counts[counts.count - 1][end.stream].failed += 1
        var job = end.job
        job.failures += 1
        let backoff =
            min(60, Double(1 << min(job.failures - 1, 6))) * Double.random(in: 0.75...1.25, using: &random)
        let delay = max(asked ?? backoff, step)
        retries[tick + Int(delay / step), default: []].append((end.stream, job))
    }

    private mutating func claim(_ index: Int) {
        let stream = streams[index]
        let narrow = HostScope(tenant: stream.tenant, path: stream.path)
        let scopes = [.origin, HostScope(tenant: stream.tenant), narrow]
        guard time >= stream.startsAt else { return }
        while inFlight[index] < stream.wanted {
            guard !ready[index].isEmpty || stream.count == nil || arrived[index] >= 1 else { return }
            if hasControl, !scopes.allSatisfy({ allows($0) }) {
                counts[counts.count - 1][index].held += 1
                return
            }
            for scope in scopes where limits[scope]?.requestRate != nil { credits[scope, default: 0] -= 1 }
            var job: Job
            if ready[index].isEmpty {
                serial += 1
                job = Job(id: JobID(high: UInt64(index), low: serial))
                if stream.count != nil { arrived[index] -= 1 }
            } else {
                job = ready[index].removeLast()
            }
            inFlight[index] += 1
            begin(job, index)
        }
    }

    private func allows(_ scope: HostScope) -> Bool {
        guard let limit = limits[scope] else { return true }
        if let until = limit.blockedUntil, until > now { return false }
        if limit.requestRate != nil, credits[scope] ?? 0 < 0.999 { return false }
        guard let most = limit.connectionLimit else { return true }
        var count = 0
        for index in streams.indices
        where scope.isOrigin
            || scope.tenant == streams[index].tenant
                && (scope.path.isEmpty || scope.path == streams[index].path)
        {
            count += inFlight[index]
        }
        return count < most
    }

    private mutating func begin(_ job: Job, _ index: Int) {
        let stream = streams[index]
        var signal = HostSignal.answered
        var seconds = stream.seconds * Double.random(in: 0.5...1.5, using: &random)
        var isServed = true
        if let response = stream.response {
            (signal, seconds, isServed) = (response, refusalSeconds, false)
        } else if outage?.contains(time) ?? false {
            (signal, seconds, isServed) = (refusal, refusalSeconds, false)
        } else if hang?.contains(time) ?? false {
            (seconds, signal) = (30, .lost)
        } else if capacity.map({ served >= $0 }) ?? false || rate != nil && tokens < 0.999 {
            (signal, seconds, isServed) = (refusal, refusalSeconds, false)
        } else {
            tokens -= 1
            if Double.random(in: 0..<1, using: &random) < failureShare { signal = failure }
        }
        if isServed { served += 1 }
        let end = End(stream: index, job: job, signal: signal, seconds: seconds, isServed: isServed)
        ends[tick + max(1, Int((seconds / step).rounded())), default: []].append(end)
    }

    private mutating func report() {
        guard hasControl else { return }
        let told = reports
        reports = [:]
        if told.isEmpty, !isStored { return }
        isStored = isStored || told.values.contains { $0.isTrouble }
        // A host without failures has no stored state.
        guard isStored else { return }
        var running: [HostScope: Int] = [:]
        for (index, stream) in streams.enumerated() {
            running[HostScope(tenant: stream.tenant, path: stream.path), default: 0] += inFlight[index]
        }
        decisions += control.take(told, by: nil, inFlight: running, now: now)
        _ = control.dueActions(at: now)
        limits = control.limits(at: now)
        credits = credits.filter { limits[$0.key]?.requestRate != nil }
    }

    // MARK: Results

    func sum(_ value: (Counts) -> Int, seconds: Range<Int>, tenant: String? = nil) -> Int {
        var sum = 0
        for second in counts[seconds] {
            for (index, count) in second.enumerated() where tenant == nil || streams[index].tenant == tenant {
                sum += value(count)
            }
        }
        return sum
    }

    func answeredPerSecond(_ seconds: Range<Int>) -> Double {
        Double(sum(\.answered, seconds: seconds)) / Double(seconds.count)
    }

    func failedShare(_ seconds: Range<Int>) -> Double {
        let failed = sum(\.failed, seconds: seconds)
        return Double(failed) / Double(max(1, failed + sum(\.answered, seconds: seconds)))
    }

    /// Returns `true` if a limit kept a job of the tenant from beginning.
    func isHeld(_ tenant: String) -> Bool { sum(\.held, seconds: 0..<counts.count, tenant: tenant) > 0 }
}
