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
    /// Destination of a download, as soon as it is known.
    var destination: Destination? { get }
    var slot: HeldSlot { get set }
    /// Space for the bytes that the job expects, until a response says how many they are.
    var expectedSpace: StorageClaim? { get set }
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
    /// Takes the bytes of earlier attempts that were found, if any. `failure`: why the destination cannot
    /// take the file; `nil` if it can.
    func prepared(_ resumption: Resumption?, _ failure: TransferError?)
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
    /// The error of a failed write that concerns only this file.
    fileprivate var ofThisFile: TransferError {
        TransferError(
            .storageFailed, "The file could not be written.", phase: phase, isRetryable: true,
            osError: osError)
    }

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

    /// Looks for the bytes of earlier attempts if there may be any, and checks the destination that the job
    /// names, on a file thread; then the attempt is prepared. Throws as `needSpace` does, and what keeps the
    /// file from getting its name in a directory that was checked a moment ago.
    func prepareDownload(to destination: Destination) throws(TransferError) {
        let mayHaveBytes = attempt.number > 1 || attempt.secrets.resumePoint != nil
        guard mayHaveBytes || !destination.isManaged else {
            try needSpace(nil)
            return handle(.prepared)
        }
        let (context, key, onLoop) = (loop.context, key, loop.runner)
        guard mayHaveBytes else {
            if let directory = checkedDirectory(of: destination) {
                try destination.checkName(in: directory)
                try needSpace(nil)
                return handle(.prepared)
            }
            handle(.onlyChecks)
            return context.fileThreads.send(
                .run {
                    let failure = destination.failure(noting: context.checkedDirectories)
                    onLoop { $0.prepared(key, nil, failure) }
                })
        }
        let withGaps = attempt.spec.isFetchedInParts
        let identity =
            PartialRecord.isPossible(attempt.spec) ? PartialRecord.identity(of: attempt.spec.request) : nil
        let kept = context.keptPartialFiles.take([attempt.job]).first
        let point = attempt.secrets.resumePoint
        context.fileThreads.send(
            .run {
                if let kept { destination.adopt(kept, identity: identity, withGaps: withGaps) }
                // If the root of the other job does not open, its bytes cannot be used.
                if let point, let identity, let place = try? context.destination(of: point) {
                    destination.adopt(from: place, identity: identity, withGaps: withGaps)
                }
                let found = destination.takeOver(identity: identity, withGaps: withGaps)
                let failure = destination.failure(noting: context.checkedDirectories)
                onLoop { $0.prepared(key, found, failure) }
            })
    }

    /// Returns the directory of a destination that was checked a moment ago, so that a look at one name in it
    /// does not wait for a disk; `nil` if it is not known, or while a disk may not answer.
    private func checkedDirectory(of destination: Destination) -> StorageDirectory? {
        let context = loop.context
        guard !context.space.hasShortages, !context.space.isStalled,
            !context.fileThreads.isSlow(monotonicNanoseconds())
        else { return nil }
        return context.checkedDirectories.directory(of: destination)
    }

    func lookedForBytes(_ found: Resumption?, _ failure: TransferError?) {
        // A client that gave resume data is told even if the data is of no use.
        awaitsResumption = found != nil || attempt.number == 1 && attempt.secrets.resumePoint != nil
        prepared(found, failure)
    }

    /// Promises the space that the job expects to need. Throws `storage_full` if it is not free, and
    /// `storage_unavailable` while writing there fails. Costs nothing for a job without expectations while no
    /// file system has failed.
    func needSpace(_ found: Resumption?) throws(TransferError) {
        let space = loop.context.space
        let expected = attempt.spec.expectedFileByteCount
        guard space.hasShortages || expected != nil, let place else { return }
        if space.hasShortages {
            let total = found?.record.total ?? space.needs[attempt.job] ?? expected ?? 0
            try space.needSpace(at: place, expecting: total, after: found?.byteCount ?? 0)
            space.needs.forget(attempt.job)
        }
        // The length of a file that is continued is known.
        guard let expected, found?.record.total == nil else { return }
        expectedSpace = try space.claim(at: place, expecting: expected, estimatedBy: attempt.tenant)
    }

    /// Notes what the outcome says about the disk. A failed write concerns the disk if no file can be written
    /// there, otherwise only this file.
    func settled(_ outcome: AttemptResult.Outcome) -> AttemptResult.Outcome {
        guard case .failed(let error, let retryAfter) = outcome else { return outcome }
        switch error.code {
        case .storageFull:
            noteNeed(error)
        case .storageUnavailable:
            // A disk that hangs would block the loop as well.
            if !loop.context.space.isStalled, let place, !loop.context.space.isUnavailable(at: place) {
                return .failed(error.ofThisFile, retryAfter: retryAfter)
            }
        default: break
        }
        return outcome
    }

    /// Notes where there was no space, and how much the file needs.
    private func noteNeed(_ error: TransferError) {
        let space = loop.context.space
        if error.isRetryable, let place = destination?.openDirectory { space.noteFull(at: place) }
        if let total = progress.snapshot.bytesExpectedToReceive { space.needs.note(attempt.job, total) }
    }

    /// The directory that the file goes to, or its root if that is not made yet; `nil` if neither opens.
    private var place: StorageDirectory? {
        // The attempt reports why its root does not open when it opens its destination.
        guard let known = destination ?? (try? loop.context.destination(of: attempt)) else { return nil }
        return known.openDirectory ?? known.root
    }

    /// Reports how many bytes of earlier attempts are kept, once a response has decided that.
    func noteResumption(at byteCount: Int64) {
        guard awaitsResumption else { return }
        awaitsResumption = false
        progress.resumedAt(byteCount)
        loop.context.noteResumption(attempt, at: byteCount)
    }
}
