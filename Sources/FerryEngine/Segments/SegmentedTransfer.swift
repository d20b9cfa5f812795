import Curl
import FerryCore

/// An attempt of a download that several connections or URLs may serve. Each part of the file is a request of
/// its own and is written at its offset into one partial file. Loop thread only.
final class SegmentedTransfer: RunningAttempt {
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

    private(set) var attempt: Attempt
    let key: AttemptKey
    let progress: ProgressMeter
    unowned let loop: EngineLoop
    var context: EngineContext { loop.context }
    /// Now on the loop's clock, in nanoseconds.
    var now: Int64 { loop.multi.now }

    private(set) var machine = AttemptMachine()
    private let resourceDeadline: Int64
    private var isBulk: Bool
    /// `nil` until the attempt begins.
    private(set) var sink: (any PartsSink)?
    private(set) var publication: Publication?
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
    var awaitsResumption = false
    /// Whether some bytes in the file come from an earlier attempt.
    var holdsEarlierBytes = false
    var restartCount = 0
    /// Whether ranges are refused, and the next request is one for the whole file.
    var rangesAreRefused = false
    /// Whether bytes of several responses are in the file.
    var isJoined = false
    /// Whether the file was fetched again because joined bytes were wrong.
    var hasFetchedAgain = false
    /// Bytes of earlier attempts.
    var foundByteCount: Int64 = 0
    /// Broken parts in a row that brought few bytes.
    var smallStepCount = 0
    /// Number of connections without progress that were given up early.
    var stalledPartCount = 0
    /// When the file's record was last written, in nanoseconds of the loop's clock, and the bytes done by
    /// then.
    var recorded: (at: Int64, byteCount: Int64) = (0, 0)
    /// Whether bytes are to be left to a later attempt.
    private var leavesBytes = false
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
    var slot: HeldSlot
    var putAside: PartialDownload?
    var diskSeconds = 0
    /// The outcome that is reported as soon as a file thread has saved the bytes.
    var awaitedReport: AttemptResult.Outcome?
    var trace: AttemptTraceBuilder
    /// The job's own request as the attempt began.
    let own: TransactionLog.OwnRequest

    init(_ assigned: AssignedAttempt, _ url: WebURL, on loop: EngineLoop) {
        attempt = assigned.attempt
        key = AttemptKey(assigned.attempt)
        progress = assigned.progress
        isBulk = assigned.isBulk
        self.loop = loop
        let now = loop.multi.now
        slot = HeldSlot(since: now)
        rate = attempt.spec.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: now) }
        hasDigest = attempt.spec.integrity.provesFile
        connections = AttemptConnections(own: attempt.scope)
        own = .init(attempt.spec.request)
        let startedAt = loop.context.clock.now()
        trace = AttemptTraceBuilder(startedAt: startedAt, own: own)
        let left = min(max(0, attempt.expiry - startedAt), 1e9)
        resourceDeadline = now + Int64(left * 1e9)
        let place = assigned.attempt.delayedRedirect?.place ?? 0
        let landing = assigned.attempt.firstHop.map { (hop: $0, place: place) }
        sources = SegmentSources(
            // Mirrors were checked when the job was submitted; the others serve it without an invalid one.
            url, landing: landing,
            mirrors: attempt.spec.mirrors.compactMap { try? WebURL.parse($0) }, loop.context.mirrors,
            now: now,
            // Several parts may fail at the same time.
            failureCountMax: EngineLimits.partFailureCountMax + attempt.spec.segmentCountMax - 1)
    }

    // MARK: State machine

    /// Looks for the bytes of earlier attempts.
    func begin() {
        prepare { () throws(TransferError) in
            let sink = try context.places[attempt.spec.contentLocation].partsSink(for: attempt, on: loop)
            sink.writeFailed = { [weak self] in self?.fail($0) }
            self.sink = sink
            try open(sink)
        }
    }

    func handle(_ event: AttemptMachine.Event) {
        var event = event
        if case .storageFailed(let error) = event, mayFetchAgain(after: error) { event = .fetchAgain }
        for action in machine.handle(event) { perform(action) }
    }

    private func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start:
            isFetching = true
            fill()
        case .stopTransfer: stopParts()
        case .store: publish()
        case .revokeStorage: publication?.revoke()
        case .discardBytes:
            isFetching = false
            putAside = nil
            sink?.abort()
        case .keepBytes:
            isFetching = false
            leavesBytes = sink?.keep() ?? false
        case .report(let outcome):
            guard leavesBytes else { return report(outcome, partial: putAside) }
            leavesBytes = false
            leaveBytes(then: outcome)
        case .leave: leave()
        case .follow, .change, .startLater, .endPreparation:
            // Parts follow redirects themselves and send no body. Looking for earlier bytes is fast.
            break
        }
    }

    /// All bytes have been received.
    func complete() {
        do throws(TransferError) { try sink?.flush() } catch { return fail(error) }
        isFetching = false
        handle(.head(.accept))
        handle(.transferEnded(nil))
    }

    /// No source is left: ends the attempt with a question about the job's own URL, or with the best error of
    /// the sources.
    func giveUp() {
        isFetching = false
        if let question = sources.question {
            handle(.head(.ask(question)))
            return handle(.transferEnded(nil))
        }
        let none = TransferError(
            .internalError, "No source of the file is left.", phase: .connecting, isRetryable: true)
        let verdict = sources.verdict ?? (none, nil)
        handle(.head(.refuse(verdict.error, retryAfter: verdict.retryAfter)))
        handle(.transferEnded(nil))
    }

    /// Ends the attempt with an error that no other source can avoid.
    func fail(_ error: TransferError) { handle(.bodyRefused(error)) }

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
        guard let sink, let digests = sink.digests else { return }
        needSlot()
        // Parts may still wait for the end of their responses.
        stopParts()
        endConnections()
        let verified = digests.verification(
            attempt.spec.integrity, isDelimited: head?.head.isDelimited("GET") ?? false)
        let ended = result(.released, partial: nil)
        do throws(TransferError) {
            publication = try sink.commit { [loop, offset = progress.resumedAtOffset] content in
                loop.publication(of: content, digests, verified, ended, resumedAt: offset)
            }
        } catch {
            handle(.storageFailed(error))
        }
    }

    func report(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) {
        leave()
        let outcome = settled(outcome).weighed(gained: partial.map { $0.byteCount - foundByteCount })
        if case .failed(let error, _) = outcome, let found = error.diagnostics { trace.note(found) }
        context.report(result(outcome, partial: partial))
    }

    private func leave() {
        takeBackSlot()
        sink?.release()
        stopParts()
        if isBulk { context.bulk.ended(on: loop.index) }
        loop.ended(key)
    }

    private func result(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) -> AttemptResult {
        var result = AttemptResult(
            attempt: attempt, outcome: outcome, response: head.map { $0.head.response(from: $0.url) },
            bytesReceived: progress.bytesReceived, bytesSent: 0,
            trace: trace.trace(finishedAt: context.clock.now()), partialDownload: partial,
            endedAtOtherHost: endedAtOtherHost)
        result.lentSeconds = slot.lentSeconds
        if case .failed = outcome {
            result.delayedRedirect = sources.delayedRedirect.map {
                DelayedRedirect($0.hop, at: $0.place, after: attempt)
            }
        }
        return result
    }

    /// Whether the outcome says nothing about the job's origin. With mirrors it is unknown which source
    /// failed; refusals are reported when they happen.
    private var endedAtOtherHost: Bool {
        attempt.hasOwnProxy || !attempt.spec.mirrors.isEmpty || trace.diagnostics.isOwnShortage
            || head.map { $0.url.origin != attempt.origin } ?? false
    }

    /// Forgets the file: none of its bytes count any more.
    func forgetFile() {
        stopParts()
        publication = nil
        plan = nil
        target = nil
        suppliers = []
        holdsEarlierBytes = false
        isJoined = false
        earlierSource = nil
        sources.forget()
        progress.set(received: 0)
    }

    /// The useless file is removed, and its name is free.
    func cleared() {
        guard !machine.isEnded else { return }
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

    func judge(_ error: TransferError, expecting total: Int64?) -> TransferError {
        sink?.judge(error, of: attempt, expecting: total) ?? error
    }

    /// Makes this the response that clients see.
    func show(_ head: ResponseHead, from url: WebURL) {
        self.head = (head, url)
    }

    /// Begins the content. `announced`: digests in the first response.
    func beginContent(_ announced: [ExpectedDigest]) throws(TransferError) {
        guard let sink, !sink.isBegun else { return }
        if let head { try sink.takeName(from: head.head, head.url) }
        let plan = contentPlan(announced)
        try plan.allowance?.need(target?.total ?? 0)
        try sink.begin(plan)
    }

    /// The content as a sink has to know it. `announced`: digests in the first response.
    func contentPlan(_ announced: [ExpectedDigest]) -> PartsPlan {
        PartsPlan(
            total: target?.total, expectedByteCount: attempt.spec.expectedFileByteCount,
            digests: Digests(attempt.spec.integrity, announced: announced),
            content: FollowableContent(job: attempt.job, progress: progress, followers: context.followers),
            allowance: context.allowance(of: attempt))
    }

    func becomeBulk() {
        guard !isBulk else { return }
        isBulk = true
        context.bulk.note(attempt.origin)
        context.bulk.began(on: loop.index)
    }

    /// Returns the limits that hold for a part from `url`; `nil` if none does.
    func pacing(at url: WebURL) -> Pacing? {
        context.rates.pacing(of: attempt, at: url, job: rate, places: places)
    }

    func adopt(_ edit: AttemptEdit) {
        let (before, isChanged) = (attempt.spec, edit.changesRequest(of: attempt))
        attempt = attempt.edited(by: edit)
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
        for change in changes { change.part.limitsChanged(isSame ? change.part.pacing : change.pacing) }
    }

    func note(_ source: Int, _ change: (inout MirrorQuality) -> Void) {
        context.mirrors.note(sources[source].url.origin, change)
    }

    var snapshot: AttemptSnapshot {
        let running = parts.values.sorted { $0.id < $1.id }.compactMap(\.runningTransaction)
        return trace.snapshot(attempt.number, running: running)
    }

    // MARK: Time

    func secondPassed(_ now: Int64, _ seconds: Double) {
        progress.measure(seconds: seconds)
        recordProgress(now)
        guard now < resourceDeadline else {
            let phase = parts.values.first?.phase ?? .connecting
            return handle(.timedOut(attempt.overdue(phase)))
        }
        let timeout = attempt.spec.request.timeoutForRequest
        for part in Array(parts.values) { part.secondPassed(now, seconds, timeout: timeout) }
        for part in parts.values { measure(part) }
        fill()
        endStalledPart()
    }
}
