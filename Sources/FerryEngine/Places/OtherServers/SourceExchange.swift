import Curl
import FerryCore

/// Exchanges that send on the bytes of a copy. Loop thread only.
protocol SourceOwner: AnyObject {
    /// The source has responded with the file. Called once.
    func sourceOpened(_ contents: BodyContents)
    /// More bytes have come, the last one has, or fetching has failed after `sourceOpened`.
    func sourceAdvanced()
    /// The source cannot be fetched. Called instead of `sourceOpened`.
    func sourceFailed(_ error: TransferError, retryAfter: Double?)
    /// Lets the job wait for the source's host. Returns `false` if it goes on: its request may have reached
    /// the target, and must not be sent again.
    func putOff(bySource hold: HostHold) -> Bool
}

/// The requests that fetch the bytes of a copy from its source, with redirects, and repetitions after a
/// connection has ended. They go into a pipe, from which the attempt's own request takes them
/// (`SerialExchanges`), or into a file in memory, from which a store gets them. Loop thread only.
final class SourceExchange {
    /// Treatment of the current response.
    private enum Target {
        case none
        /// Its bytes go into the pipe, after so many that are there already.
        case pipe(skipping: Int64)
        /// Another request follows. `after`: seconds before it.
        case discard(after: Double)
        /// The source has failed; the body tells people why.
        case refused(TransferError, retryAfter: Double?)
    }

    /// The attempt whose requests these are: a download from the source.
    private(set) var attempt: Attempt
    private unowned let running: RunningAttempt
    /// The exchanges that send the bytes on.
    unowned var owner: any SourceOwner
    private(set) lazy var exchange = HTTPExchange(firstHop, of: running, for: self, as: attempt)
    private var permit: ConnectionPermit
    private var continuation: BodyContinuation
    /// Counts the body of a response that is not wanted.
    private let unwanted = ResponseBody(.identity)
    private var target = Target.none
    /// `nil` until the source has responded with the file.
    private var pipe: (any FetchedBytes)?
    /// Strong `ETag` of the file; `nil` if the server gives none.
    private var entityTag: FieldOctets?
    /// Bytes from byte 0 on that went into the pipe.
    private var receivedByteCount: Int64 = 0
    /// Whether the file is fetched once more from byte 0 on.
    private var isRepeated = false
    /// Whether the job's own URL was requested again because the target of a redirect had expired.
    private var hasBegunAgain = false
    /// Whether a dead connection was replaced, and no response has come since.
    private var hasReplacedConnection = false
    /// The request that the current response leads to.
    private var redirect: Hop?
    private var state = State.idle
    private enum State { case idle, running, waiting, whole, ended }

    /// Reason for which the source cannot be copied; `nil` unless it has failed.
    private(set) var failure: TransferError?
    /// The response with which it has failed, and the request; `nil` if there is none.
    private(set) var refused: (head: ResponseHead, hop: Hop, response: TransferResponse)?

    /// `hasConnection`: whether the attempt's lease permits a connection to the source.
    init(_ attempt: Attempt, of owner: SerialExchanges, hasConnection: Bool) {
        self.attempt = attempt
        self.owner = owner
        running = owner.running
        permit = ConnectionPermit(hasOwn: hasConnection)
        continuation = BodyContinuation(attempt.spec)
    }

    private var context: EngineContext { running.context }
    private var loop: EngineLoop { running.loop }

    private var firstHop: Hop {
        let request = attempt.spec.request
        return Hop(url: request.webURL, method: request.method, sendsBody: false)
    }

    // MARK: Sending the request

    /// Sends the first request, unless that has happened.
    func begin() {
        guard case .idle = state else { return }
        pace(job: attempt.spec.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: loop.multi.now) })
        send(fresh: false)
    }

    /// Fetches the file once more from byte 0 on: what the pipe has lost is needed again.
    private func restart() {
        guard let pipe, state != .ended else { return }
        exchange.stop()
        continuation.forget()
        (receivedByteCount, isRepeated, hasBegunAgain) = (0, true, false)
        exchange.hop = firstHop
        pace(job: exchange.pacing?.job)
        pipe.restarted()
        send(fresh: false)
    }

    /// Fetches the file once more from byte 0 on, into a file: its length has to be known before it is sent.
    func fetchAgain(into file: FetchedFile) {
        guard pipe != nil, state != .ended else { return }
        pipe = file
        restart()
    }

    private func send(fresh: Bool) {
        state = .running
        target = .none
        unwanted.reset()
        exchange.reset()
        switch permit.ask(for: attempt, exchange.hop, isFresh: fresh, on: loop) {
        case .connect: connect(fresh: fresh)
        case .wait: break
        case .refused(let hold): refused(hold, fresh: fresh)
        }
    }

    private func connect(fresh: Bool) {
        var request = context.builder.request(
            for: attempt, exchange.hop, body: nil, expects: false, codings: nil,
            resuming: resumptionFields)
        request.receiveBufferSize =
            running.isBulk ? EngineLimits.pipedReceiveBufferSize : EngineLimits.largeReceiveBufferSize
        if let pacing = exchange.pacing {
            request.receiveBufferSize = min(pacing.portion, request.receiveBufferSize)
        }
        if fresh { request.usesFreshConnection = true }
        guard let error = exchange.send(request) else { return }
        fail(exchange.meaning(ofUnsent: error).error)
    }

    /// The fields that ask for the rest of the file, or for the same file again.
    private var resumptionFields: [TransferRequest.Header] {
        let fields = continuation.fields(from: offset)
        guard fields.isEmpty, isRepeated, let entityTag else { return fields }
        return [.init("If-Match", entityTag)]
    }

    /// The first byte to request; `nil` for the whole file.
    private var offset: Int64? {
        receivedByteCount > 0 ? continuation.offset(after: receivedByteCount) : nil
    }

    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool {
        guard state == .running, let (decision, isFresh) = permit.answered(grant, at: scope, for: attempt)
        else { return false }
        switch decision {
        case .connect: connect(fresh: isFresh)
        case .wait: break
        case .refused(let hold): refused(hold, fresh: isFresh)
        }
        return true
    }

    /// The job waits for the source's host, unless its upload must not be sent again.
    private func refused(_ hold: HostHold, fresh: Bool) {
        if owner.putOff(bySource: hold) { return }
        later(after: Double(EngineLimits.refusalPause) / 1e9, fresh: fresh)
    }

    private func later(after delay: Double, fresh: Bool = false) {
        state = .waiting
        loop.multi.after(nanoseconds: Int64(delay * 1e9)) { [weak self] in
            guard let self, state == .waiting, !running.isEnded else { return }
            send(fresh: fresh)
        }
    }

    // MARK: The pipe

    /// Identity of the file, as `ByteSource.identity`.
    var identity: String? { entityTag.map { "\(attempt.spec.request.url) \($0.text)" } }

    private func makePipe(_ head: ResponseHead, _ body: ResponseTable.Body) {
        let pipe: any FetchedBytes
        do throws(TransferError) {
            pipe = try makePipe(byteCount: body.total)
        } catch {
            return fail(error)
        }
        self.pipe = pipe
        var contents = BodyContents([.source(pipe)], subject: 0)
        contents.contentType = head.first("content-type")
        if !head.contentCodings.isEmpty {
            contents.contentEncoding = head.contentCodings.joined(separator: ", ")
        }
        contents.announced = head.announcedDigests(of: .whole)
        owner.sourceOpened(contents)
    }

    /// A request to a store names the digest of its body, so that all bytes of the request come first.
    private func makePipe(byteCount: Int64?) throws(TransferError) -> any FetchedBytes {
        let (key, onLoop) = (running.key, loop.runner)
        let demand: @Sendable (FetchDemand) -> Void = { demand in
            onLoop { $0.take(.sourceDemanded(demand), for: key) }
        }
        guard running.attempt.namesDigestOfBody(context.nodeCredentials) else {
            return BytePipe(byteCount: byteCount, identity: identity, demand: demand)
        }
        return try FetchedFile(
            byteCount: byteCount, identity: identity,
            partByteCount: PartDivision.partByteCount(ofCopy: byteCount), budget: context.copies,
            demand: demand)
    }

    func take(_ demand: FetchDemand) {
        switch demand {
        case .drained: exchange.resume()
        case .restart: restart()
        }
    }

    // MARK: The end

    /// Ends the requests, and gives back the connection. Nothing more is reported.
    func stop() {
        state = .ended
        exchange.stop()
        permit.end(for: attempt, on: loop)
    }

    private func fail(_ error: TransferError, retryAfter: Double? = nil) {
        guard state != .ended else { return }
        stop()
        let error = error.atSource
        failure = error
        guard let pipe else { return owner.sourceFailed(error, retryAfter: retryAfter) }
        pipe.fail(error)
        owner.sourceAdvanced()
    }

    private func becomeWhole() {
        state = .whole
        permit.end(for: attempt, on: loop)
        pipe?.finish()
        owner.sourceAdvanced()
    }

    /// Continues the file with another request if it has stopped too early. Returns `false` if it does not.
    private func goesOn(after error: TransferError) -> Bool {
        guard case .pipe = target, error.mayContinue,
            continuation.goesOn(at: receivedByteCount, jitter: .random(in: 0...1))
        else { return false }
        exchange.stop()
        later(after: continuation.delay)
        return true
    }

    // MARK: State for the attempt

    func pace(job: TokenBucket?) {
        exchange.pace(context.rates.pacing(of: attempt, at: exchange.hop.url, job: job))
    }

    /// Uses the edited fields of the job for the next request.
    func adopt(_ edited: Attempt) {
        let isOtherRate = edited.spec.bytesPerSecondMax != attempt.spec.bytesPerSecondMax
        attempt = edited
        exchange.use(edited)
        guard isOtherRate else { return }
        pace(job: edited.spec.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: loop.multi.now) })
        exchange.resume()
    }

    func limitsChanged() {
        pace(job: exchange.pacing?.job)
        exchange.resume()
    }

    /// Whether the source has not responded with the file yet.
    var isOpening: Bool { pipe == nil }

    func secondPassed(_ seconds: Double) {
        var isUnwanted = false
        switch target {
        case .discard, .refused: isUnwanted = true
        case .none, .pipe: break
        }
        switch exchange.secondPassed(seconds, isUnwanted: isUnwanted) {
        case .enoughUnwanted: enoughDiscarded()
        case .slow(let error):
            if isUnwanted {
                enoughDiscarded()
            } else if !goesOn(after: error) {
                fail(error)
            }
        case nil: break
        }
    }
}

// MARK: The response

extension SourceExchange: ExchangeOwner {
    /// The request has no body.
    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision { .bytes(0) }
    func rewindBody() -> Bool { true }
    var hasSentBody: Bool { true }

    func refuse(_ error: TransferError) { fail(error) }

    func take(_ head: ResponseHead) -> Bool {
        hasReplacedConnection = false
        guard head.hasClearLength, head.status != 101 else {
            fail(
                TransferError(
                    .responseInvalid, "The server's answer is ambiguous.", phase: .waiting, isRetryable: false
                ))
            return false
        }
        let range = offset.map { $0..<Int64.max }
        let requested = ResponseTable.Requested(
            hop: exchange.hop, range: range, hasIfRange: range != nil && continuation.hasIfRange,
            hasBegunAgain: hasBegunAgain)
        let judge = ResponseJudge(
            spec: attempt.spec, egress: context.egress, isDecoded: false,
            hasNTLM: context.builder.supportsNTLM)
        let known = range == nil ? nil : continuation.record?.known
        unwanted.pass(to: .discard)
        switch judge.judge(head, requested, known: known, now: context.clock.now()) {
        case .take(let body): return accept(head, body)
        case .follow(let next, let delay): lead(to: next, after: delay)
        case .beginAgain:
            hasBegunAgain = true
            lead(to: firstHop, after: 0)
        case .again(let change):
            switch change {
            case .withoutIfRange: continuation.leaveOutIfRange()
            case .withoutRange: continuation.leaveOutRange()
            case .withoutExpect, .withoutCodings: break
            }
            lead(to: exchange.hop, after: 0)
        case .refuse(let error, let retryAfter), .wait(let error, let retryAfter):
            refuse(head, isRepeated && head.status == 412 ? .sourceHasChanged : error, retryAfter)
        case .followLater(_, let error, let delay): refuse(head, error, delay)
        case .ask:
            // The request to a source asks no questions.
            refuse(
                head,
                TransferError(
                    .authenticationRequired, "The server demands credentials (status \(head.status)).",
                    phase: .waiting, isRetryable: false), nil)
        }
        return true
    }

    private func lead(to next: Hop, after delay: Double) {
        redirect = next
        target = .discard(after: delay)
    }

    private func refuse(_ head: ResponseHead, _ error: TransferError, _ retryAfter: Double?) {
        refused = (head, exchange.hop, head.response(from: exchange.hop.url))
        target = .refused(error, retryAfter: retryAfter)
    }

    private func accept(_ head: ResponseHead, _ body: ResponseTable.Body) -> Bool {
        hasBegunAgain = false
        let tag = Validator(head)?.entityTag
        var skip: Int64 = 0
        if receivedByteCount > 0 {
            if body.continues {
                skip = body.skip + receivedByteCount - (offset ?? receivedByteCount)
            } else {
                // The whole file comes, of which the first bytes were sent on.
                guard let entityTag, tag == entityTag else { return changed() }
                skip = receivedByteCount
            }
        } else {
            if isRepeated, entityTag != nil ? tag != entityTag : body.total != pipe?.byteCount {
                return changed()
            }
            entityTag = tag
            continuation.begin(
                FirstResponse(head: head, total: body.total, attempt: attempt, hop: exchange.hop))
        }
        target = .pipe(skipping: skip)
        running.progress.expect(toReceive: pipe?.byteCount ?? body.total)
        if pipe == nil { makePipe(head, body) }
        return state == .running
    }

    private func changed() -> Bool {
        fail(.sourceHasChanged)
        return false
    }

    func answersItself(_ head: ResponseHead) -> Bool {
        guard case .discard = target, redirect?.digest != nil else { return false }
        exchange.stop()
        follow()
        return true
    }

    func endsWithConnection(_ head: ResponseHead) -> Bool {
        guard case .pipe = target else { return false }
        return !head.isDelimited(exchange.hop.method) && pipe?.byteCount == nil
    }

    var waitsForPlace: Bool { pipe?.isFull ?? false }

    func receive(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard case .pipe(let skip) = target, let pipe else { return discard(bytes) }
        guard !pipe.awaitsRestart else { return .pause }
        let new = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(Int(min(skip, Int64(bytes.count)))))
        let end = receivedByteCount + Int64(new.count)
        guard end <= pipe.byteCount ?? .max else {
            fail(.longerThanAnnounced)
            return .abort
        }
        guard end <= attempt.spec.accept.byteCountMax ?? .max else {
            fail(.longerThanAccepted(.receiving))
            return .abort
        }
        guard pipe.hasRoom(for: new.count), exchange.mayMove(bytes.count, .receiving) else { return .pause }
        pipe.write(new)
        target = .pipe(skipping: skip - Int64(bytes.count - new.count))
        receivedByteCount = end
        running.progress.fetched(end)
        exchange.received(bytes.count, decoded: bytes.count)
        context.metrics.received(bytes.count)
        owner.sourceAdvanced()
        return state == .ended ? .abort : .proceed
    }

    private func discard(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        let isEnough = unwanted.discard(bytes, of: exchange.head, isRedirect: redirect != nil)
        exchange.receivedUnwanted(bytes.count)
        context.metrics.received(bytes.count)
        guard isEnough else { return .proceed }
        enoughDiscarded()
        return .abort
    }

    private func enoughDiscarded() {
        exchange.stop()
        conclude()
    }

    func ended(_ failure: ExchangeFailure?) {
        guard state == .running else { return }
        running.needSlot()
        guard let failure else {
            if case .pipe = target, let count = pipe?.byteCount, receivedByteCount < count {
                if !goesOn(after: .shortBody) { fail(.shortBody) }
                return
            }
            return conclude()
        }
        exchange.note(failure.error)
        let meaning = exchange.meaning(of: failure)
        switch target {
        case .discard, .refused: return conclude()
        case .pipe: if goesOn(after: meaning.error) { return }
        case .none:
            if meaning.mayRepeatAtOnce, !hasReplacedConnection {
                hasReplacedConnection = true
                return send(fresh: true)
            }
        }
        fail(meaning.error)
    }

    /// The response is over, or as much of it as is worth reading.
    private func conclude() {
        switch target {
        case .pipe: becomeWhole()
        case .discard: follow()
        case .refused(let error, let retryAfter):
            refused?.response.bodyExcerpt = unwanted.excerptText
            fail(error, retryAfter: retryAfter)
        case .none:
            fail(
                TransferError(
                    .responseInvalid, "The server's answer had no head.", phase: .waiting, isRetryable: true))
        }
    }

    private func follow() {
        guard case .discard(let delay) = target, let next = redirect else { return }
        redirect = nil
        if next.redirectCount > exchange.hop.redirectCount { running.trace.followedRedirect() }
        exchange.hop = next
        pace(job: exchange.pacing?.job)
        if delay > 0 { later(after: delay) } else { send(fresh: false) }
    }
}

extension TransferError {
    /// The error of a request to the source of a copy, which says so.
    fileprivate var atSource: TransferError {
        var error = TransferError(
            code, "At the source: \(message)", phase: phase, isRetryable: isRetryable, osError: osError)
        (error.cost, error.unresolvedHost) = (cost, unresolvedHost)
        return error
    }

    fileprivate static let sourceHasChanged = TransferError(
        .sourceChanged, "The file has changed while it was copied.", phase: .sending, isRetryable: true)
}
