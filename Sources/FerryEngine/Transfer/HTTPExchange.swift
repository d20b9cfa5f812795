import Curl
import FerryCore
import Logging

/// Decides what happens in an exchange. Loop thread only.
protocol ExchangeOwner: AnyObject {
    // MARK: The request

    /// Fills the buffer with bytes of the body.
    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision
    /// Goes back to byte 0 before the body goes out again. Returns `false` if that is not possible, and the
    /// attempt has ended.
    func rewindBody() -> Bool
    /// Whether all bytes of the body were handed to libcurl, or there is none.
    var hasSentBody: Bool { get }

    // MARK: The response

    /// Takes an interim response (104); the final one follows.
    func take(interim head: ResponseHead)
    /// Judges the head. Returns `false` if the exchange has ended.
    func take(_ head: ResponseHead) -> Bool
    /// Called with the head of a response that libcurl may not answer, although it answers challenges.
    /// Returns `true` if the owner has ended the exchange to answer it with another one.
    func answersItself(_ head: ResponseHead) -> Bool
    /// Takes bytes of the body.
    func receive(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict
    /// Whether only the end of the TLS connection tells that the body is whole.
    func endsWithConnection(_ head: ResponseHead) -> Bool
    /// Whether reading pauses until the place has caught up.
    var waitsForPlace: Bool { get }

    // MARK: The end

    /// The response breaks a rule, or the request would be sent twice: the exchange cannot go on.
    func refuse(_ error: TransferError)
    /// The exchange has ended; libcurl uses no connection for it any more. `failure`: why the response has
    /// not come whole; `nil` if it has.
    func ended(_ failure: ExchangeFailure?)
}

extension ExchangeOwner {
    /// Ignores it: only an upload has one that counts.
    func take(interim head: ResponseHead) {}
}

/// A response that has not come whole, as libcurl reports it.
struct ExchangeFailure {
    let error: CurlError
    let outcome: TransferOutcome
}

/// One request of an attempt and its response: what libcurl reports of it goes through here. It is used again
/// for each further request of its owner, such as one that a redirect leads to. Keeps the measurements and
/// the limits of speed of the connection. Loop thread only.
final class HTTPExchange: EasyDelegate {
    unowned let running: RunningAttempt
    private unowned let owner: any ExchangeOwner
    private let multi: CurlMulti
    private var context: EngineContext { running.context }

    /// The attempt at the other end of a copy, if this is its request.
    private var other: Attempt?
    /// The request that runs, or comes next.
    var hop: Hop
    /// libcurl's transfer while it uses a connection for the exchange, or may wait for one.
    private(set) var transfer: Transfer?
    private var recorder = TransactionRecorder()
    private var reader = ResponseHeadReader()
    private var speed: LowSpeedWatch
    /// `nil` if no limit on speed holds.
    private(set) var pacing: Pacing?
    /// When a byte moved last, in nanoseconds of the loop's clock.
    private var lastActivity: Int64
    /// Whether a byte of the request may have been sent.
    private(set) var mayHaveReached = false
    /// Whether the request was sent and has no response yet.
    private var isUnanswered = false
    /// Seconds for which an unwanted body has been read.
    private var unwantedSeconds = 0

    /// `attempt`: whose request it is, if that is not the running one.
    init(_ hop: Hop, of running: RunningAttempt, for owner: any ExchangeOwner, as attempt: Attempt? = nil) {
        self.hop = hop
        self.running = running
        other = attempt
        self.owner = owner
        multi = running.loop.multi
        speed = LowSpeedWatch((attempt ?? running.attempt).spec.lowSpeed, running.context.lowSpeed)
        lastActivity = multi.now
    }

    private var now: Int64 { multi.now }
    private var attempt: Attempt { other ?? running.attempt }

    /// Uses the edited fields of the job.
    func use(_ edited: Attempt) { other = edited }

    /// Head of the response; `nil` until it is complete.
    var head: ResponseHead? { reader.head }

    var repetition: RequestRepetition { RequestRepetition(attempt.spec, hop) }

    // MARK: Begin and end

    /// Another request is about to be made.
    func reset() {
        reader = ResponseHeadReader()
        speed.restart()
        mayHaveReached = false
        isUnanswered = false
        unwantedSeconds = 0
        lastActivity = now
    }

    /// Sends the request. Returns why libcurl does not take it; `nil` if it does. Call `reset` before.
    func send(_ request: TransferRequest) -> CurlError? {
        recorder.begin(request, attemptStart: running.trace.start)
        do throws(CurlError) {
            transfer = try multi.start(request, delegate: self)
            return nil
        } catch {
            recorder.abandon()
            return error
        }
    }

    /// Ends the exchange and closes its connection, if it runs. `owner` hears nothing more of it.
    func stop() {
        if let transfer { recorder.end(transfer.info, measured, isWhole: false, in: &running.trace) }
        transfer?.cancel()
        transfer = nil
    }

    func finished(_ outcome: TransferOutcome) {
        var outcome = outcome
        if outcome.error == nil, outcome.lacksCloseNotify, let head, owner.endsWithConnection(head) {
            outcome.error = .missingCloseNotify
        }
        transfer = nil
        context.metrics.connected(outcome.info)
        recorder.end(
            outcome.info, measured, isWhole: outcome.error == nil, isBlocked: outcome.blockedAddress != nil,
            in: &running.trace)
        guard let error = outcome.error else {
            guard takeHeldHead() else { return }
            return owner.ended(nil)
        }
        reader.dropHeld()
        owner.ended(ExchangeFailure(error: error, outcome: outcome))
    }

    // MARK: Failures

    /// Notes a failure for operators.
    func note(_ error: CurlError) {
        running.trace.note(.init(curlCode: error.code, curlMessage: error.text, osError: error.osError))
        context.logger.debug(
            "request failed",
            metadata: ["job.id": "\(attempt.job)", "attempt": "\(attempt.number)", "cause": "\(error)"])
    }

    /// Returns what a failure means for the attempt.
    func meaning(of failure: ExchangeFailure) -> AttemptMachine.Failure {
        if failure.outcome.blockedAddress != nil {
            return .init(blockedAddress(.connecting), mayRepeatAtOnce: false)
        }
        let facts = TransportContext(
            hasHead: head != nil, isRepeatable: repetition.maySendTwice, sentWholeBody: owner.hasSentBody,
            proxy: context.builder.proxyScheme(attempt, hop.url), isSecure: hop.url.scheme == .https,
            host: hop.url.host)
        return transportFailure(failure.error, failure.outcome.info, facts)
    }

    /// Returns what it means that libcurl has not taken a request.
    func meaning(ofUnsent error: CurlError) -> AttemptMachine.Failure {
        let facts = TransportContext(
            hasHead: false, isRepeatable: repetition.maySendTwice, sentWholeBody: false)
        return transportFailure(error, TransferInfo(), facts)
    }

    /// Takes a response that came while the body was being sent, before the server closed the connection:
    /// libcurl reports only that it was closed.
    func takeUnread(_ bytes: [UInt8]) {
        guard reader.head == nil, hop.sendsBody, !attempt.answersChallenges(of: hop),
            bytes.starts(with: "HTTP/1.".utf8), let head = reader.take(unread: bytes)
        else { return }
        keepCookies(of: head)
        _ = owner.take(head)
    }

    // MARK: libcurl's callbacks while the request is sent

    func nameResolved() { context.noteResolved(hop.url, for: attempt) }

    private func allows(_ address: SocketAddress) -> Bool {
        context.allows(address, for: attempt, hop.url)
    }

    func willConnect(to address: SocketAddress) -> Bool {
        recorder.willConnect(transfer, measured, in: &running.trace)
        return allows(address)
    }

    func willSend(to address: SocketAddress) -> Bool {
        recorder.willSend(transfer, measured, in: &running.trace)
        // libcurl repeats by itself what a used connection has not answered, also behind a challenge; but the
        // server may have acted on it.
        guard !isUnanswered || repetition.maySendTwice else {
            // A head is that of the challenge.
            reader = ResponseHeadReader()
            owner.refuse(
                TransferError(
                    .connectionLost, "The connection ended without an answer.", phase: .waiting,
                    isRetryable: false))
            return false
        }
        isUnanswered = true
        mayHaveReached = allows(address)
        running.needSlot()
        return mayHaveReached
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        noteActivity()
        return owner.provideBody(into: buffer)
    }

    func rewindBody() -> Bool { owner.rewindBody() }

    // MARK: libcurl's callbacks while the response arrives

    /// Whether a coding that was not asked for ends the transfer only after the head. A request that cannot
    /// be sent again has its response then: the status, a redirect and `Retry-After` count.
    var completesHead: Bool { !repetition.maySendTwice }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        noteActivity()
        switch reader.take(line) {
        case .more: return true
        case .interim(let head):
            owner.take(interim: head)
            return true
        case .complete(let head): return complete(head)
        case .invalid(let rule):
            return refuse(.responseInvalid, "The server's answer is not HTTP. \(rule)")
        case .tooLarge:
            return refuse(.responseTooLarge, "The head of the server's response is too large.")
        }
    }

    private func complete(_ head: ResponseHead) -> Bool {
        isUnanswered = false
        let hop = hop
        recorder.responseStarted()
        running.noteHead(head, from: hop.url)
        keepCookies(of: head)
        // A body that ends with its connection is whole only if the server ends it over TLS as well
        // (RFC 9112 §9.8), or something else proves it.
        if hop.url.scheme == .https, !head.isDelimited(hop.method) { transfer?.requireCloseNotify() }
        if head.isAmbiguouslyFramed { transfer?.forbidReuse() }
        guard !attempt.mayBeAnswered(head, of: hop) else {
            reader.hold()
            return true
        }
        let answersChallenges = attempt.answersChallenges(of: hop)
        guard owner.take(head) else { return false }
        return !answersChallenges || !owner.answersItself(head)
    }

    /// Keeps the cookies that a response of any status sets, also one that libcurl answers.
    private func keepCookies(of head: ResponseHead) {
        guard let session = attempt.session else { return }
        let values = head.octets("set-cookie")
        guard !values.isEmpty else { return }
        session.keepCookies(values.map(\.bytes), from: hop.url, at: context.clock.now())
    }

    private func refuse(_ code: TransferError.Code, _ message: String) -> Bool {
        owner.refuse(TransferError(code, message, phase: .waiting, isRetryable: false))
        return false
    }

    /// Judges a head that libcurl did not answer by itself, if there is one.
    private func takeHeldHead() -> Bool { reader.takeHeld().map { owner.take($0) } ?? true }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        noteActivity()
        guard takeHeldHead() else { return .abort }
        return owner.receive(bytes)
    }

    // MARK: Measurement

    private var measured: TransactionRecorder.Request {
        let hop = hop
        return .init(
            hop: hop, isOwn: hop.isSame(as: running.own),
            hidesRemote: context.builder.usesServiceProxy(attempt, hop.url))
    }

    /// Measurements of the request that runs; `nil` if none does.
    var runningTransaction: TransactionMetrics? { recorder.running(transfer, measured) }

    func requestEnded() { recorder.requestEnded() }

    /// Counts bytes of the body, as they came and decoded.
    func received(_ byteCount: Int, decoded: Int) {
        speed.moved(byteCount)
        recorder.received(decoded)
    }

    /// Counts decoded bytes of a body that is dropped.
    func receivedUnwanted(_ byteCount: Int) { recorder.received(byteCount) }

    func sent(_ byteCount: Int) { speed.moved(byteCount) }

    // MARK: Activity

    /// A byte moves. In one turn of the loop only the first one counts.
    private func noteActivity() {
        guard now != lastActivity else { return }
        lastActivity = now
        running.needSlot()
    }

    /// Whether no server has been reached yet.
    var isConnecting: Bool { transfer != nil && !mayHaveReached }

    /// Whether a request is under way and reading is not paused.
    var isReading: Bool { transfer.map { !$0.isPaused } ?? false }

    /// Nanoseconds without a byte; 0 while reading is paused, or no request runs.
    var idleTime: Int64 { transfer?.isPaused ?? true ? 0 : now - lastActivity }

    var phase: TransferError.Phase {
        if head != nil { return .receiving }
        guard let info = transfer?.info, info.timings.preTransfer > 0 else { return .connecting }
        return owner.hasSentBody ? .waiting : .sending
    }

    /// Reason for which a connection is given up.
    enum Trouble {
        /// An unwanted body takes longer than it is worth.
        case enoughUnwanted
        case slow(TransferError)
    }

    /// Called about once a second. Returns why the connection is to be given up; `nil` if it is not.
    func secondPassed(_ seconds: Double, isUnwanted: Bool) -> Trouble? {
        unwantedSeconds = transfer != nil && isUnwanted ? unwantedSeconds + 1 : 0
        guard let transfer else { return nil }
        guard unwantedSeconds <= EngineLimits.discardSecondsMax else { return .enoughUnwanted }
        let timeout = attempt.spec.request.timeoutForRequest
        if idleTime > Int64(timeout * 1e9) {
            return .slow(
                TransferError(
                    .timedOut, "No byte moved for \(timeout) seconds.", phase: phase, isRetryable: true))
        }
        guard mayHaveReached else { return nil }
        return speed.secondPassed(seconds, isPaused: transfer.isPaused, phase).map { .slow($0) }
    }

    // MARK: Speed

    /// Sets the limits that hold for the current hop.
    func pace(_ pacing: Pacing?) { self.pacing = pacing }

    /// Whether the limits let these bytes pass now; otherwise the transfer is resumed when they do. libcurl's
    /// own limit is an average that lets a megabyte through at once.
    func mayMove(_ byteCount: Int, _ direction: Pacing.Direction) -> Bool {
        guard let pacing else { return true }
        let wait = pacing.take(byteCount, direction, now: now)
        if wait > 0 {
            speed.excuse()
            pacing.wake(self, after: wait, on: multi) { $0.resume() }
        }
        return wait <= 0
    }

    /// Counts bytes that have come already: those that follow wait for them.
    func charge(_ byteCount: Int) {
        guard let pacing else { return }
        pacing.charge(byteCount, .receiving, now: now)
        let wait = pacing.timeLeft(now)
        guard wait > 0 else { return }
        speed.excuse()
        transfer?.pauseReceiving()
        pacing.wake(self, after: wait, on: multi) { $0.resume() }
    }

    /// Resumes a paused transfer if the limits let its bytes pass by now, otherwise when they do.
    func resume() {
        guard let transfer, transfer.isPaused, !running.isEnded, !owner.waitsForPlace else { return }
        if let pacing, pacing.timeLeft(now) > 0 {
            pacing.wake(self, after: pacing.timeLeft(now), on: multi) { $0.resume() }
            return
        }
        lastActivity = now
        transfer.resume()
    }

    /// Pauses sending: the source has no bytes yet.
    func excuse() { speed.excuse() }
}
