import Curl
import FerryCore
import Glibc

/// An attempt in the hands of its loop: one stream (`LiveTransfer`), or parts and mirrors
/// (`SegmentedTransfer`). Loop thread only.
protocol RunningAttempt: AnyObject {
    var attempt: Attempt { get }
    var key: AttemptKey { get }
    var progress: ProgressMeter { get }
    var loop: EngineLoop { get }
    /// Bytes of an earlier attempt, or resume data, wait for the answer that decides about them.
    var awaitsResumption: Bool { get set }
    /// Of a download, once it is known.
    var destination: Destination? { get }
    var slot: HeldSlot { get set }
    /// Bytes that a publication has left which was revoked.
    var putAside: PartialDownload? { get set }
    /// Whether it has not reached anybody to send its request to.
    var isConnecting: Bool { get }
    /// Nanoseconds since a byte moved; 0 while others are not what it waits for.
    func silence(_ now: Int64) -> Int64
    /// The server that has had a request, and owes all of its answer; nil: none does, or a proxy of the job's
    /// own may.
    var unansweredScope: RequestScope? { get }
    /// Whether it goes on only when a file thread has done something.
    var waitsForDisk: Bool { get }
    /// For how many seconds in a row it has.
    var diskSeconds: Int { get set }
    /// Ends the attempt without that, unless its file is just getting its name.
    func outwait(_ error: TransferError)
    func begin()
    func handle(_ event: AttemptMachine.Event)
    /// What earlier attempts have left was looked for.
    func prepared(_ resumption: Resumption?)
    /// `kept`: the bytes that are left to a later attempt.
    func report(_ outcome: AttemptResult.Outcome, kept: PartialDownload?)
    /// File threads are no longer far behind.
    func digestCaughtUp()
    /// The job has another limit of its own, in bytes a second; nil: none.
    func changeRate(_ bytesPerSecond: Int64?)
    /// Limits that others share have changed.
    func limitsChanged()
    /// The answer about a connection that was asked for later. False: nobody wants it any more.
    func connectionAnswered(_ answer: ConnectionGrant, at scope: RequestScope) -> Bool
    /// The attempt as far as it is.
    var snapshot: AttemptSnapshot { get }
    /// About once a second; `now` in monotonic nanoseconds, `seconds` since the last time.
    func secondPassed(_ now: Int64, _ seconds: Double)
}

/// Whose the slot of an attempt is. It is lent while nothing moves: names that do not resolve, addresses and
/// handshakes that do not answer take half a minute, hosts that say nothing take longer, and others could
/// transfer meanwhile (docs/decisions/0028). Instants of the loop's clock, in nanoseconds.
struct HeldSlot {
    /// It was had or taken back.
    private(set) var since: Int64
    private(set) var lentSince: Int64?
    private(set) var lentSeconds = 0.0
    /// The silence of its host was told.
    var isSilenceTold = false

    init(since: Int64) { self.since = since }

    mutating func lend(at now: Int64) { lentSince = now }

    /// Whether it was lent.
    mutating func takeBack(at now: Int64) -> Bool {
        guard let lentSince else { return false }
        lentSeconds += Double(now - lentSince) / 1e9
        self.lentSince = nil
        since = now
        return true
    }
}

extension TransferError {
    /// A failure to write that another file would not have met.
    fileprivate var ofThisFile: TransferError {
        TransferError(
            .storageFailed, "The file could not be written.", phase: phase, isRetryable: true,
            osError: osError)
    }

    /// What the operating system said, for operators.
    var diagnostics: AttemptRecord.Diagnostics? {
        osError == 0 ? nil : .init(curlCode: 0, curlMessage: "", osError: osError)
    }
}

extension RunningAttempt {
    /// To be asked about once a second.
    func lendSlot(_ now: Int64) {
        let silence = silence(now)
        let patience = loop.context.configuration.silencePatience
        if !slot.isSilenceTold, silence > Int64(patience * 1e9), let unansweredScope {
            slot.isSilenceTold = loop.context.unanswered(attempt, at: unansweredScope)
        }
        guard slot.lentSince == nil else { return }
        let least = isConnecting ? EngineLimits.connectPatience : patience
        guard min(silence, now - slot.since) > Int64(least * 1e9) else { return }
        if loop.lendSlot(of: attempt) { slot.lend(at: now) }
    }

    /// The host of which was told that it is silent answers, and the attempt may go on for long.
    func noteHead(_ head: ResponseHead, from url: WebURL) {
        let context = loop.context
        guard slot.isSilenceTold, head.status < 400,
            let answer = context.hostAnswer(head, from: url, to: attempt)
        else { return }
        slot.isSilenceTold = false
        context.tell(answer)
    }

    /// Somebody is reached, something moves, or it is over.
    func needSlot() {
        guard slot.lentSince != nil, slot.takeBack(at: loop.multi.now) else { return }
        loop.takeBackSlot(of: attempt)
    }

    /// Once a second. Disks that hang give no error: what waits for one is left to others after a while.
    func watchDisk(isLost: Bool) {
        diskSeconds = waitsForDisk ? diskSeconds + 1 : 0
        guard isLost, diskSeconds >= EngineLimits.diskSecondsMin else { return }
        outwait(
            TransferError(
                .storageUnavailable, "The disk does not answer.", phase: .finishing, isRetryable: true,
                osError: ETIMEDOUT))
    }

    /// Looks for what earlier attempts have left, on a file thread; then the attempt is prepared.
    func takeOver(_ destination: Destination) {
        let (context, key, tell) = (loop.context, key, loop.teller)
        let withGaps = attempt.spec.isFetchedInParts
        let identity =
            PartialRecord.isPossible(attempt.spec) ? PartialRecord.identity(of: attempt.spec.request) : nil
        let leftover = context.leftovers.take([attempt.job]).first
        let point = attempt.secrets.resumePoint
        context.lane.send(
            .run {
                if let leftover { destination.adopt(leftover, identity: identity, withGaps: withGaps) }
                if let point, let identity, let place = try? context.destination(of: point) {
                    destination.adopt(from: place, identity: identity, withGaps: withGaps)
                }
                let found = destination.takeOver(identity: identity, withGaps: withGaps)
                tell { $0.prepared(key, found) }
            })
    }

    func lookedForBytes(_ found: Resumption?) {
        // Whoever gave resume data is told also when it is of no use.
        awaitsResumption = found != nil || attempt.number == 1
        prepared(found)
    }

    /// Throws `storage_full` when a file system ran full before and still has no room for the file, and
    /// `storage_unavailable` while nobody can write there. Costs nothing while none has.
    func awaitRoom(_ found: Resumption?) throws(TransferError) {
        let space = loop.context.space
        guard space.hasShortages, let place else { return }
        let total =
            found?.record.total ?? space.needs[attempt.job] ?? attempt.spec.integrity.size
            ?? attempt.spec.schedule.expectedBytesToReceive
        try space.awaitRoom(at: place, expecting: max(0, (total ?? 0) - (found?.byteCount ?? 0)))
        space.needs.forget(attempt.job)
    }

    /// What the end of the attempt says about its disk is remembered. A failure to write is the disk's if
    /// nobody can write there, and this file's if others can.
    func settled(_ outcome: AttemptResult.Outcome) -> AttemptResult.Outcome {
        guard case .failed(let error, let retryAfter) = outcome else { return outcome }
        switch error.code {
        case .storageFull:
            noteNeed(error)
        case .storageUnavailable:
            // A disk that hangs would hold up the loop as well.
            if !loop.context.space.isSilent, let place, !loop.context.space.isUnavailable(at: place) {
                return .failed(error.ofThisFile, retryAfter: retryAfter)
            }
        default: break
        }
        return outcome
    }

    /// Remembers where there was no room, and how much a file needs that found none.
    private func noteNeed(_ error: TransferError) {
        let space = loop.context.space
        if error.isRetryable, let destination,
            let place = try? destination.root.directory(destination.directory, making: false)
        {
            space.noteFull(at: place)
        }
        if let total = progress.snapshot.bytesExpectedToReceive { space.needs.note(attempt.job, total) }
    }

    /// The directory that the file goes to, or its root before that is made; nil: not even that opens.
    private var place: StorageDirectory? {
        guard let known = destination ?? (try? loop.context.destination(of: attempt)) else { return nil }
        return (try? known.root.directory(known.directory, making: false)) ?? known.root
    }

    /// An answer has decided how many bytes need not be fetched again.
    func noteResumption(at byteCount: Int64) {
        guard awaitsResumption else { return }
        awaitsResumption = false
        progress.resumedAt(byteCount)
        loop.context.noteResumption(attempt, at: byteCount)
    }
}
