import Curl
import FerryCore

/// The attempts of one loop. Loop thread only.
final class EngineLoop {
    let context: EngineContext
    let index: Int
    /// Not the multi's owner: `Engine` is.
    let loop: CurlLoop
    unowned let multi: CurlMulti
    /// This object, for closures that other threads carry.
    let state: LoopBound<EngineLoop>
    private var live: [AttemptKey: any RunningAttempt] = [:]
    /// Attempts whose slots are lent.
    private var lentCount = 0
    private var lastScan: Int64
    let stage = WriteStage()

    init(_ context: EngineContext, index: Int, loop: CurlLoop, multi: CurlMulti, state: LoopBound<EngineLoop>)
    {
        self.context = context
        self.index = index
        self.loop = loop
        self.multi = multi
        self.state = state
        lastScan = multi.now
        multi.everySecond { [unowned self] now in scan(now) }
        multi.afterEachTurn { [unowned self] in stage.flush() }
    }

    /// Lets any thread say something to this loop; dropped after its stop.
    var teller: @Sendable (@escaping @Sendable (EngineLoop) -> Void) -> Void {
        { [loop, state] body in loop.perform { multi in body(state.get(multi)) } }
    }

    /// Runs the attempt; its result comes sooner or later, in any case once.
    func begin(_ placed: Placed) {
        let attempt = placed.attempt
        guard !attempt.isCancelRequested else {
            context.report(unbegun: placed, on: index, .cancelled)
            return
        }
        guard let url = try? WebURL.parse(attempt.spec.request.url) else {
            let error = TransferError(
                .internalError, "The job's URL cannot be read.", phase: .resolving, isRetryable: false)
            context.report(unbegun: placed, on: index, .failed(error, retryAfter: nil))
            return
        }
        let transfer: any RunningAttempt =
            attempt.spec.isFetchedInParts
            ? SegmentedTransfer(placed, url, on: self) : LiveTransfer(placed, url, on: self)
        live[AttemptKey(attempt)] = transfer
        transfer.begin()
    }

    func stop(_ job: JobID, _ how: AttemptStop) {
        guard let number = context.registry[job]?.number else { return }
        live[AttemptKey(job, number)]?.handle(.stop(how))
    }

    /// The job's attempt as far as it is; nil when it is not here any more.
    func snapshot(_ job: JobID) -> AttemptSnapshot? {
        guard let number = context.registry[job]?.number else { return nil }
        return live[AttemptKey(job, number)]?.snapshot
    }

    /// Ends everything that is not about to be published anyway.
    func releaseAll() {
        for transfer in Array(live.values) { transfer.handle(.release) }
    }

    func changeRate(_ job: JobID, _ bytesPerSecond: Int64?) {
        guard let number = context.registry[job]?.number else { return }
        live[AttemptKey(job, number)]?.changeRate(bytesPerSecond)
    }

    func limitsChanged() {
        for transfer in Array(live.values) { transfer.limitsChanged() }
    }

    /// A file thread has something to say to an attempt that may be gone.
    func handle(_ event: AttemptMachine.Event, for key: AttemptKey) { live[key]?.handle(event) }

    func prepared(_ key: AttemptKey, _ resumption: Resumption?) { live[key]?.lookedForBytes(resumption) }

    func putAside(_ bytes: PartialDownload?, for key: AttemptKey) { live[key]?.putAside = bytes }

    func report(_ outcome: AttemptResult.Outcome, for key: AttemptKey, kept: PartialDownload?) {
        live[key]?.report(outcome, kept: kept)
    }

    /// The body of an attempt is put together, or cannot be.
    func opened(_ contents: Result<BodyContents, BodyAssembly.Failure>, for key: AttemptKey) {
        (live[key] as? LiveTransfer)?.opened(contents)
    }

    /// What nobody waits for any more is given back.
    func connectionAnswered(_ answer: ConnectionGrant, for attempt: Attempt, at scope: RequestScope) {
        let isTaken = live[AttemptKey(attempt)]?.connectionAnswered(answer, at: scope) ?? false
        if !isTaken, answer == .granted { context.connections?.giveBack(attempt, scope) }
    }

    func resume(_ key: AttemptKey) { live[key]?.digestCaughtUp() }

    func cleared(_ key: AttemptKey) { (live[key] as? SegmentedTransfer)?.cleared() }

    /// Whether one more transfer should be small rather than fast. Who reaches nobody is neither.
    var isCrowded: Bool { live.count - lentCount > EngineLimits.crowdedTransferCountMin }

    /// Whether memory is no matter yet.
    var isRoomy: Bool { live.count <= EngineLimits.roomyTransferCountMax }

    func ended(_ key: AttemptKey) { live[key] = nil }

    /// Nothing moves. False: its slot cannot be lent.
    func lendSlot(of attempt: Attempt) -> Bool {
        guard context.lendSlot(of: attempt) else { return false }
        lentCount += 1
        return true
    }

    func takeBackSlot(of attempt: Attempt) {
        lentCount -= 1
        context.takeBackSlot(of: attempt)
    }

    private func scan(_ now: Int64) {
        let seconds = Double(now - lastScan) / 1e9
        lastScan = now
        if index == 0 { context.space.measure(on: context.lane) }
        // A loop that is late itself knows little about who can be reached.
        let isLate = seconds > 1.5
        let isDiskLost = context.space.isLost
        for transfer in Array(live.values) {
            if !isLate { transfer.lendSlot(now) }
            transfer.secondPassed(now, seconds)
            transfer.watchDisk(isLost: isDiskLost)
        }
    }
}

extension JobSpec {
    /// Whether several connections or several URLs may serve it.
    var isFetchedInParts: Bool { kind == .download && (segmentCountMax > 1 || !mirrors.isEmpty) }
}

extension AttemptKey {
    init(_ job: JobID, _ number: Int32) {
        self.job = job
        self.number = number
    }
}
