import FerryCore
import Glibc

/// The opened body of an attempt: pieces of memory and of files, in their order.
struct BodyContents: Sendable {
    enum Piece: Sendable {
        case bytes([UInt8])
        case file(SourceFile)

        var byteCount: Int64 {
            switch self {
            case .bytes(let bytes): Int64(bytes.count)
            case .file(let file): file.byteCount
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

    var byteCount: Int64 { pieces.reduce(0) { $0 + $1.byteCount } }
}

/// Reads the bytes that an attempt sends. Loop thread only.
final class BodySource {
    let byteCount: Int64
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
    init(_ contents: BodyContents, digests: Digests, makeTail: (SourceFile, Digests) -> DigestTail) {
        byteCount = contents.byteCount
        contentType = contents.contentType
        pieces = contents.pieces
        subject = contents.subject
        self.digests = digests
        if let subject, case .file(let file) = pieces[subject],
            file.byteCount > EngineLimits.inlineDigestByteCountMax
        {
            tail = makeTail(file, digests)
        } else {
            tail = nil
        }
    }

    /// Bytes of the subject of an upload, without the form around it.
    var subjectByteCount: Int64 { subject.map { pieces[$0].byteCount } ?? 0 }
    var isSent: Bool { sent == byteCount }

    /// Fills the buffer as far as there are bytes, and returns how many; 0 at the end. Throws
    /// `source_changed` if a file has shrunk.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransferError) -> Int {
        var filled = 0
        while filled < buffer.count, index < pieces.count {
            let count = Int(min(Int64(buffer.count - filled), pieces[index].byteCount - offset))
            guard count > 0 else {
                index += 1
                offset = 0
                continue
            }
            try readPiece(into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<(filled + count)]))
            filled += count
        }
        sent += Int64(filled)
        return filled
    }

    private func readPiece(into target: UnsafeMutableRawBufferPointer) throws(TransferError) {
        switch pieces[index] {
        case .bytes(let bytes): target.copyBytes(from: bytes[Int(offset)..<(Int(offset) + target.count)])
        case .file(let file): try file.read(into: target, at: offset)
        }
        offset += Int64(target.count)
        guard index == subject else { return }
        if let tail { tail.advance(to: offset) } else { digests.update(UnsafeRawBufferPointer(target)) }
    }

    /// Hashes the subject without sending it. Throws as `read`. Call before the first `read`.
    func hashUnsent() throws(TransferError) {
        guard let subject else { return }
        if let tail { return tail.advance(to: subjectByteCount) }
        switch pieces[subject] {
        case .bytes(let bytes): bytes.withUnsafeBytes { digests.update($0) }
        case .file(let file):
            // A larger file has a tail.
            let buffer = UnsafeMutableRawBufferPointer.allocate(
                byteCount: Int(file.byteCount), alignment: 1)
            defer { buffer.deallocate() }
            try file.read(into: buffer, at: 0)
            digests.update(UnsafeRawBufferPointer(buffer))
        }
    }

    /// Goes back to byte 0. Bytes that a file thread has hashed stay hashed: if the file changes, the last
    /// check finds out. Throws `source_changed` if a file is known to have changed.
    func rewind() throws(TransferError) {
        guard sent > 0 else { return }
        try check()
        sent = 0
        index = 0
        offset = 0
        if tail == nil, subject != nil { digests.reset() }
    }

    /// Throws `source_changed` unless the files are what they were when they were opened.
    func check() throws(TransferError) {
        for case .file(let file) in pieces { try file.checkUnchanged() }
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

/// A regular file that is sent. Its size is fixed when it is opened.
final class SourceFile: Sendable {
    let descriptor: Int32
    let byteCount: Int64
    let identity: FileIdentity
    private let modified: timespec

    init(_ path: String, below root: StorageDirectory) throws(TransferError) {
        let (descriptor, status) = try root.regularFile(path)
        self.descriptor = descriptor
        byteCount = Int64(status.st_size)
        identity = FileIdentity(status)
        modified = status.st_mtim
    }

    deinit { close(descriptor) }

    static let changed = TransferError(
        .sourceChanged, "The source's file changed while it was sent.", phase: .sending, isRetryable: true)

    private static let unreadable = TransferError(
        .storageFailed, "The source's file could not be read.", phase: .sending, isRetryable: true)

    /// Throws unless the file has the size and modification time that it had when it was opened.
    func checkUnchanged() throws(TransferError) {
        var now = stat()
        guard fstat(descriptor, &now) == 0 else { throw Self.unreadable }
        guard Int64(now.st_size) == byteCount, now.st_mtim.tv_sec == modified.tv_sec,
            now.st_mtim.tv_nsec == modified.tv_nsec
        else { throw Self.changed }
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(TransferError) {
        var done = 0
        while done < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(offset) + done)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.unreadable }
            guard count > 0 else { throw Self.changed }
            done += count
        }
    }
}
