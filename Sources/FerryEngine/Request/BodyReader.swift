import FerryCore

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
    }

    var pieces: [Piece]
    /// Index of the piece that an upload is about: its bytes are hashed and reported. `nil` if there is none.
    var subject: Int?
    /// Media type that belongs to the bytes; `nil` if only the job names one.
    var contentType: String?
    /// Length and digest of the subject as far as they are known from its source. What the job demands takes
    /// precedence.
    var integrity = JobSpec.Integrity()

    init(_ pieces: [Piece], subject: Int?) {
        self.pieces = pieces
        self.subject = subject
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
    let digests: Digests
    private let pieces: [BodyContents.Piece]
    private let subject: Int?
    private let tail: DigestTail?
    private(set) var sent: Int64 = 0
    /// The current piece, and how many of its bytes are sent.
    private var index = 0
    private var offset: Int64 = 0

    /// `makeTail` lets the file threads hash a large file.
    init(_ contents: BodyContents, digests: Digests, makeTail: (DigestTail.Bytes, Digests) -> DigestTail) {
        byteCount = contents.byteCount
        contentType = contents.contentType
        pieces = contents.pieces
        subject = contents.subject
        self.digests = digests
        if let subject, case .source(let source) = pieces[subject],
            source.byteCount ?? 0 > EngineLimits.inlineDigestByteCountMax, let file = source.hashable
        {
            tail = makeTail(file, digests)
        } else {
            tail = nil
        }
    }

    /// Bytes of the subject of an upload, without the form around it: as far as they are hashed if only its
    /// end tells.
    var subjectByteCount: Int64 { subject.map { pieces[$0].byteCount ?? digests.byteCount } ?? 0 }
    var isSent: Bool { byteCount.map { sent == $0 } ?? (index == pieces.count) }

    /// Fills the buffer as far as there are bytes. Finds 0 at the end, and none only if a source has none
    /// yet: `whenReadable` tells when it has. Throws `source_changed` if a source has changed.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransferError) -> ByteRead {
        var filled = 0
        while filled < buffer.count, index < pieces.count {
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[filled...])
            switch try readPiece(into: rest) {
            case .bytes(0):
                index += 1
                offset = 0
            case .bytes(let count): filled += count
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
            guard case .bytes(let found) = try source.read(into: target, at: offset) else { return .none }
            count = found
        }
        offset += Int64(count)
        guard index == subject else { return .bytes(count) }
        if let tail {
            tail.advance(to: offset)
        } else {
            digests.update(UnsafeRawBufferPointer(rebasing: target[..<count]))
        }
        return .bytes(count)
    }

    /// Hashes the subject without sending it. Throws as `read`. Call before the first `read`.
    func hashUnsent() throws(TransferError) {
        guard let subject else { return }
        if let tail { return tail.advance(to: subjectByteCount) }
        switch pieces[subject] {
        case .bytes(let bytes): bytes.withUnsafeBytes { digests.update($0) }
        case .source(let source):
            // A larger file has a tail.
            let size = min(source.byteCount ?? .max, EngineLimits.inlineDigestByteCountMax)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(size), alignment: 1)
            defer { buffer.deallocate() }
            while digests.byteCount < source.byteCount ?? .max {
                guard case .bytes(let count) = try source.read(into: buffer, at: digests.byteCount) else {
                    throw .notReadableAgain
                }
                guard count > 0 else { return }
                digests.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            }
        }
    }

    /// Goes back to byte 0. Bytes that a file thread has hashed stay hashed: if the file changes, the last
    /// check finds out. Throws `source_changed` if a source is known to have changed, and
    /// `request_not_repeatable` if one cannot be read again.
    func rewind() throws(TransferError) {
        guard sent > 0 else { return }
        try check()
        for case .source(let source) in pieces where source.rereadableFrom != 0 { throw .notReadableAgain }
        sent = 0
        index = 0
        offset = 0
        if tail == nil, subject != nil { digests.reset() }
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
