import Curl
import FerryCore

/// What an attempt sends: opened before the first request, read while one runs, sent anew when another one
/// needs it.
extension LiveTransfer {
    /// Opens the source, and sees to what earlier attempts have left.
    func begin() {
        do throws(TransferError) {
            if let assembly = BodyAssembly(attempt, context) {
                let (key, tell) = (key, loop.teller)
                self.assembly = assembly
                assembly.open { contents in tell { $0.opened(contents, for: key) } }
                return
            }
            if let contents = try plainContents() { try take(contents) }
            guard attempt.spec.kind == .download else {
                handle(.prepared)
                return
            }
            let destination = try context.destination(of: attempt)
            self.destination = destination
            guard attempt.number > 1 || attempt.secrets.resumePoint != nil else {
                try awaitRoom(nil)
                handle(.prepared)
                return
            }
            takeOver(destination)
        } catch {
            handle(.preparationFailed(error))
        }
    }

    /// The payload, or one file.
    private func plainContents() throws(TransferError) -> BodyContents? {
        let subject = attempt.spec.kind == .upload ? 0 : nil
        if let payload = attempt.payload { return BodyContents([.bytes(payload)], subject: subject) }
        guard case .path(let path)? = attempt.spec.source else { return nil }
        let root = try context.storageRoot(of: attempt.tenant)
        return BodyContents([.file(try SourceFile(path, below: root))], subject: subject)
    }

    /// What `BodyAssembly` found.
    func opened(_ contents: Result<BodyContents, BodyAssembly.Failure>) {
        assembly = nil
        switch contents {
        case .success(let contents):
            do throws(TransferError) {
                try take(contents)
                handle(.prepared)
            } catch {
                handle(.preparationFailed(error))
            }
        case .failure(.failed(let error)): handle(.preparationFailed(error))
        case .failure(.elsewhere(let node)):
            home = node
            handle(.release)
            handle(.prepared)
        }
    }

    /// What the bytes have to be; other ones stay other ones, so nothing is tried again.
    private func integrity(of contents: BodyContents) -> JobSpec.Integrity {
        var integrity = contents.subject == nil ? JobSpec.Integrity() : attempt.spec.integrity
        integrity.size = integrity.size ?? contents.integrity.size
        integrity.sha256 = integrity.sha256 ?? contents.integrity.sha256
        return integrity
    }

    /// Throws `size_mismatch` before a byte leaves.
    private func take(_ contents: BodyContents) throws(TransferError) {
        let integrity = integrity(of: contents)
        if let size = integrity.size, let actual = contents.subject.map({ contents.pieces[$0].byteCount }),
            size != actual
        {
            throw TransferError(
                .sizeMismatch, "The size is \(actual) bytes instead of \(size).", phase: .sending,
                isRetryable: false)
        }
        let lane = context.lane
        let source = BodySource(contents, digests: Digests(integrity, isRepeatable: false)) { file, digests in
            DigestTail(
                DigestTail.Bytes(descriptor: file.descriptor, owner: file, isWritten: false), digests,
                lane: lane
            ) {}
        }
        self.source = source
        hop.sendsBody = !hop.hasDroppedBody
        progress.expect(toSend: source.byteCount)
        if source.byteCount >= EngineLimits.bulkByteCountMin { becomeBulk() }
    }

    // MARK: While a request runs

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        noteActivity()
        guard let source else { return .bytes(0) }
        guard !looksForAnswer() else { return .pause }
        let room = min(buffer.count, pacing?.portion ?? .max)
        guard source.isSent || mayMove(room, .sending) else { return .pause }
        do throws(TransferError) {
            let count = try source.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]))
            progress.set(sent: source.sent)
            if source.isSent { meter?.requestEnded() }
            context.metrics.sent(count)
            return .bytes(count)
        } catch {
            handle(.bodyRefused(error))
            return .abort
        }
    }

    /// An answer in the middle of a body is an early refusal, and the server may hang up with it: what is
    /// sent then fails, and libcurl would never read why. True when there is something to be read first, but
    /// not twice in a row: it need not be an answer.
    private func looksForAnswer() -> Bool {
        guard let source, source.sent > 0, !source.isSent, head == nil, !hasLookedForAnswer,
            let transfer, transfer.hasUnreadBytes
        else {
            hasLookedForAnswer = false
            return false
        }
        hasLookedForAnswer = true
        loop.multi.after(nanoseconds: 0) { [weak transfer] in transfer?.resume() }
        return true
    }

    /// The server had answered, and hung up while the body was being sent: libcurl tells of the hang-up only.
    func takeUnread(_ bytes: [UInt8]) {
        guard head == nil, hop.sendsBody, !answersChallenges, bytes.starts(with: "HTTP/1.".utf8) else {
            return
        }
        parser = ResponseHeadParser()
        for line in bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast() {
            switch parser.take(line.last == UInt8(ascii: "\r") ? line.dropLast() : line) {
            case .more: continue
            case .complete(let head):
                // 408 may be the farewell to a connection that was kept, and no answer (RFC 9110 §15.5.9).
                guard head.status != 408 else { return }
                self.head = head
                _ = takeHead(head)
                return
            case .invalid, .tooLarge: return
            }
        }
    }

    /// libcurl is about to send the request once more by itself; whether it may, `willSend` says.
    func rewindBody() -> Bool { rewindSource() }

    /// Before the body goes out again; false when that is not possible, and the attempt has ended.
    func rewindSource() -> Bool {
        guard let source, hop.sendsBody else { return true }
        do throws(TransferError) {
            try source.rewind()
            return true
        } catch {
            handle(.bodyRefused(error))
            return false
        }
    }

    var hasSentBody: Bool { !hop.sendsBody || source?.isSent ?? true }

    // MARK: Another time

    /// Whether the current request may be sent twice.
    var isRepeatable: Bool { RequestBuilder.isRepeatable(attempt.spec, method: hop.method) }

    /// Whether what libcurl is about to send may go out. It repeats by itself what a connection that was used
    /// before has not answered, also behind a challenge; but the server may have acted on it. False: the
    /// attempt has ended.
    func maySendAgain() -> Bool {
        guard isUnanswered, !isRepeatable else { return true }
        // That of the challenge.
        (head, isHeadHeld) = (nil, false)
        handle(
            .bodyRefused(
                TransferError(
                    .connectionLost, "The connection ended without an answer.", phase: .waiting,
                    isRetryable: false)))
        return false
    }

    /// Whether the job may be tried again: unless it allows more, nothing that is not idempotent may have had
    /// its effect.
    private var isHarmless: Bool {
        attempt.spec.retry.repeatsNonIdempotent || !hop.hasActed && (isRepeatable || !mayHaveReached)
    }

    /// Whether the attempt may begin anew later instead of sending its current request, which is not sent.
    var mayBePutOff: Bool {
        attempt.spec.retry.repeatsNonIdempotent || !hop.hasActed && isRepeatable
    }

    /// What an attempt may end as. Which statuses allow a repetition is the judge's business.
    func harmless(_ outcome: AttemptResult.Outcome) -> AttemptResult.Outcome {
        switch outcome {
        case .failed(let error, _)
        where error.isRetryable && error.code != .unacceptableStatus && !isHarmless:
            .failed(
                TransferError(error.code, error.message, phase: error.phase, isRetryable: false),
                retryAfter: nil)
        case .released where !isHarmless, .suspended where !isHarmless:
            .failed(.outcomeUnknown, retryAfter: nil)
        default: outcome
        }
    }
}
