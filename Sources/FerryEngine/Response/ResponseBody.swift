import FerryCore

/// Takes the body of a transfer's current response: the job's body, and that of a response that rejects an
/// upload, to a sink or into parts; any other one counted and dropped, but for an excerpt of a text. Loop
/// thread only.
final class ResponseBody {
    /// Target of the body's bytes.
    enum Target {
        case none
        case sink(any StreamSink)
        /// Of a data job.
        case parts(ReplacedParts)
        case discard
    }

    /// Treatment of a body that is complete.
    enum Ending {
        case result(TransferResult)
        case content(any StreamSink)
    }

    private var decoding: Decoding?
    private var target = Target.none
    /// Bytes at the beginning of the response that are there already, and bytes that may follow them; `nil`
    /// for any number.
    private var range: (skip: Int64, left: Int64?) = (0, nil)
    private var discardedByteCount = 0
    private var excerpt: [UInt8] = []
    /// Whether the excerpt is of bytes that go to the sink: those of a response that is not accepted.
    private var takesExcerpt = false
    /// Whether bytes were lost, so that none may follow in the excerpt.
    private var isExcerptClosed = false
    /// Whether reading pauses because the digest is far behind.
    private(set) var waitsForDigest = false

    init(_ codings: JobSpec.AcceptEncoding) {
        if codings != .identity { decoding = Decoding(codings) }
    }

    /// Another request is about to be sent.
    func reset() {
        target = .none
        waitsForDigest = false
        discardedByteCount = 0
        excerpt = []
        (takesExcerpt, isExcerptClosed) = (false, false)
    }

    // MARK: Content codings

    /// The content codings to ask for; `nil` for none.
    var codings: [String]? { decoding?.codings }
    /// Whether the current response is being decoded.
    var isDecoded: Bool { decoding?.isActive ?? false }

    func examine(_ head: ResponseHead) { decoding?.examine(head) }

    /// Asks for no codings any more.
    func leaveOutCodings() { decoding = nil }

    // MARK: While the body arrives

    func pass(to target: Target) {
        self.target = target
        range = (0, nil)
    }

    /// Takes the bytes of a response to a range. `skip`: bytes at its beginning that are there already.
    /// `byteCount`: of the others; `nil` if it is not known.
    func pass(to sink: any StreamSink, skipping skip: Int64, byteCount: Int64?) {
        target = .sink(sink)
        range = (skip, byteCount)
    }

    /// The sink that takes the response's bytes.
    var sink: (any StreamSink)? { if case .sink(let sink) = target { sink } else { nil } }

    /// Whether the bytes are taken, and not dropped.
    var isTaken: Bool {
        switch target {
        case .sink, .parts: true
        case .none, .discard: false
        }
    }

    /// Whether all bytes are to be taken, and reading pauses after them: how many they become is known only
    /// then.
    var takesAll: Bool { isDecoded && sink != nil }

    /// Whether reading has to pause because the digest is far behind; `hasCaughtUp` ends that.
    func fallsBehind() -> Bool {
        guard let sink, sink.lag > EngineLimits.digestLagMax else { return false }
        waitsForDigest = true
        return true
    }

    /// Whether reading may resume. Throws the failure of hashing, if there is one.
    func hasCaughtUp() throws(TransferError) -> Bool {
        guard let sink else { return false }
        if let failure = sink.failure { throw failure }
        guard waitsForDigest, sink.lag < EngineLimits.digestLagResume else { return false }
        waitsForDigest = false
        return true
    }

    /// Returns how many bytes of the body there are now. `turn`: of the loop. Throws as `StreamSink.append`
    /// and `ReplacedParts.take` do.
    func append(_ bytes: UnsafeRawBufferPointer, turn: Int64) throws(TransferError) -> Int64 {
        switch target {
        case .sink(let sink):
            if let decoding, decoding.isActive {
                try decoding.decode(bytes, turn: turn) { (piece) throws(TransferError) in
                    if takesExcerpt { addToExcerpt(piece) }
                    try sink.append(piece)
                }
            } else {
                let piece = try wanted(bytes)
                if takesExcerpt { addToExcerpt(piece) }
                try sink.append(piece)
            }
            return sink.byteCount ?? 0
        case .parts(let parts):
            try parts.take(bytes)
            return parts.byteCount
        case .none, .discard: return 0
        }
    }

    /// Returns the bytes that are not there yet. Throws `response_invalid` if there are more than announced.
    private func wanted(_ bytes: UnsafeRawBufferPointer) throws(TransferError) -> UnsafeRawBufferPointer {
        let skipped = min(range.skip, Int64(bytes.count))
        range.skip -= skipped
        let wanted = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(Int(skipped)))
        if let left = range.left {
            guard wanted.count <= left else { throw .longerThanAnnounced }
            range.left = left - Int64(wanted.count)
        }
        return wanted
    }

    /// Counts bytes of an unwanted body. Returns `true` once there are more than are worth reading.
    /// `isRedirect`: whether another request follows, so that no excerpt of the text is needed.
    func discard(_ bytes: UnsafeRawBufferPointer, of head: ResponseHead?, isRedirect: Bool) -> Bool {
        if !isRedirect, let head, hasReadableText(head), !isExcerptClosed { note(bytes) }
        discardedByteCount += bytes.count
        return discardedByteCount > EngineLimits.discardByteCountMax
    }

    private func hasReadableText(_ head: ResponseHead) -> Bool {
        head.isText && (isDecoded || head.contentCodings.isEmpty)
    }

    private func note(_ bytes: UnsafeRawBufferPointer) {
        guard excerpt.count < Limits.responseExcerptByteCountMax else { return }
        guard isDecoded else { return addToExcerpt(bytes) }
        do throws(TransferError) {
            try decoding?.decode(bytes, turn: 0) { (piece) throws(TransferError) in addToExcerpt(piece) }
        } catch {
            // What cannot be decoded is not shown.
            isExcerptClosed = true
        }
    }

    private func addToExcerpt(_ piece: UnsafeRawBufferPointer) {
        excerpt.append(contentsOf: piece.prefix(Limits.responseExcerptByteCountMax - excerpt.count))
    }

    // MARK: The body of a response that is not accepted

    /// Takes the body that follows, of a response that is not accepted.
    func keepRejected(_ head: ResponseHead, in sink: any StreamSink) {
        pass(to: .sink(sink))
        takesExcerpt = hasReadableText(head)
    }

    /// Drops the body of a response that is not accepted, what has come and what follows.
    func dropRejected() {
        sink?.abort()
        pass(to: .discard)
        (takesExcerpt, isExcerptClosed, waitsForDigest) = (false, true, false)
    }

    /// The beginning of a refused text, for people; `nil` if there is none.
    var excerptText: String? {
        excerpt.isEmpty ? nil : textExcerpt(excerpt, byteCountMax: Limits.responseExcerptByteCountMax)
    }

    // MARK: After the body

    /// Whether nothing but the end of the connection says that the job's body is whole (RFC 9112 §9.8).
    func endsWithConnection(_ head: ResponseHead, _ hop: Hop, _ integrity: JobSpec.Integrity) -> Bool {
        guard let sink else { return false }
        return !head.isDelimited(hop.method) && !sink.hasKnownEnd && integrity.size == nil
            && sink.digests?.isProof != true
    }

    /// Checks a body that has come whole. `nil`: the response was not accepted.
    func finish(_ spec: JobSpec, _ hop: Hop, isDelimited: Bool) throws(TransferError) -> Ending? {
        switch target {
        case .sink(let sink):
            try decoding?.checkEnd()
            try sink.checkEnd()
            guard !spec.storesFile, let bytes = sink.inMemory, let digests = sink.digests else {
                return .content(sink)
            }
            return .result(try result(bytes, digests, spec, isDelimited: isDelimited))
        case .parts(let parts):
            let last = try parts.finish()
            let digests = Digests(spec.integrity, isRepeatable: spec.isRepeatable(hop.method))
            var result = try result(last.bytes, digests, spec, isDelimited: true)
            result.parts = .init(count: parts.count, mimeType: last.mimeType)
            return .result(result)
        case .none, .discard: return nil
        }
    }

    private func result(
        _ bytes: [UInt8], _ digests: Digests, _ spec: JobSpec, isDelimited: Bool
    ) throws(TransferError) -> TransferResult {
        digests.update(bytes)
        return TransferResult(
            size: Int64(bytes.count), sha256: try digests.finish(), body: bytes,
            verified: digests.verification(spec.receivedIntegrity, isDelimited: isDelimited))
    }
}
