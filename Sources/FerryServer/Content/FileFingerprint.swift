import FerryCore
import Glibc
import OpenSSL
import Sys

/// Identifies a file and its state. Writing to the file or replacing it changes the stamp.
struct FileStamp: Hashable, Sendable {
    let byteCount: Int64
    private let device: UInt64
    private let inode: UInt64
    private let modified: Int64
    /// Time of the last status change in nanoseconds since 1970 (`st_ctim`, stat(2)).
    let changed: Int64

    init(_ status: stat) {
        /// Times before 1677 and after 2262 are distinguished, but not in order.
        func nanoseconds(_ time: timespec) -> Int64 {
            Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
        }
        byteCount = Int64(status.st_size)
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        modified = nanoseconds(status.st_mtim)
        changed = nanoseconds(status.st_ctim)
    }

    /// `nil` if fstat(2) fails.
    init?(_ descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        self.init(status)
    }
}

/// SHA-256 of an open file, computed in slices. Used by one thread at a time.
final class FileFingerprint {
    enum Step: Equatable {
        case more
        /// The digest in hexadecimal. `isStable`: `true` if the stamp identifies these bytes from now on.
        /// `false` if the file was changed so recently that another change could leave the same stamp.
        case digest(String, isStable: Bool)
        /// The file was changed during the computation, or cannot be read.
        case failed
    }

    /// Bytes of one step, and of one read.
    static let sliceByteCount = 16 << 20
    private static let readByteCount = 1 << 20
    /// Nanoseconds: many times the resolution of file system timestamps.
    private static let stableAfter: Int64 = 1_000_000_000

    let stamp: FileStamp
    private let descriptor: Int32
    private let beganAt: Int64
    private var digest = Digest(.sha256)
    private var offset: Int64 = 0

    /// Bytes read so far.
    var byteCount: Int64 { offset }

    /// Begins the digest of a file that the caller keeps open. `now`: nanoseconds since 1970.
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
                hexEncoded(digest.finish()), isStable: stamp.changed < beganAt - Self.stableAfter)
        }
    }
}
