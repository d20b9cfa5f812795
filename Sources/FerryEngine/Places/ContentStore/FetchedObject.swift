import FerryCore
import Glibc

/// A content of the content store that was copied to a file without a name, as a source.
final class FetchedObject: ByteSource {
    private let file: ClaimedFile
    private let key: String
    private let size: Int64

    init(_ file: ClaimedFile, key: String, byteCount: Int64) {
        self.file = file
        self.key = key
        size = byteCount
    }

    var byteCount: Int64? { size }
    var rereadableFrom: Int64? { 0 }
    var hashable: DigestTail.Bytes? {
        DigestTail.Bytes(descriptor: file.descriptor, owner: self, isWritten: false)
    }
    /// No two contents have the same key.
    var identity: String? { key }
    func isKnown(as content: JobContent) -> Bool { true }
    /// Only this object has the file.
    func checkUnchanged() throws(TransferError) {}

    func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(TransferError) -> ByteRead {
        let wanted = Int(min(Int64(buffer.count), max(0, size - offset)))
        guard wanted > 0 else { return .bytes(0) }
        while true {
            let count = pread(file.descriptor, buffer.baseAddress, wanted, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw storageError(count < 0 ? errno : EIO) }
            return .bytes(count)
        }
    }

    /// All bytes are there: a read never finds none.
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }
}
