import CSys
import Glibc

func makeEventDescriptor() -> Int32 {
    eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
}

/// Nanoseconds on a clock that never jumps and counts suspended time (CLOCK_BOOTTIME).
package func monotonicNanoseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// Microseconds since 1970 on the wall clock.
package func wallMicroseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
}

/// How much freed memory stays with the process (mallopt(3)), instead of going back to the kernel and coming
/// again page by page. `perHeap`: bytes at the end of each of malloc's heaps; `mappedFrom`: bytes from which
/// a piece is mapped by itself, and unmapped when it is freed. Once, before there are threads.
package func keepFreedMemory(perHeap byteCount: Int32, mappedFrom pieceByteCount: Int32) {
    mallopt(M_TRIM_THRESHOLD, byteCount)
    mallopt(M_MMAP_THRESHOLD, pieceByteCount)
}

/// The size of an open file as the kernel knows it, which is what its reads go by; nil when it does not say.
/// Never waits for a file server.
package func knownSize(of descriptor: Int32) -> Int64? {
    let size = csys_known_size(descriptor)
    return size < 0 ? nil : size
}

/// A failed kernel call: its name and errno.
package struct SystemError: Error, Sendable, CustomStringConvertible {
    package let call: String
    package let code: Int32
    package init(_ call: String, _ code: Int32 = errno) {
        self.call = call
        self.code = code
    }
    /// The kernel's words (strerror(3)).
    package var description: String { "\(call): \(String(cString: strerror(code)))" }
}
