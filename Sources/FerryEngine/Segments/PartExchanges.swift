import Curl
import FerryCore

/// The requests of a download that several connections or URLs may serve. Each part of the content is an
/// exchange of its own, and is written at its offset. Loop thread only.
final class PartExchanges: SeveralConnections {
    /// Reason for which a request was of no use.
    enum PartFailure {
        /// The connection failed, or the request timed out: another request may succeed.
        case broken(TransferError)
        /// No byte came for a while, and there is another connection or source.
        case stopped(TransferError)
        case refused(TransferError, retryAfter: Double?)
        /// A redirect asks to wait longer than an attempt does.
        case redirectedLater(Hop, TransferError, after: Double)
        /// The source refuses the URL or the credential; the client can be asked for another one.
        case urlExpired(JobQuestion)
        /// The server does not serve the requested range.
        case givesNoRanges
        /// The server refuses the range with an error status, although it has served others of the file.
        case refusesRange(TransferError)
        /// The server has sent the whole file because it does not understand `If-Range`.
        case ignoresIfRange
        /// The server refuses ranges, and sends the whole file without one.
        case beginsAnew
        /// The request leads to a host that may not be used now.
        case held
        /// The server has another file than the one that is being fetched.
        case changed
    }

    /// The file that is being fetched, as the first response describes it.
    struct Target {
        /// Bytes of the file; `nil` if it is one body of unknown length.
        let total: Int64?
        let validator: Validator?
        /// The source whose response came first; `nil` if an earlier attempt got it.
        let lead: Int?
        /// As in `PartialRecord`.
        let mimeType: String?
    }

    unowned let running: RunningAttempt
    var attempt: Attempt { running.attempt }
    var context: EngineContext { running.context }
    var loop: EngineLoop { running.loop }
    var progress: ProgressMeter { running.progress }
    /// Now on the loop's clock, in nanoseconds.
    var now: Int64 { loop.multi.now }

    /// The attempt's content at its place; `nil` until the attempt begins.
    private(set) var content: (any PartsSink)?
    var sink: (any ByteSink)? { content }
    /// The job's own speed limit, which all parts share.
    private var rate: TokenBucket?
    /// The job's places in its own limit and in all others.
    private var places = JobPlaces()

    var sources: SegmentSources
    var parts: [SegmentPlan.Part: SegmentPart] = [:]
    var lastPart: SegmentPlan.Part = 0
    var plan: SegmentPlan?
    var target: Target?
    private(set) var head: (head: ResponseHead, url: WebURL)?
    /// Sources whose bytes are in the file.
    var suppliers: Set<Int> = []
    /// Whether some bytes in the file come from an earlier attempt.
    var holdsEarlierBytes = false
    var restartCount = 0
    /// Whether ranges are refused, and the next request is one for the whole file.
    var rangesAreRefused = false
    /// Whether bytes of several responses are in the file.
    var isJoined = false
    /// Whether the file was fetched again because joined bytes were wrong.
    var hasFetchedAgain = false
    /// Broken parts in a row that brought few bytes.
    var smallStepCount = 0
    /// Number of connections without progress that were given up early.
    var stalledPartCount = 0
    /// When the file's record was last written, in nanoseconds of the loop's clock, and the bytes done by
    /// then.
    var recorded: (at: Int64, byteCount: Int64) = (0, 0)
    /// Source of the bytes of an earlier attempt (`PartialRecord.source`).
    var earlierSource: String?
    /// Whether bytes are being fetched: from `start` to the last byte, except while a useless file is
    /// removed.
    var isFetching = false
    /// Whether a useless file is being removed.
    var isClearing = false
    var isFilling = false
    var mustFillAgain = false
    var waitForDisk: [SegmentPart] = []
    /// Whether the job's own digests prove the file, wherever its parts come from.
    let hasDigest: Bool
    var connections: AttemptConnections
    /// Reason for which the last request was not sent, if a host may not be used.
    var hold: HostHold?

    init(of running: RunningAttempt) {
        self.running = running
        let (attempt, loop) = (running.attempt, running.loop)
        let now = loop.multi.now
        rate = attempt.spec.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: now) }
        hasDigest = attempt.spec.integrity.provesFile
        connections = AttemptConnections(own: attempt.scope)
        let place = attempt.delayedRedirect?.place ?? 0
        let landing = attempt.firstHop.map { (hop: $0, place: place) }
        sources = SegmentSources(
            // Mirrors were checked when the job was submitted; the others serve it without an invalid one.
            attempt.spec.request.webURL, landing: landing,
            mirrors: attempt.spec.mirrors.compactMap { try? WebURL.parse($0) }, loop.context.mirrors,
            now: now,
            // Several parts may fail at the same time.
            failureCountMax: EngineLimits.partFailureCountMax + attempt.spec.segmentCountMax - 1)
    }

    // MARK: State machine

    /// Looks for the bytes of earlier attempts.
    func begin() throws(TransferError) {
        let sink = try context.places[attempt.spec.contentLocation].partsSink(for: attempt, on: loop)
        sink.writeFailed = { [weak self] in self?.fail($0) }
        content = sink
        try running.open(sink)
    }

    func revise(_ event: AttemptMachine.Event) -> AttemptMachine.Event? {
        if case .storageFailed(let error) = event, mayFetchAgain(after: error) { return .fetchAgain }
        return event
    }

    func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start:
            isFetching = true
            fill()
        case .stopTransfer: stopParts()
        case .store: publish()
        case .discardBytes: isFetching = false
        case .keepBytes:
            isFetching = false
            content?.setRanges(ByteRanges(plan?.doneRanges ?? []))
        case .report: endConnections()
        case .leave: stopParts()
        case .follow, .change, .startLater, .endPreparation, .revokeStorage:
            // Parts follow redirects themselves and send no body. Looking for earlier bytes is fast.
            break
        }
    }

    func take(_ reply: ExchangeReply) {
        switch reply {
        case .placeCaughtUp: placeCaughtUp()
        case .contentRemoved: contentRemoved()
        // Parts send no body, and GET may be sent twice.
        case .bodyOpened, .bodyHashed, .partHashed, .bodyReadable, .sourceDemanded, .fetchedHashed, .marked:
            break
        }
    }

    /// All bytes have been received.
    func complete() {
        do throws(TransferError) { try content?.flush() } catch { return fail(error) }
        isFetching = false
        running.handle(.head(.accept))
        running.handle(.transferEnded(nil))
    }

    /// No source is left: ends the attempt with a question about the job's own URL, or with the best error of
    /// the sources.
    func giveUp() {
        isFetching = false
        if let question = sources.question {
            running.handle(.head(.ask(question)))
            return running.handle(.transferEnded(nil))
        }
        let none = TransferError(
            .internalError, "No source of the file is left.", phase: .connecting, isRetryable: true)
        let verdict = sources.verdict ?? (none, nil)
        running.handle(.head(.refuse(verdict.error, retryAfter: verdict.retryAfter)))
        running.handle(.transferEnded(nil))
    }

    /// Ends the attempt with an error that no other source can avoid.
    func fail(_ error: TransferError) { running.handle(.bodyRefused(error)) }

    private func stopParts() {
        isFetching = false
        let stopping = parts.values
        parts = [:]
        waitForDisk = []
        for part in stopping {
            part.stop()
            disconnect(part)
        }
    }

    private func publish() {
        guard let content, let digests = content.digests else { return }
        running.needSlot()
        // Parts may still wait for the end of their responses.
        stopParts()
        endConnections()
        let isDelimited = head?.head.isDelimited("GET") ?? false
        do throws(TransferError) {
            try running.publish(
                content, digests,
                digests.verification(attempt.spec.integrity, isDelimited: isDelimited))
        } catch {
            running.handle(.storageFailed(error))
        }
    }

    func result(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) -> AttemptResult {
        var delayedRedirect: DelayedRedirect?
        if case .failed = outcome {
            delayedRedirect = sources.delayedRedirect.map {
                DelayedRedirect($0.hop, at: $0.place, after: attempt)
            }
        }
        return AttemptResult(
            attempt: attempt, outcome: outcome, response: head.map { $0.head.response(from: $0.url) },
            bytesReceived: progress.bytesReceived, bytesSent: 0,
            trace: running.trace.trace(finishedAt: context.clock.now()), partialDownload: partial,
            endedAtOtherHost: endedAtOtherHost, lentSeconds: running.slot.lentSeconds,
            delayedRedirect: delayedRedirect)
    }

    /// Whether the outcome says nothing about the job's origin. With mirrors it is unknown which source
    /// failed; refusals are reported when they happen.
    private var endedAtOtherHost: Bool {
        attempt.hasOwnProxy || !attempt.spec.mirrors.isEmpty || running.trace.diagnostics.isOwnShortage
            || head.map { $0.url.origin != attempt.origin } ?? false
    }

    /// Forgets the file: none of its bytes count any more.
    func forgetFile() {
        stopParts()
        plan = nil
        target = nil
        suppliers = []
        holdsEarlierBytes = false
        isJoined = false
        earlierSource = nil
        sources.forget()
        progress.set(received: 0)
    }

    /// The useless content is removed, and another one can begin.
    func contentRemoved() {
        guard !running.isEnded else { return }
        isClearing = false
        isFetching = true
        fill()
    }

    // MARK: For parts

    func request(for part: SegmentPart) -> TransferRequest {
        var range: [TransferRequest.Header] = []
        if let asked = part.asked {
            let end = asked.upperBound == .max ? "" : "\(asked.upperBound - 1)"
            range.append(TransferRequest.Header("Range", "bytes=\(asked.lowerBound)-\(end)"))
            if let validator = validatorToSend(to: part.source) {
                range.append(.init("If-Range", validator.value))
            }
        }
        var request = context.builder.request(
            for: attempt, part.hop, body: nil, expects: false, codings: nil, resuming: range)
        request.receiveBufferSize = min(
            part.pacing?.portion ?? .max,
            max(
                EngineLimits.partReceiveBufferSizeMin,
                EngineLimits.bulkReceiveBufferSize / attempt.spec.segmentCountMax))
        return request
    }

    /// Returns the value of `If-Range`: the source's own validator, or that of the file. If a digest proves
    /// the file, mirrors may have validators of their own, which their first responses tell.
    func validatorToSend(to source: Int) -> Validator? {
        if sources[source].ignoresIfRange { return nil }
        return sources[source].validator ?? (hasDigest ? nil : target?.validator)
    }

    /// Makes this the response that clients see.
    func show(_ head: ResponseHead, from url: WebURL) {
        self.head = (head, url)
    }

    /// Begins the content. `announced`: digests in the first response.
    func beginContent(_ announced: [ExpectedDigest]) throws(TransferError) {
        guard let content, !content.isBegun else { return }
        if let head { try content.takeName(from: head.head, head.url) }
        let plan = contentPlan(announced)
        try plan.allowance?.need(target?.total ?? 0)
        try content.begin(plan)
    }

    /// The content as a sink has to know it. `announced`: digests in the first response.
    func contentPlan(_ announced: [ExpectedDigest]) -> PartsPlan {
        PartsPlan(
            total: target?.total, expectedByteCount: attempt.spec.expectedFileByteCount,
            digests: Digests(attempt.spec.integrity, announced: announced),
            content: FollowableContent(job: attempt.job, progress: progress, followers: context.followers),
            allowance: context.allowance(of: attempt))
    }

    /// Returns the limits that hold for a part from `url`; `nil` if none does.
    func pacing(at url: WebURL) -> Pacing? {
        context.rates.pacing(of: attempt, at: url, job: rate, places: places)
    }

    func adopt(_ edit: AttemptEdit) {
        let (before, isChanged) = (attempt.spec, edit.changesRequest(of: attempt))
        running.apply(edit)
        let new = edit.spec
        if new.bytesPerSecondMax != before.bytesPerSecondMax {
            rate = new.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: now) }
            limitsChanged()
        }
        guard isChanged else { return }
        sources.renew(new.request.webURL)
        guard isFetching else { return }
        // No response could prove that the earlier bytes belong to this request.
        if PartialRecord.identity(of: new.request) != PartialRecord.identity(of: before.request) {
            restart()
        } else {
            fill()
        }
    }

    func limitsChanged() {
        let before = places
        places = JobPlaces()
        let changes = parts.values.map { (part: $0, pacing: pacing(at: $0.hop.url)) }
        let isSame = changes.allSatisfy { change in
            guard let now = change.pacing, let before = change.part.pacing else {
                return change.pacing == nil && change.part.pacing == nil
            }
            return now.holds(like: before)
        }
        if isSame { places = before }
        for (part, pacing) in changes {
            if !isSame { part.exchange.pace(pacing) }
            part.exchange.resume()
        }
    }

    func note(_ source: Int, _ change: (inout MirrorQuality) -> Void) {
        context.mirrors.note(sources[source].url.origin, change)
    }

    var runningTransactions: [TransactionMetrics] {
        parts.values.sorted { $0.id < $1.id }.compactMap(\.exchange.runningTransaction)
    }

    // MARK: Time

    func secondPassed(_ now: Int64, _ seconds: Double) {
        recordProgress(now)
        if running.endIfOverdue(now, parts.values.first?.exchange.phase ?? .connecting) { return }
        for part in Array(parts.values) { part.secondPassed(seconds) }
        for part in parts.values { measure(part) }
        fill()
        endStalledPart()
    }
}
