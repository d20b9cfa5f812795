import FerryCore
import Glibc

/// What an attempt sends, opened: stretches of memory and of files, in their order.
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
    /// Which piece an upload is about: its bytes are hashed and told. Nil: none is.
    var subject: Int?
    /// What the bytes themselves say about the request; nil: only the job does.
    var contentType: String?
    /// What the subject must be, as far as it is known from elsewhere; the job's own words count first.
    var integrity = JobSpec.Integrity()

    init(_ pieces: [Piece], subject: Int?) {
        self.pieces = pieces
        self.subject = subject
    }

    var byteCount: Int64 { pieces.reduce(0) { $0 + $1.byteCount } }
}

/// The bytes that an attempt sends. Loop thread only.
final class BodySource {
    let byteCount: Int64
    let contentType: String?
    let digests: Digests
    private let pieces: [BodyContents.Piece]
    private let subject: Int?
    private let tail: DigestTail?
    private(set) var sent: Int64 = 0
    /// The piece that comes next, and how much of it has been sent.
    private var index = 0
    private var offset: Int64 = 0

    /// `makeTail` gives a large file's digest to the file threads.
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

    /// Bytes of what an upload is about, without the form around it.
    var subjectByteCount: Int64 { subject.map { pieces[$0].byteCount } ?? 0 }
    var isSent: Bool { sent == byteCount }

    /// Fills the buffer as far as there are bytes; 0 is the end. Throws `source_changed` when a file has
    /// shrunk.
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

    /// From the beginning again. What a file thread has hashed stays hashed: the file has not changed, or the
    /// end will say so. Throws `source_changed` when it is known already.
    func rewind() throws(TransferError) {
        guard sent > 0 else { return }
        try check()
        sent = 0
        index = 0
        offset = 0
        if tail == nil, subject != nil { digests.reset() }
    }

    /// Whether the files are still what they were when they were opened.
    func check() throws(TransferError) {
        for case .file(let file) in pieces { try file.checkUnchanged() }
    }

    /// Calls `body` on a file thread once the whole subject is hashed, or at once when it is.
    func whenHashed(_ body: @escaping @Sendable (DigestTail?) -> Void) {
        guard let tail else {
            body(nil)
            return
        }
        tail.finish(at: subjectByteCount, then: .run { body(tail) })
    }
}

/// A regular file that is being sent: its size is fixed when it is opened.
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

    /// Throws unless it has the size and the time of change that it had when it was opened.
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
