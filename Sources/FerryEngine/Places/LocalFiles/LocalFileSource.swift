import FerryCore
import Glibc

/// A regular file that is sent. Its size is fixed when it is opened.
final class LocalFileSource: ByteSource {
    private let descriptor: Int32
    let size: Int64
    private let file: FileIdentity
    private let isManaged: Bool
    private let modified: timespec

    /// `isManaged`: only Ferry writes to the directory.
    init(_ path: String, below root: StorageDirectory, isManaged: Bool) throws(TransferError) {
        let (descriptor, status) = try root.regularFile(path)
        self.descriptor = descriptor
        self.isManaged = isManaged
        size = Int64(status.st_size)
        file = FileIdentity(status)
        modified = status.st_mtim
    }

    deinit { close(descriptor) }

    var byteCount: Int64? { size }
    var rereadableFrom: Int64? { 0 }
    var hashable: DigestTail.Bytes? { bytes }
    /// The file, for a file thread that hashes it.
    var bytes: DigestTail.Bytes { DigestTail.Bytes(descriptor: descriptor, owner: self, isWritten: false) }

    var identity: String? { file.text }

    func isKnown(as content: JobContent) -> Bool { isManaged || content.file == file }

    private static let unreadable = TransferError(
        .storageFailed, "The source's file could not be read.", phase: .sending, isRetryable: true)

    /// Throws unless the file has the size and modification time that it had when it was opened.
    func checkUnchanged() throws(TransferError) {
        var now = stat()
        guard fstat(descriptor, &now) == 0 else { throw Self.unreadable }
        guard Int64(now.st_size) == size, now.st_mtim.tv_sec == modified.tv_sec,
            now.st_mtim.tv_nsec == modified.tv_nsec
        else { throw .sourceChanged }
    }

    func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(TransferError) -> ByteRead {
        let wanted = Int(min(Int64(buffer.count), max(0, size - offset)))
        var done = 0
        while done < wanted {
            let count = pread(
                descriptor, buffer.baseAddress.map { $0 + done }, wanted - done, off_t(offset) + done)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.unreadable }
            guard count > 0 else { throw .sourceChanged }
            done += count
        }
        return .bytes(done)
    }

    /// All bytes are there: a read never finds none.
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }
}

extension TransferError {
    /// A source names no file that can be read.
    static let sourceMissing = TransferError(
        .sourceNotFound, "There is no readable file at the source's path.", phase: .sending,
        isRetryable: false)
}
