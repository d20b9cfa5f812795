import FerryCore
import OpenSSL

/// The opened body of an attempt: pieces of memory and of sources, in their order.
struct BodyContents: Sendable {
    enum Piece: Sendable {
        case bytes([UInt8])
        case source(any ByteSource)

        /// `nil` if only the end of the source tells.
        var byteCount: Int64? {
            switch self {
            case .bytes(let bytes): Int64(bytes.count)
            case .source(let source): source.byteCount
            }
        }

        var fetchedFile: FetchedFile? {
            if case .source(let source) = self { source as? FetchedFile } else { nil }
        }
    }

    var pieces: [Piece]
    /// Index of the piece that an upload is about: its bytes are hashed and reported. `nil` if there is none.
    var subject: Int?
    /// Media type that belongs to the bytes; `nil` if only the job names one.
    var contentType: String?
    /// Codings of the bytes (RFC 9110 §8.4); `nil` for none.
    var contentEncoding: String?
    /// Boundary of a multipart body; `nil` for others.
    var boundary: String?
    /// Length and digest of the subject as far as they are known from its source. What the job demands takes
    /// precedence.
    var integrity = JobSpec.Integrity()
    /// Digests of the subject that its server has announced.
    var announced: [ExpectedDigest] = []

    init(_ pieces: [Piece], subject: Int?) {
        self.pieces = pieces
        self.subject = subject
    }

    /// Text that two bodies share only if they have the same bytes; `nil` if a source does not tell. Hashes
    /// what is in memory.
    var identity: String? {
        var parts: [String] = []
        for piece in pieces {
            switch piece {
            case .bytes(let bytes): parts.append("\(bytes.count):\(hexEncoded(Digest.of(bytes)))")
            case .source(let source):
                guard let count = source.byteCount, let identity = source.identity else { return nil }
                parts.append("\(count):\(identity)")
            }
        }
        return hexEncoded(Digest.of(Array(parts.joined(separator: " ").utf8)))
    }

    /// The source of the subject, if it is a stream.
    var stream: (any ByteSource)? {
        guard let subject, case .source(let source) = pieces[subject], source.isStream else { return nil }
        return source
    }

    /// The file with the bytes of a copy; `nil` for other bodies.
    var fetchedFile: FetchedFile? { subject.flatMap { pieces[$0].fetchedFile } }

    /// Returns the same body with the bytes of its subject at another place.
    func replacingSubject(by source: any ByteSource) -> BodyContents {
        var contents = self
        if let subject { contents.pieces[subject] = .source(source) }
        return contents
    }

    /// Whether the subject is fetched from another server.
    var isFetched: Bool {
        guard let subject, case .source(let source) = pieces[subject] else { return false }
        return source is any FetchedBytes
    }

    /// `nil` if the length of a piece is not known.
    var byteCount: Int64? {
        var total: Int64 = 0
        for piece in pieces {
            guard let count = piece.byteCount else { return nil }
            total += count
        }
        return total
    }
}

/// Reads the bytes that an attempt sends. Loop thread only.
final class BodyReader {
    /// `nil` if only the end of the body tells.
    let byteCount: Int64?
    let contentType: String?
    let contentEncoding: String?
    let digests: Digests
    private let pieces: [BodyContents.Piece]
    private let subject: Int?
    private let tail: DigestTail?
    /// The source of the subject, if it is a stream: its bytes are hashed as they are read, and verified
    /// before the last of them is passed on.
    private let stream: (any ByteSource)?
    /// Digests of the subject, if they are known before it is sent; it is not hashed again then.
    private(set) var payload: PayloadDigests?
    /// Bytes before the next one to be sent.
    private(set) var sent: Int64 = 0
    /// The bytes that the current request has; `nil` if it has all of them.
    private var selection: Range<Int64>?
    /// The current piece, and how many of its bytes are sent.
    private var index = 0
    private var offset: Int64 = 0

    /// `makeTail` lets the file threads hash a large file.
    init(_ contents: BodyContents, digests: Digests, makeTail: (DigestTail.Bytes, Digests) -> DigestTail) {
        byteCount = contents.byteCount
        contentType = contents.contentType
        contentEncoding = contents.contentEncoding
        pieces = contents.pieces
        subject = contents.subject
        self.digests = digests
        stream = contents.stream
        if let subject, case .source(let source) = pieces[subject],
            source.byteCount ?? .max > EngineLimits.inlineDigestByteCountMax, let file = source.hashable
        {
            tail = makeTail(file, digests)
        } else {
            tail = nil
        }
    }

    /// The file with the bytes of a copy; `nil` for other bodies.
    var fetchedFile: FetchedFile? { subject.flatMap { pieces[$0].fetchedFile } }
    /// Bytes of the subject of an upload, without the form around it: as far as they are hashed if only its
    /// end tells.
    var subjectByteCount: Int64 { subject.map { pieces[$0].byteCount ?? digests.byteCount } ?? 0 }
    /// Bytes of the current request; `nil` if only the end of the body tells.
    var requestByteCount: Int64? { selection.map { $0.upperBound - $0.lowerBound } ?? byteCount }
    /// Whether the bytes of the current request are sent.
    var isSent: Bool {
        (selection?.upperBound ?? byteCount).map { sent == $0 } ?? (index == pieces.count)
    }
    /// Whether each byte can be read again, and their number is known. A stream may have other bytes then,
    /// unless its server tells one content from another.
    var isResumable: Bool {
        byteCount != nil
            && pieces.allSatisfy {
                guard case .source(let source) = $0 else { return true }
                return source.rereadableFrom == 0 && !(source.isStream && source.identity == nil)
            }
    }
    /// Whether bytes of a stream are still to be hashed, although the current request has none of them.
    var hasUnhashed: Bool { stream != nil && payload == nil }

    /// The only source of the body, if any range of its bytes can be read and hashed at any time; else `nil`.
    var divisible: (source: any ByteSource, bytes: DigestTail.Bytes)? {
        guard pieces.count == 1, subject == 0, isResumable, case .source(let source) = pieces[0],
            let bytes = source.hashable
        else { return nil }
        return (source, bytes)
    }

    /// Lets file threads hash the first bytes of a divisible source.
    func hashDivisible(upTo end: Int64) { tail?.advance(to: end) }

    /// Returns how many of the first `end` bytes file threads have hashed.
    func hashedByteCount(upTo end: Int64) -> Int64 { tail.map { end - max(0, $0.lag(at: end)) } ?? 0 }

    /// Chooses the bytes that the next request has; `rewind` goes to the first of them.
    func select(_ range: Range<Int64>?) { selection = range }

    /// Fills the buffer as far as there are bytes. Finds 0 at the end, and none only if a source has none
    /// yet: `whenReadable` tells when it has. Throws `source_changed` if a source has changed.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransferError) -> ByteRead {
        var buffer = buffer
        if let end = selection?.upperBound {
            buffer = UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(buffer.count, Int(end - sent))])
        }
        var filled = 0
        while filled < buffer.count, index < pieces.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            switch try readPiece(into: rest) {
            case .bytes(0):
                if index == subject, stream != nil, payload == nil { try verifyStream() }
                index += 1
                offset = 0
            case .bytes(let count):
                filled += count
                if index == subject, stream != nil, payload == nil, offset == pieces[index].byteCount {
                    try verifyStream()
                }
            case .none where filled == 0: return .none
            case .none:
                sent += Int64(filled)
                return .bytes(filled)
            }
        }
        // The end of the last piece is known before libcurl asks again.
        while index < pieces.count, pieces[index].byteCount == offset {
            index += 1
            offset = 0
        }
        sent += Int64(filled)
        return .bytes(filled)
    }

    /// Calls `body` as soon as the source that had no bytes can be read again.
    func whenReadable(_ body: @escaping @Sendable () -> Void) {
        guard index < pieces.count, case .source(let source) = pieces[index] else { return body() }
        source.whenReadable(body)
    }

    private func readPiece(into target: UnsafeMutableRawBufferPointer) throws(TransferError) -> ByteRead {
        let count: Int
        switch pieces[index] {
        case .bytes(let bytes):
            count = min(target.count, bytes.count - Int(offset))
            target.copyBytes(from: bytes[Int(offset)..<(Int(offset) + count)])
        case .source(let source):
            guard try hashSkipped(target),
                case .bytes(let found) = try source.read(into: target, at: offset)
            else { return .none }
            count = found
        }
        offset += Int64(count)
        guard index == subject, payload == nil else { return .bytes(count) }
        if let tail {
            tail.advance(to: offset)
        } else {
            digests.update(UnsafeRawBufferPointer(rebasing: target[..<count]))
        }
        return .bytes(count)
    }

    /// Reads and hashes the bytes of a stream before the next one to send, as far as that has not happened.
    /// `scratch` may change. Returns `false` if they have not come yet.
    private func hashSkipped(_ scratch: UnsafeMutableRawBufferPointer) throws(TransferError) -> Bool {
        guard index == subject, payload == nil, let stream else { return true }
        return try hash(stream, upTo: offset, scratch)
    }

    private func hash(
        _ stream: any ByteSource, upTo end: Int64, _ scratch: UnsafeMutableRawBufferPointer
    ) throws(TransferError) -> Bool {
        while digests.byteCount < end {
            let most = Int(min(Int64(scratch.count), end - digests.byteCount))
            let rest = UnsafeMutableRawBufferPointer(rebasing: scratch[..<most])
            guard case .bytes(let count) = try stream.read(into: rest, at: digests.byteCount) else {
                return false
            }
            guard count > 0 else { return true }
            digests.update(UnsafeRawBufferPointer(rebasing: rest[..<count]))
        }
        return true
    }

    /// Hashes the rest of a stream, of which the server has all bytes. Returns `false` if some have not come
    /// yet: `whenHashable` tells when they have. Throws as `read`.
    func hashRest() throws(TransferError) -> Bool {
        guard let stream, payload == nil else { return true }
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 65_536, alignment: 1)
        defer { scratch.deallocate() }
        guard try hash(stream, upTo: stream.byteCount ?? .max, scratch) else { return false }
        try verifyStream()
        return true
    }

    /// Calls `body` as soon as `hashRest` can go on.
    func whenHashable(_ body: @escaping @Sendable () -> Void) { stream?.whenReadable(body) }

    /// All bytes of the stream are hashed. Throws `size_mismatch` or `digest_mismatch` before the last ones
    /// are sent.
    private func verifyStream() throws(TransferError) {
        let byteCount = digests.byteCount
        payload = PayloadDigests(sha256: try digests.finish(), checksum: nil, byteCount: byteCount)
    }

    /// Hashes the subject without sending it. Throws as `read`. Call before the first `read`.
    func hashUnsent() throws(TransferError) {
        guard let subject else { return }
        try hash(upTo: pieces[subject].byteCount ?? .max)
    }

    /// Ends the hashing of the subject by a file thread; `whenHashed` then tells a failure.
    func stopHashing() { tail?.stop() }

    /// Sets the digests of the subject, which `hashUnsent` has made.
    func setPayload(_ digests: PayloadDigests) { payload = digests }

    /// Hashes the first bytes of the subject, of which none are hashed unless a file thread does it.
    private func hash(upTo end: Int64) throws(TransferError) {
        // `read` hashes a stream.
        guard let subject, payload == nil, stream == nil else { return }
        if let tail { return tail.advance(to: min(end, subjectByteCount)) }
        switch pieces[subject] {
        case .bytes(let bytes): bytes.prefix(Int(end)).withUnsafeBytes { digests.update($0) }
        case .source(let source):
            // A larger file has a tail.
            let size = min(end, source.byteCount ?? .max, EngineLimits.inlineDigestByteCountMax)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(size), alignment: 1)
            defer { buffer.deallocate() }
            while digests.byteCount < end {
                let most = Int(min(size, end - digests.byteCount))
                let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[..<most])
                guard case .bytes(let count) = try source.read(into: rest, at: digests.byteCount) else {
                    throw .notReadableAgain
                }
                guard count > 0 else { return }
                digests.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
    }

    /// Goes to the first byte of the current request. Bytes that a file thread has hashed stay hashed: if the
    /// file changes, the last check finds out. Throws `source_changed` if a source is known to have changed,
    /// and `request_not_repeatable` if one cannot be read again.
    func rewind() throws(TransferError) {
        let start = selection?.lowerBound ?? 0
        guard sent != start else { return }
        try check()
        for case .source(let source) in pieces where source.rereadableFrom != 0 { throw .notReadableAgain }
        if stream != nil { payload = nil }
        if tail == nil, subject != nil, payload == nil { digests.reset() }
        sent = start
        index = 0
        offset = start
        // Bytes can be skipped only in a body whose length is known.
        while index < pieces.count, let count = pieces[index].byteCount, offset > 0, offset >= count {
            if index == subject { try hash(upTo: count) }
            index += 1
            offset -= count
        }
        if index == subject, offset > 0 { try hash(upTo: offset) }
    }

    /// Throws `source_changed` unless the sources are what they were when they were opened.
    func check() throws(TransferError) {
        for case .source(let source) in pieces { try source.checkUnchanged() }
    }

    /// Calls `body` as soon as the whole subject is hashed: on a file thread, or at once if the loop has
    /// hashed it.
    func whenHashed(_ body: @escaping @Sendable (DigestTail?) -> Void) {
        guard let tail else {
            body(nil)
            return
        }
        tail.finish(at: subjectByteCount, then: .run { body(tail) })
    }
}

extension TransferError {
    /// A body would have to be sent again whose source can be read only once.
    fileprivate static let notReadableAgain = TransferError(
        .requestNotRepeatable, "The body would have to be sent again, and its source cannot be read again.",
        phase: .sending, isRetryable: false)
}
