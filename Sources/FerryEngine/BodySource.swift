import Curl
import FerryCore
import Glibc

/// The bytes that an attempt sends. Loop thread only.
final class BodySource {
    private enum Bytes {
        case memory([UInt8])
        case file(SourceFile)
    }

    let byteCount: Int64
    private let bytes: Bytes
    let digests: Digests
    private(set) var sent: Int64 = 0
    private let makeTail: (SourceFile, Digests) -> DigestTail
    private var tail: DigestTail?

    /// `makeTail` gives a large file's digest to the file threads.
    init(payload: [UInt8], digests: Digests) {
        bytes = .memory(payload)
        byteCount = Int64(payload.count)
        self.digests = digests
        makeTail = { _, _ in preconditionFailure("a payload is hashed where it is") }
    }

    init(file: SourceFile, digests: Digests, makeTail: @escaping (SourceFile, Digests) -> DigestTail) {
        bytes = .file(file)
        byteCount = file.byteCount
        self.digests = digests
        self.makeTail = makeTail
        if file.byteCount > EngineLimits.inlineDigestByteCountMax { tail = makeTail(file, digests) }
    }

    /// Fills the buffer as far as there are bytes; 0 is the end. Throws `source_changed` when the file has
    /// shrunk.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(TransferError) -> Int {
        let count = Int(min(Int64(buffer.count), byteCount - sent))
        guard count > 0 else { return 0 }
        switch bytes {
        case .memory(let payload):
            let start = Int(sent)
            buffer.copyBytes(from: payload[start..<(start + count)])
        case .file(let file):
            try file.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: sent)
        }
        sent += Int64(count)
        if let tail {
            tail.advance(to: sent)
        } else {
            digests.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        }
        return count
    }

    /// From the beginning again. What a file thread has hashed stays hashed: the file has not changed, or the
    /// end will say so.
    func rewind() {
        sent = 0
        if tail == nil { digests.reset() }
    }

    /// Whether everything was sent, unchanged.
    func check() throws(TransferError) {
        if case .file(let file) = bytes, !file.isUnchanged { throw SourceFile.changed }
    }

    /// Calls `body` on a file thread once everything that was sent is hashed, or at once when it is.
    func whenHashed(_ lane: FileLane, _ body: @escaping @Sendable (DigestTail?) -> Void) {
        guard let tail else {
            body(nil)
            return
        }
        tail.finish(at: sent, then: .run { body(tail) })
    }
}

/// A regular file that is being sent: its size is fixed when it is opened.
final class SourceFile: Sendable {
    let descriptor: Int32
    let byteCount: Int64
    private let modified: timespec

    init(_ path: String, below root: StorageDirectory) throws(TransferError) {
        let (descriptor, status) = try root.regularFile(path)
        self.descriptor = descriptor
        byteCount = Int64(status.st_size)
        modified = status.st_mtim
    }

    deinit { close(descriptor) }

    static let changed = TransferError(
        .sourceChanged, "The source's file changed while it was sent.", phase: .sending, isRetryable: true)

    /// Same size and time of change as when it was opened.
    var isUnchanged: Bool {
        var now = stat()
        guard fstat(descriptor, &now) == 0 else { return false }
        return Int64(now.st_size) == byteCount && now.st_mtim.tv_sec == modified.tv_sec
            && now.st_mtim.tv_nsec == modified.tv_nsec
    }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(TransferError) {
        var done = 0
        while done < buffer.count {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + done }, buffer.count - done, off_t(offset) + done)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                throw TransferError(
                    .storageFailed, "The source's file could not be read.", phase: .sending, isRetryable: true
                )
            }
            guard count > 0 else { throw Self.changed }
            done += count
        }
    }
}
