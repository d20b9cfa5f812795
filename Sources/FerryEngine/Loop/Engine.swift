import Curl
package import FerryCore
import Glibc
package import Logging
import Synchronization
import Sys

/// Runs attempts with libcurl on its own loops, and file work on its own threads.
///
/// Any thread may call any function, except `drain` and `stop`: they wait, and the life cycle calls them.
package final class Engine: AttemptRunner, HostProber, UploadRemover {
    private struct LoopHandle: Sendable {
        let loop: CurlLoop
        let state: LoopBound<EngineLoop>
    }

    let context: EngineContext
    private let loops: [LoopHandle]
    private let isDraining = Atomic<Bool>(false)
    /// Whether a drain has ended without all attempts having ended.
    private let hasGivenUp = Atomic<Bool>(false)

    /// Seconds that a drain waits after releasing attempts, so that nearly finished files are published.
    private static let releaseSeconds = 15.0

    /// Starts the threads. `places`: made with the same configuration; `stop` ends them too. Throws if
    /// libcurl cannot be used or the process is out of descriptors.
    package init(
        configuration: EngineConfiguration, places: Places, sink: any ResultSink, lease: any LeaseHolder,
        jobs: any JobLookup, clock: any WallClock, logger: Logger
    ) throws {
        let context = EngineContext(
            configuration, places: places, sink: sink, lease: lease, jobs: jobs, clock: clock, logger: logger)
        self.context = context
        let count = max(1, configuration.loopCount)
        loops = try (0..<count).map { index in
            let kept = max(16, configuration.keptConnectionCount / count)
            let loop = try CurlLoop(name: "ferry-curl-\(index)", keptConnections: kept)
            return LoopHandle(
                loop: loop,
                state: LoopBound(on: loop) { multi, state in
                    EngineLoop(context, index: index, loop: loop, multi: multi, state: state)
                })
        }
    }

    /// Runs all the attempts. Returns at once. The caller limits how many run.
    package func begin(_ attempts: [Attempt]) {
        context.metrics.began(attempts.count)
        var assigned = [[AssignedAttempt]](repeating: [], count: loops.count)
        for attempt in attempts {
            let home = Int(attempt.origin.hashValue.magnitude % UInt(loops.count))
            // The job knows more about its own size than the origin's other files tell.
            let placement = context.bulk.place(
                attempt.origin, home: home, isLarge: attempt.isExpectedToBeBulk)
            let progress = ProgressMeter(attempt.spec.progressEstimate)
            context.registry.add(
                attempt, Registry.Entry(attempt: attempt, loop: placement.loop, progress: progress))
            assigned[placement.loop].append(
                AssignedAttempt(attempt: attempt, progress: progress, placement: placement))
        }
        for (index, batch) in assigned.enumerated() where !batch.isEmpty {
            let handle = loops[index]
            let isDraining = isDraining.load(ordering: .sequentiallyConsistent)
            let accepted =
                !isDraining
                && handle.loop.perform { [state = handle.state] multi in
                    let loop = state.get(multi)
                    for assigned in batch { loop.begin(assigned) }
                }
            if !accepted {
                for one in batch { context.report(unbegun: one, on: index, .released) }
            }
        }
    }

    /// Stops the job's attempt: closes its socket within a turn of its loop. Does nothing if the job does not
    /// run here.
    package func stop(_ job: JobID, _ how: AttemptStop) {
        guard let entry = context.registry[job] else { return }
        let handle = loops[entry.loop]
        handle.loop.perform { [state = handle.state] multi in state.get(multi).stop(job, how) }
    }

    /// Lets the attempt of a job that may run here use edited fields: the limit of speed at once, those of
    /// the request for the next one.
    package func adopt(_ edit: AttemptEdit, of job: JobID) {
        guard let entry = context.registry[job] else { return }
        let handle = loops[entry.loop]
        handle.loop.perform { [state = handle.state] multi in state.get(multi).adopt(edit, of: job) }
    }

    /// Sets the limits for all transfers together, and this node's shares of those for all nodes together.
    /// Applies at once, also to running transfers.
    package func setLimits(_ limits: TransferLimits, shares: RateShares) {
        if context.rates.set(limits, shares) { limitsChanged() }
    }

    /// Returns the most jobs that moved bytes at once under each limit for all nodes together, since the last
    /// call.
    package func takeRateDemand() -> RateDemand { context.rates.takeDemand() }

    /// Sets the limits of sessions, for all nodes together. Applies at once, also to running transfers.
    package func setSessionRates(_ rates: [SessionKey: Int64]) {
        if context.rates.set(rates) { limitsChanged() }
    }

    private func limitsChanged() {
        for handle in loops {
            handle.loop.perform { [state = handle.state] multi in state.get(multi).limitsChanged() }
        }
    }

    /// Returns the number of attempts that run here, by tenant.
    package func attemptCounts() -> [String: Int] { context.registry.countsByTenant }

    /// Lets slow attempts lend their slots while tenants wait for some.
    package func lendSlots() {
        for handle in loops {
            handle.loop.perform { [state = handle.state] multi in state.get(multi).lendSlots() }
        }
    }

    /// Sets the limits of single origins, for all nodes together. Applies at once, also to running transfers.
    package func setHostRates(_ rates: [String: Int64]) {
        if context.rates.set(hosts: rates) { limitsChanged() }
    }

    /// Returns the progress of a job that runs here; `nil` if it does not.
    package func progress(of job: JobID) -> TransferProgress? { context.registry[job]?.progress.snapshot }

    /// All transfers that run here, in no particular order.
    package var runningTransfers: [RunningTransfer] {
        context.registry.all.map { entry in
            RunningTransfer(
                job: entry.attempt.job, tenant: entry.attempt.tenant, session: entry.attempt.spec.session,
                progress: entry.progress.snapshot)
        }
    }

    /// Replies with the job's attempt so far, or with `nil` if none runs here; on another thread or at once.
    package func snapshot(of job: JobID, reply: @escaping @Sendable (AttemptSnapshot?) -> Void) {
        guard let entry = context.registry[job] else { return reply(nil) }
        let handle = loops[entry.loop]
        let isAsked = handle.loop.perform { [state = handle.state] multi in
            reply(state.get(multi).snapshot(job))
        }
        if !isAsked { reply(nil) }
    }

    /// Removes what the attempts of these finished jobs have left beside their files.
    package func removePartialFiles(of jobs: [JobID]) {
        for place in context.places.all { place.removePartialFiles(of: jobs) }
    }

    /// Removes what these attempts have left for later ones: those do not look for it any more.
    package func removePartialFiles(of attempts: [LostAttempt]) {
        for place in context.places.all { place.removePartialFiles(of: attempts) }
    }

    /// Removes what the attempts of a deleted job have left here.
    package func forget(_ point: ResumePoint) { context.places[point.location].forget(point) }

    /// Keeps the bytes that these jobs have left for others, until they expire.
    package func keepBytes(of jobs: [JobID]) {
        for place in context.places.all { place.keepBytes(of: jobs) }
    }

    /// Takes no more attempts, waits so many seconds for the running ones, then ends the rest as `released`
    /// and waits for their end. Gives up attempts that a hanging disk still blocks: they have no result, as
    /// if the process had been killed. A second call waits again, unless the first has given up.
    package func drain(seconds: Double) {
        isDraining.store(true, ordering: .sequentiallyConsistent)
        guard !hasGivenUp.load(ordering: .sequentiallyConsistent) else { return }
        if context.registry.waitUntilEmpty(seconds: seconds) { return }
        for handle in loops {
            handle.loop.perform { [state = handle.state] multi in state.get(multi).releaseAll() }
        }
        context.names.giveUpAll()
        if context.registry.waitUntilEmpty(seconds: Self.releaseSeconds) { return }
        hasGivenUp.store(true, ordering: .sequentiallyConsistent)
        context.logger.error("transfers did not end", metadata: ["count": "\(context.registry.count)"])
    }

    /// Drains without waiting for attempts and ends the threads, except file threads that hang. The engine
    /// cannot be used afterwards.
    package func stop() {
        drain(seconds: 0)
        let hanging = context.places.stop()
        if hanging > 0 {
            context.logger.error("file threads did not end", metadata: ["count": "\(hanging)"])
        }
        for handle in loops { handle.loop.stop() }
    }

    /// Connects to an origin as its transfers would, without sending a request. Replies with the failure, or
    /// `nil` if the origin can be reached.
    package func probe(_ origin: String, reply: @escaping @Sendable (TransferError?) -> Void) {
        let handle = loops[Int(origin.hashValue.magnitude % UInt(loops.count))]
        let isAsked = handle.loop.perform { [state = handle.state] multi in
            HostProbe.start(origin, on: state.get(multi), reply)
        }
        if !isAsked { reply(HostProbe.stopped) }
    }

    /// Removes the upload that the attempt would continue from its store. Replies with the failure, or `nil`
    /// if the store has it no longer.
    package func removeUpload(of attempt: Attempt, reply: @escaping @Sendable (TransferError?) -> Void) {
        let handle = loops[Int(attempt.origin.hashValue.magnitude % UInt(loops.count))]
        let isAsked = handle.loop.perform { [state = handle.state] multi in
            UploadRemoval.start(attempt, on: state.get(multi), reply)
        }
        if !isAsked { reply(UploadRemoval.stopped) }
    }

    /// The free space of the watched directories, as of the last second.
    package var storageSpaces: [StorageSpaceReport] { context.places.localFiles.space.reports }

    /// The counters of `/metrics`.
    package var snapshot: EngineSnapshot {
        var snapshot = context.metrics.snapshot
        snapshot.live = context.registry.count
        let latest = loops.map(\.loop.lastTurnNanoseconds).min() ?? 0
        let now = monotonicNanoseconds()
        snapshot.loopAgeSeconds = Double(now - latest) / 1e9
        snapshot.fileWorkSeconds = Double(context.fileThreads.busyNanoseconds(now)) / 1e9
        return snapshot
    }
}

extension Attempt {
    /// Whether the job itself announces a large transfer; `nil` if it announces no size.
    var isExpectedToBeBulk: Bool? {
        let sizes = [
            spec.schedule.expectedBytesToReceive, spec.schedule.expectedBytesToSend, spec.integrity.size,
        ]
        return sizes.compactMap(\.self).max().map { $0 >= EngineLimits.bulkByteCountMin }
    }
}

extension JobSpec {
    /// Integrity that the received bytes must have. `integrity` of an upload is about the bytes that are
    /// sent.
    var receivedIntegrity: Integrity { kind == .upload ? Integrity() : integrity }

    /// Bytes of the file that the job will write, as far as it tells.
    var expectedFileByteCount: Int64? { receivedIntegrity.size ?? schedule.expectedBytesToReceive }

    /// The job's own estimate for its progress.
    fileprivate var progressEstimate: TransferProgress.Estimate? {
        kind == .upload
            ? schedule.expectedBytesToSend.map { .toSend($0) }
            : schedule.expectedBytesToReceive.map { .toReceive($0) }
    }
}
