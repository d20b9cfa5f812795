import FerryCore
import Glibc
import OpenSSL
import Sys

/// What a file is known again by as long as nobody touches it: whoever writes into it, or puts another one in
/// its place, leaves another of these.
struct FileStamp: Hashable, Sendable {
    let byteCount: Int64
    private let device: UInt64
    private let inode: UInt64
    private let modified: Int64
    /// Nanoseconds since 1970, of the last change of anything about it (stat(2), `st_ctim`).
    let changed: Int64

    init(_ status: stat) {
        /// Those before 1677 and after 2262 are told apart from others, not ordered.
        func nanoseconds(_ time: timespec) -> Int64 {
            Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
        }
        byteCount = Int64(status.st_size)
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        modified = nanoseconds(status.st_mtim)
        changed = nanoseconds(status.st_ctim)
    }

    /// Nil when the file system does not say.
    init?(_ descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }
}

/// The SHA-256 of an open file, computed a slice at a time. One thread at a time.
final class FileFingerprint {
    enum Step: Equatable {
        case more
        /// In hexadecimal. `lasts`: the file's stamp stands for these bytes from now on; not while it was
        /// changed so short a time ago that another change might leave the same stamp.
        case digest(String, lasts: Bool)
        /// It was changed meanwhile, or cannot be read.
        case failed
    }

    /// Bytes of one step, and of one read.
    static let sliceByteCount = 16 << 20
    private static let readByteCount = 1 << 20
    /// Nanoseconds: many times what the clocks of file systems jump by.
    private static let settledAfter: Int64 = 1_000_000_000

    let stamp: FileStamp
    private let descriptor: Int32
    private let beganAt: Int64
    private var digest = Digest(.sha256)
    private var offset: Int64 = 0

    /// Bytes that were read until now.
    var byteCount: Int64 { offset }

    /// Of a file that the caller keeps open. `now`: nanoseconds since 1970.
    init(_ stamp: FileStamp, _ descriptor: Int32, now: Int64 = wallMicroseconds() * 1_000) {
        self.stamp = stamp
        beganAt = now
        self.descriptor = descriptor
    }

    func step() -> Step {
        let end = min(stamp.byteCount, offset + Int64(Self.sliceByteCount))
        return withUnsafeTemporaryAllocation(byteCount: Self.readByteCount, alignment: 64) { buffer in
            while offset < end {
                let wanted = Int(min(end - offset, Int64(buffer.count)))
                let count = pread(descriptor, buffer.baseAddress, wanted, off_t(offset))
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return .failed }
                digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                offset += Int64(count)
            }
            guard offset == stamp.byteCount else { return .more }
            guard FileStamp(descriptor) == stamp else { return .failed }
            return .digest(
                hexEncoded(digest.finish()), lasts: stamp.changed < beganAt - Self.settledAfter)
        }
    }
}
