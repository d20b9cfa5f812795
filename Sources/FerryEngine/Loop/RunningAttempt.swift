import Curl
import FerryCore
import Glibc
import Sys

/// An attempt that a loop runs: as one request at a time (`SingleTransfer`), or in parts and with mirrors
/// (`SegmentedTransfer`). Loop thread only.
protocol RunningAttempt: AnyObject {
    var attempt: Attempt { get }
    var key: AttemptKey { get }
    var progress: ProgressMeter { get }
    var loop: EngineLoop { get }
    /// Whether bytes of an earlier attempt, or resume data, wait for the response that decides about them.
    var awaitsResumption: Bool { get set }
    var slot: HeldSlot { get set }
    /// Bytes that a revoked publication has left.
    var putAside: PartialDownload? { get set }
    /// Whether the attempt has not reached a server yet.
    var isConnecting: Bool { get }
    /// Nanoseconds since a byte moved; 0 while the attempt does not wait for its server.
    func idleTime(_ now: Int64) -> Int64
    /// Whether the attempt waits for its next request or for its server, and reading is not paused.
    var waitsForServer: Bool { get }
    /// Scope of the server that has got a request and has not begun to respond; `nil` if there is none, or if
    /// the job's own proxy may be the one that does not respond.
    var unansweredScope: RequestScope? { get }
    /// Whether the attempt waits for a file thread.
    var waitsForDisk: Bool { get }
    /// Seconds in a row for which the attempt has waited for a file thread.
    var diskSeconds: Int { get set }
    /// Ends an attempt that waits for a disk which hangs, unless its file is about to get its name.
    func giveUpOnDisk(_ error: TransferError)
    func begin()
    func handle(_ event: AttemptMachine.Event)
    /// Takes what the sink has found before the first request.
    func sinkOpened()
    /// Returns what the error says about the place of the content (`ByteSink.judge`).
    func judge(_ error: TransferError, expecting total: Int64?) -> TransferError
    /// Reports the outcome and ends the attempt. `kept`: the bytes that are left to a later attempt.
    func report(_ outcome: AttemptResult.Outcome, partial: PartialDownload?)
    /// Resumes reading, as file threads are no longer far behind.
    func digestCaughtUp()
    /// Changes the job's own limit, in bytes per second; `nil` for none.
    /// Uses the edited fields of the job: the limit of speed at once, those of the request for the next one.
    func adopt(_ edit: AttemptEdit)
    /// Applies changed limits that transfers share.
    func limitsChanged()
    /// Takes the answer about a connection. Returns `false` if no request waits for it.
    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool
    /// The attempt so far.
    var snapshot: AttemptSnapshot { get }
    /// Called about once a second. `now`: monotonic nanoseconds. `seconds`: since the last call.
    func secondPassed(_ now: Int64, _ seconds: Double)
}

/// The slot of an attempt. It is lent to another job while no byte moves: names that do not resolve and
/// servers that do not accept connections take half a minute, servers that do not respond take longer
/// (docs/decisions/0028). While other tenants wait for slots, it is lent while few bytes move
/// (docs/decisions/0050). Instants are nanoseconds of the loop's clock.
struct HeldSlot {
    /// When the attempt got the slot, or took it back.
    private(set) var since: Int64
    private(set) var lentSince: Int64?
    /// Whether the slot was lent early, and the attempt has not stalled since.
    private(set) var isLentEarly = false
    private(set) var lentSeconds = 0.0
    /// Whether it was reported that the host does not respond.
    var isStallReported = false
    /// When the bytes that moved were counted, and their number.
    private var measured: (at: Int64, byteCount: Int64)
    /// Bytes per second between the last two counts if that is slow; `nil` if it is not, or not known.
    private(set) var slowRate: Double?

    init(since: Int64) {
        self.since = since
        measured = (since, 0)
    }

    /// Counts bytes if the last count is long enough ago. `isLate`: the loop was late, so that it cannot tell
    /// whether the server or the loop itself was slow.
    mutating func measure(_ byteCount: Int64, at now: Int64, isLate: Bool) {
        let seconds = Double(now - measured.at) / 1e9
        guard isLate || seconds >= EngineLimits.slotMeasurementSeconds else { return }
        let moved = byteCount - measured.byteCount
        measured = (now, byteCount)
        // A count that goes back is that of a body that begins again.
        guard !isLate, moved >= 0 else { return slowRate = nil }
        let rate = Double(moved) / seconds
        slowRate = rate < EngineLimits.slotBytesPerSecondMin ? rate : nil
    }

    mutating func lend(at now: Int64, early: Bool = false) { (lentSince, isLentEarly) = (now, early) }

    /// Makes an early loan an ordinary one.
    mutating func settleEarlyLoan() { isLentEarly = false }

    /// Takes the slot back. Returns `false` if it was not lent.
    mutating func takeBack(at now: Int64) -> Bool {
        guard let lentSince else { return false }
        lentSeconds += Double(now - lentSince) / 1e9
        (self.lentSince, isLentEarly) = (nil, false)
        since = now
        measured.at = now
        slowRate = nil
        return true
    }
}

extension TransferError {
    /// The operating system's error, for operators.
    var diagnostics: AttemptRecord.Diagnostics? {
        osError == 0 ? nil : .init(curlCode: 0, curlMessage: "", osError: osError)
    }
}

extension RunningAttempt {
    /// Called about once a second: reports a host that does not respond, and lends the slot while no byte
    /// moves.
    func lendSlot(_ now: Int64) {
        let idle = idleTime(now)
        let seconds = loop.context.configuration.stallSeconds
        if !slot.isStallReported, idle > Int64(seconds * 1e9), let unansweredScope {
            slot.isStallReported = loop.context.noteUnanswered(attempt, at: unansweredScope)
        }
        let least = Int64((isConnecting ? EngineLimits.connectStallSeconds : seconds) * 1e9)
        if slot.isLentEarly, idle > least {
            slot.settleEarlyLoan()
            loop.context.settleEarlyLoan(of: attempt)
        }
        guard slot.lentSince == nil, min(idle, now - slot.since) > least else { return }
        if loop.lendSlot(of: attempt) { slot.lend(at: now) }
    }

    /// Reports the response of a host that was reported as not responding: the attempt may take long to end.
    func noteHead(_ head: ResponseHead, from url: WebURL) {
        let context = loop.context
        guard slot.isStallReported, head.status < 400,
            let response = context.hostResponse(head, from: url, to: attempt)
        else { return }
        slot.isStallReported = false
        context.report(response)
    }

    /// Measures how fast bytes move.
    func measureSlot(_ now: Int64, isLate: Bool) {
        slot.measure(progress.bytesReceived + progress.bytesSent, at: now, isLate: isLate)
    }

    /// Bytes per second if the slot may be lent early; `nil` if it may not.
    var earlyLoanRate: Double? {
        slot.lentSince == nil && waitsForServer && !waitsForDisk ? slot.slowRate : nil
    }

    /// Lends the slot of a slow attempt if another tenant waits for one.
    func lendSlotEarly(_ now: Int64) {
        if loop.lendSlotEarly(of: attempt) { slot.lend(at: now, early: true) }
    }

    /// Takes back a lent slot when a server is reached or a byte moves, unless tenants wait for slots.
    func needSlot() {
        guard slot.lentSince != nil, !loop.context.areSlotsMissing else { return }
        takeBackSlot()
    }

    /// Takes back a lent slot. Call at the end of the attempt.
    func takeBackSlot() {
        let isEarly = slot.isLentEarly
        guard slot.lentSince != nil, slot.takeBack(at: loop.multi.now) else { return }
        loop.takeBackSlot(of: attempt, isEarly: isEarly)
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

    /// Runs a step of the preparation; what it throws ends the attempt.
    func prepare(_ step: () throws(TransferError) -> Void) {
        do throws(TransferError) { try step() } catch { handle(.preparationFailed(error)) }
    }

    /// Lets the sink look for the bytes of earlier attempts; then the attempt is prepared.
    func open(_ sink: any ByteSink) throws(TransferError) {
        switch try sink.open(attempt) {
        case .opened: handle(.prepared)
        case .checking: handle(.onlyChecks)
        case .searching: break
        }
    }

    func noteOpened(hasBytes: Bool) {
        // A client that gave resume data is told even if the data is of no use.
        awaitsResumption = hasBytes || attempt.number == 1 && attempt.secrets.resumePoint != nil
    }

    /// Notes what the outcome says about the place of the content.
    func settled(_ outcome: AttemptResult.Outcome) -> AttemptResult.Outcome {
        guard case .failed(let error, let retryAfter) = outcome,
            [.storageFull, .storageUnavailable].contains(error.code)
        else { return outcome }
        let total = progress.snapshot.bytesExpectedToReceive
        return .failed(judge(error, expecting: total), retryAfter: retryAfter)
    }

    /// Reports how many bytes of earlier attempts are kept, once a response has decided that.
    func noteResumption(at byteCount: Int64) {
        guard awaitsResumption else { return }
        awaitsResumption = false
        progress.resumedAt(byteCount)
        loop.context.noteResumption(attempt, at: byteCount)
    }
}
