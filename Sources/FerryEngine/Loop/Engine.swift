import Curl
package import FerryCore
import Glibc
package import Logging
import Synchronization
import Sys

/// Runs attempts with libcurl on loops of its own, and files on threads of their own.
///
/// Any thread may call anything but `drain` and `stop`, which wait and belong to the life cycle.
package final class Engine: AttemptRunner, HostProber {
    private struct Lane: Sendable {
        let loop: CurlLoop
        let state: LoopBound<EngineLoop>
    }

    private let context: EngineContext
    private let lanes: [Lane]
    private let isDraining = Atomic<Bool>(false)
    /// A drain has: what has not ended by then does not end by itself.
    private let hasGivenUp = Atomic<Bool>(false)

    /// Seconds that a drain waits for what it has released: a file that is nearly there gets its name.
    private static let releaseSeconds = 15.0

    /// Starts the threads. Throws when libcurl cannot be used or the process is out of descriptors.
    package init(
        configuration: EngineConfiguration, sink: any ResultSink, lease: any LeaseHolder,
        jobs: any JobLookup, clock: any WallClock, logger: Logger
    ) throws {
        let context = EngineContext(
            configuration, sink: sink, lease: lease, jobs: jobs, clock: clock, logger: logger)
        self.context = context
        let count = max(1, configuration.loopCount)
        lanes = try (0..<count).map { index in
            let kept = max(16, configuration.keptConnectionCount / count)
            let loop = try CurlLoop(name: "ferry-curl-\(index)", keptConnections: kept)
            return Lane(
                loop: loop,
                state: LoopBound(on: loop) { multi, state in
                    EngineLoop(context, index: index, loop: loop, multi: multi, state: state)
                })
        }
    }

    /// Takes the attempts at once and runs all of them; bounded by whoever leases.
    package func begin(_ attempts: [Attempt]) {
        context.metrics.began(attempts.count)
        var placed = [[Placed]](repeating: [], count: lanes.count)
        for attempt in attempts {
            let (lane, isBulk) = place(attempt)
            let progress = ProgressMeter()
            context.registry.add(
                attempt, Registry.Entry(attempt: attempt, loop: lane, progress: progress))
            placed[lane].append(Placed(attempt: attempt, progress: progress, isBulk: isBulk))
        }
        for (index, batch) in placed.enumerated() where !batch.isEmpty {
            let lane = lanes[index]
            let isDraining = isDraining.load(ordering: .sequentiallyConsistent)
            let accepted =
                !isDraining
                && lane.loop.perform { [state = lane.state] multi in
                    let loop = state.get(multi)
                    for placed in batch { loop.begin(placed) }
                }
            if !accepted {
                for one in batch { context.report(unbegun: one, on: index, .released) }
            }
        }
    }

    /// Bulk counts for its loop from here on, so that a batch is spread as well.
    private func place(_ attempt: Attempt) -> (lane: Int, isBulk: Bool) {
        let home = Int(attempt.origin.hashValue.magnitude % UInt(lanes.count))
        guard attempt.isExpectedToBeBulk || context.bulk.isBulk(attempt.origin) else { return (home, false) }
        return (context.bulk.beganOnLeastLoaded(preferred: home), true)
    }

    /// Closes the attempt's socket within a turn of its loop. Does nothing when the job does not run here.
    package func stop(_ job: JobID, _ how: AttemptStop) {
        guard let entry = context.registry[job] else { return }
        let lane = lanes[entry.loop]
        lane.loop.perform { [state = lane.state] multi in state.get(multi).stop(job, how) }
    }

    /// A new limit for a job that may run here; nil: none. At once.
    package func changeRate(_ job: JobID, bytesPerSecondMax: Int64?) {
        guard let entry = context.registry[job] else { return }
        let lane = lanes[entry.loop]
        lane.loop.perform { [state = lane.state] multi in
            state.get(multi).changeRate(job, bytesPerSecondMax)
        }
    }

    /// New limits for all transfers together, and this node's part of those that all nodes keep together. At
    /// once, also for what runs.
    package func setLimits(_ limits: TransferLimits, shares: RateShares) {
        if context.rates.set(limits, shares) { limitsChanged() }
    }

    package func takeRateDemand() -> RateDemand { context.rates.takeDemand() }

    /// New limits of sessions, which all nodes share. At once, also for what runs.
    package func setSessionRates(_ rates: [SessionKey: Int64]) {
        if context.rates.set(rates) { limitsChanged() }
    }

    private func limitsChanged() {
        for lane in lanes {
            lane.loop.perform { [state = lane.state] multi in state.get(multi).limitsChanged() }
        }
    }

    package func setHostRates(_ rates: [String: Int64]) {
        if context.rates.set(hosts: rates) { limitsChanged() }
    }

    package func progress(of job: JobID) -> TransferProgress? { context.registry[job]?.progress.snapshot }

    /// Everything that runs here, in no order.
    package var runningTransfers: [RunningTransfer] {
        context.registry.all.map { entry in
            RunningTransfer(
                job: entry.attempt.job, tenant: entry.attempt.tenant, session: entry.attempt.spec.session,
                progress: entry.progress.snapshot)
        }
    }

    /// What the job's attempt has done so far; nil when none runs here. Replies on another thread, or at
    /// once.
    package func snapshot(of job: JobID, reply: @escaping @Sendable (AttemptSnapshot?) -> Void) {
        guard let entry = context.registry[job] else { return reply(nil) }
        let lane = lanes[entry.loop]
        let isAsked = lane.loop.perform { [state = lane.state] multi in
            reply(state.get(multi).snapshot(job))
        }
        if !isAsked { reply(nil) }
    }

    /// These jobs are over for good: what their attempts left beside their files goes.
    package func settled(_ jobs: [JobID]) {
        let leftovers = context.leftovers.take(jobs)
        guard !leftovers.isEmpty else { return }
        context.lane.send(.run { for one in leftovers { one.remove() } })
    }

    /// Removes a file on a file thread: a disk that hangs, or a large file, takes its time.
    package func remove(_ path: String) { context.lane.send(.run { unlink(path) }) }

    /// The job is gone: so is what its attempts have left here.
    package func forget(_ point: ResumePoint) {
        context.lane.send(
            .run { [context] in _ = try? context.destination(of: point).takeOver(identity: nil) })
    }

    /// What these jobs have left is kept for others, until its time is over.
    package func leaveBytes(_ jobs: [JobID]) { _ = context.leftovers.take(jobs) }

    /// Takes no more attempts, gives the running ones so many seconds, then ends the rest as `released`, and
    /// waits for it. Gives up what a disk that hangs holds up even then: no result of it will come, as if the
    /// process had been killed. Twice is once more the waiting, but not after it has given up.
    package func drain(seconds: Double) {
        isDraining.store(true, ordering: .sequentiallyConsistent)
        guard !hasGivenUp.load(ordering: .sequentiallyConsistent) else { return }
        if context.registry.waitUntilEmpty(seconds: seconds) { return }
        for lane in lanes {
            lane.loop.perform { [state = lane.state] multi in state.get(multi).releaseAll() }
        }
        if context.registry.waitUntilEmpty(seconds: Self.releaseSeconds) { return }
        hasGivenUp.store(true, ordering: .sequentiallyConsistent)
        context.logger.error("transfers did not end", metadata: ["count": "\(context.registry.count)"])
    }

    /// Drains without patience and ends the threads, but for file threads that hang. The engine cannot be
    /// used afterwards.
    package func stop() {
        drain(seconds: 0)
        context.space.stop()
        let hanging = context.lane.stop()
        if hanging > 0 {
            context.logger.error("file threads did not end", metadata: ["count": "\(hanging)"])
        }
        for lane in lanes { lane.loop.stop() }
    }

    /// Connects to an origin as its transfers would, and asks for nothing.
    package func probe(_ origin: String, reply: @escaping @Sendable (TransferError?) -> Void) {
        let lane = lanes[Int(origin.hashValue.magnitude % UInt(lanes.count))]
        let isAsked = lane.loop.perform { [state = lane.state] multi in
            HostProbe.start(origin, on: state.get(multi), reply)
        }
        if !isAsked { reply(HostProbe.stopped) }
    }

    /// The room in the watched directories, as of the last second.
    package var rooms: [StorageRoom] { context.space.rooms }

    package var snapshot: EngineSnapshot {
        var snapshot = context.metrics.snapshot
        snapshot.live = context.registry.count
        let latest = lanes.map(\.loop.lastTurnNanoseconds).min() ?? 0
        let now = monotonicNanoseconds()
        snapshot.loopAgeSeconds = Double(now - latest) / 1e9
        snapshot.fileWorkSeconds = Double(context.lane.busyNanoseconds(now)) / 1e9
        return snapshot
    }
}

extension Attempt {
    /// Whether the job itself says that much is to be moved.
    var isExpectedToBeBulk: Bool {
        let most = max(
            spec.schedule.expectedBytesToReceive ?? 0, spec.schedule.expectedBytesToSend ?? 0,
            spec.integrity.size ?? 0)
        return most >= EngineLimits.bulkByteCountMin
    }
}
