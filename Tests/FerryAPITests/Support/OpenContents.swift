import FerryAPI
import Glibc
import Synchronization

/// Content in a file.
final class ContentInFile: OpenContent {
    private let descriptor: Int32
    let byteCount: Int64
    let key: FollowedContentKey?

    /// `nil` if the file cannot be opened.
    init?(_ path: String) {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0 else { return nil }
        self.descriptor = descriptor
        byteCount = Int64(status.st_size)
        key = FollowedContentKey(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    }

    deinit { close(descriptor) }

    func file() -> Int32? { fcntl(descriptor, F_DUPFD_CLOEXEC, 0) }
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
        return count < 0 ? .failed : .bytes(count)
    }
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }
}

/// Content that is in no file here. Each byte is there only after a reader has waited for it.
final class DistantContent: OpenContent {
    private let bytes: [UInt8]
    /// Bytes that have come.
    private let count = Mutex(0)
    /// Number of bytes that can be read at all.
    private let readable: Int
    var key: FollowedContentKey? { nil }
    var byteCount: Int64 { Int64(bytes.count) }

    /// `readable`: bytes before the place fails; `nil` if it does not.
    init(_ bytes: [UInt8], readable: Int? = nil) {
        self.bytes = bytes
        self.readable = readable ?? bytes.count
    }

    func file() -> Int32? { nil }
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        guard offset < readable else { return .failed }
        guard offset < count.withLock({ $0 }) else { return .none }
        buffer[0] = bytes[Int(offset)]
        return .bytes(1)
    }
    func whenReadable(_ body: @escaping @Sendable () -> Void) {
        count.withLock { $0 += 1 }
        body()
    }
}
