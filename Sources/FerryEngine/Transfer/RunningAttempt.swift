import Curl
import FerryCore
import Glibc
import Sys

/// An attempt that a loop runs: passes events to its machine, and carries out the machine's actions, with its
/// exchanges and the sink of its content. Loop thread only.
final class RunningAttempt {
    /// The attempt whose requests go to the job's target: for a copy, the end that gets the bytes.
    private(set) var attempt: Attempt
    /// The attempt as it was leased, and reported.
    private(set) var leased: Attempt
    /// The end of a copy that the bytes come from; `nil` for other jobs.
    private(set) var source: Attempt?
    let key: AttemptKey
    let progress: ProgressMeter
    unowned let loop: EngineLoop
    /// The attempt's requests.
    private(set) lazy var exchanges: any AttemptExchanges =
        attempt.spec.isFetchedInParts ? PartExchanges(of: self) : SerialExchanges(of: self)
    private var machine = AttemptMachine()
    private var publication: Publication?
    var slot: HeldSlot
    var trace: AttemptTraceBuilder
    /// The job's own request as the attempt began.
    let own: TransactionLog.OwnRequest
    /// Bytes that earlier attempts have left.
    var foundByteCount: Int64 = 0
    /// Whether bytes of an earlier attempt, or resume data, wait for the response that decides about them.
    private var awaitsResumption = false
    /// Bytes that a revoked publication has left.
    var putAside: PartialDownload?
    /// Whether bytes are to be left to a later attempt.
    private var leavesBytes = false
    /// The outcome that is reported as soon as the bytes are left to a later attempt, or the exchanges have
    /// ended.
    private var awaitedOutcome: AttemptResult.Outcome?
    /// Seconds in a row for which the attempt has waited for a file thread.
    private var diskSeconds = 0
    /// Whether it moves so many bytes that it counts as bulk.
    private(set) var isBulk: Bool
    /// Whether its end tells how large others of its origin may be.
    private let isFirstOfOrigin: Bool
    /// When the attempt has to end, in nanoseconds of the loop's clock.
    private let resourceDeadline: Int64

    init(_ assigned: AssignedAttempt, on loop: EngineLoop) {
        leased = assigned.attempt
        let copy = assigned.attempt.copy
        (attempt, source) = (copy?.target ?? assigned.attempt, copy?.source)
        key = AttemptKey(assigned.attempt)
        progress = assigned.progress
        isBulk = assigned.placement.isBulk
        isFirstOfOrigin = assigned.placement.isFirst
        self.loop = loop
        let now = loop.multi.now
        slot = HeldSlot(since: now)
        own = .init(leased.spec.request)
        let startedAt = loop.context.clock.now()
        trace = AttemptTraceBuilder(startedAt: startedAt, own: own)
        let left = min(max(0, attempt.expiry - startedAt), 1e9)
        resourceDeadline = now + Int64(left * 1e9)
    }

    var context: EngineContext { loop.context }

    // MARK: State machine

    /// `true` once the outcome is decided.
    var isEnded: Bool { machine.isEnded }
    /// Outcome of the attempt while the body of a refused response is stored, else `nil`.
    var rejection: AttemptResult.Outcome? { machine.rejection }
    /// Whether the current response was not accepted.
    var isDiscarding: Bool { machine.isDiscarding }

    /// Prepares the first request.
    func begin() { prepare { () throws(TransferError) in try exchanges.begin() } }

    /// Passes the attempt, which is being prepared, to other exchanges.
    func pass(to others: any AttemptExchanges) {
        exchanges = others
        prepare { () throws(TransferError) in try others.begin() }
    }

    /// Lets other exchanges go on with the attempt, whose requests run already.
    func goOn(with others: any AttemptExchanges) { exchanges = others }

    /// Runs a step of the preparation; what it throws ends the attempt.
    func prepare(_ step: () throws(TransferError) -> Void) {
        do throws(TransferError) { try step() } catch { handle(.preparationFailed(error)) }
    }

    func handle(_ event: AttemptMachine.Event) {
        guard let event = exchanges.revise(event) else { return }
        if context.places.objects != nil, case .prepared = event, isWithoutPlace {
            for action in machine.handle(.preparationFailed(.contentStoreUnavailable)) { perform(action) }
        } else {
            for action in machine.handle(event) { perform(action) }
        }
    }

    /// Whether the content store that the bytes would go to is away: no request is sent for them then.
    private var isWithoutPlace: Bool {
        attempt.spec.storesFile && attempt.spec.storesBytes && context.places.objects?.isAvailable == false
    }

    private func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start, .stopTransfer, .follow, .change, .startLater, .endPreparation, .store:
            exchanges.perform(action)
        case .revokeStorage: publication?.revoke()
        case .discardBytes:
            putAside = nil
            exchanges.perform(action)
            exchanges.sink?.abort()
        case .keepBytes:
            exchanges.perform(action)
            leavesBytes = exchanges.sink?.keep() ?? false
        case .report(let outcome):
            exchanges.perform(action)
            guard awaitedOutcome == nil else { return }
            guard leavesBytes, let sink = exchanges.sink else { return report(outcome, partial: putAside) }
            leavesBytes = false
            awaitedOutcome = outcome
            let (key, onLoop) = (key, loop.runner)
            sink.leave { partial in onLoop { $0.report(outcome, for: key, partial: partial) } }
        case .leave: leave()
        }
    }

    /// Uses the edited fields of the job from now on.
    func apply(_ edit: AttemptEdit) {
        leased = leased.edited(by: edit)
        let copy = leased.copy
        (attempt, source) = (copy?.target ?? leased, copy?.source)
    }

    func becomeBulk() {
        guard !isBulk else { return }
        isBulk = true
        context.bulk.note(attempt.origin)
        context.bulk.began(on: loop.index)
    }

    // MARK: The content

    /// Lets the sink look for the bytes of earlier attempts; then the attempt is prepared.
    func open(_ sink: any ByteSink) throws(TransferError) {
        switch try sink.open(attempt) {
        case .opened: handle(.prepared)
        case .checking: handle(.onlyChecks)
        case .searching: break
        }
    }

    /// Takes what the sink has found.
    func sinkOpened() {
        let failure = exchanges.sink?.opened()
        // A client that gave resume data is told even if the data is of no use.
        awaitsResumption =
            exchanges.sink?.earlier != nil || attempt.number == 1 && attempt.secrets.resumePoint != nil
        exchanges.sinkOpened(failure)
    }

    /// The attempt is to continue an upload: a response decides about that.
    func awaitResumption() { awaitsResumption = true }

    /// Reports how many bytes of earlier attempts are kept, once a response has decided that.
    func noteResumption(at byteCount: Int64) {
        guard awaitsResumption else { return }
        awaitsResumption = false
        progress.resumedAt(byteCount)
        context.noteResumption(attempt, at: byteCount)
    }

    /// Passes the content to its publication. `sent`: the result of an upload, whose response it is.
    /// `isInline`: its bytes become the result itself. Throws as `ByteSink.commit`.
    func publish(
        _ sink: any ByteSink, _ digests: Digests, _ verified: TransferResult.Verification,
        sent: TransferResult? = nil, isInline: Bool = false
    ) throws(TransferError) {
        // The response is over: nothing of the result but its outcome changes from here on.
        let ended = exchanges.result(machine.rejection ?? .released, partial: nil)
        let (loop, offset, isRejection) = (loop, progress.resumedAtOffset, machine.rejection != nil)
        publication = try sink.commit { content in
            loop.publication(
                of: content, digests, verified, ended, resumedAt: offset, sent: sent, isInline: isInline,
                isRejection: isRejection)
        }
    }

    // MARK: The end

    /// Lets the exchanges report the outcome later: they have something left to do at their server.
    func delayReport(of outcome: AttemptResult.Outcome) { awaitedOutcome = outcome }

    /// Reports the outcome and ends the attempt. `partial`: the bytes that are left to a later attempt.
    func report(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) {
        leave()
        let outcome = settled(outcome).weighed(gained: partial.map { $0.byteCount - foundByteCount })
        if case .failed(let error, _) = outcome, let found = error.diagnostics { trace.note(found) }
        context.report(exchanges.result(outcome, partial: partial))
    }

    private func leave() {
        takeBackSlot()
        exchanges.perform(.leave)
        exchanges.sink?.release()
        if isBulk {
            context.bulk.ended(on: loop.index)
        } else if isFirstOfOrigin {
            context.bulk.endedSmall(attempt.origin)
        }
        loop.ended(key)
    }

    /// Notes what the outcome says about the place of the content.
    private func settled(_ outcome: AttemptResult.Outcome) -> AttemptResult.Outcome {
        guard case .failed(let error, let retryAfter) = outcome,
            [.storageFull, .storageUnavailable].contains(error.code)
        else { return outcome }
        let total = progress.snapshot.bytesExpectedToReceive
        // An attempt reports why its place cannot be used when it opens its sink.
        let sink =
            exchanges.sink
            ?? (try? context.places[attempt.spec.contentLocation].sink(for: attempt, on: loop))
        return .failed(sink?.judge(error, of: attempt, expecting: total) ?? error, retryAfter: retryAfter)
    }

    /// Ends an attempt that waits for a disk which hangs, unless its content is about to be committed.
    private func giveUpOnDisk(_ error: TransferError) {
        if let outcome = awaitedOutcome { return report(outcome, partial: nil) }
        guard publication?.revoke() ?? true else { return }
        handle(.placeLost(error))
    }

    // MARK: Time

    /// Whether the attempt waits for a file thread.
    var waitsForDisk: Bool {
        machine.waitsForDisk || exchanges.activity.waitsForPlace || awaitedOutcome != nil
    }

    /// Called about once a second. `now`: monotonic nanoseconds. `seconds`: since the last call.
    func secondPassed(_ now: Int64, _ seconds: Double) {
        progress.measure(seconds: seconds)
        exchanges.secondPassed(now, seconds)
    }

    /// Ends an attempt that has used up the time of its job. Returns `false` if there is time left.
    func endIfOverdue(_ now: Int64, _ phase: @autoclosure () -> TransferError.Phase) -> Bool {
        guard now >= resourceDeadline else { return false }
        handle(.timedOut(attempt.overdue(phase())))
        return true
    }

    /// Called once a second. A disk that hangs returns no error, so an attempt that waits for one ends after
    /// a while, and another node may run it.
    func watchDisk(isLost: Bool) {
        diskSeconds = waitsForDisk ? diskSeconds + 1 : 0
        guard isLost, diskSeconds >= EngineLimits.diskSecondsMin else { return }
        giveUpOnDisk(
            TransferError(
                .storageUnavailable, "The disk does not answer.", phase: .finishing, isRetryable: true,
                osError: ETIMEDOUT))
    }

    /// The attempt so far.
    var snapshot: AttemptSnapshot {
        trace.snapshot(attempt.number, running: exchanges.runningTransactions)
    }
}

extension TransferError {
    /// The operating system's error, for operators.
    var diagnostics: AttemptRecord.Diagnostics? {
        osError == 0 ? nil : .init(curlCode: 0, curlMessage: "", osError: osError)
    }
}
