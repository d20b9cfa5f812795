import CSys
import Glibc

func makeEventDescriptor() -> Int32 {
    eventfd(0, Int32(EFD_NONBLOCK) | Int32(EFD_CLOEXEC))
}

/// Returns nanoseconds of a clock that never jumps and counts suspended time (CLOCK_BOOTTIME).
public func monotonicNanoseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_BOOTTIME, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}

/// Returns microseconds since 1970-01-01 UTC (CLOCK_REALTIME).
public func wallMicroseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000
}

/// Sets how much freed memory the process keeps instead of returning it to the kernel (mallopt(3)).
/// `perHeap`: bytes at the end of each heap. `mappedFrom`: size in bytes from which an allocation is mapped
/// on its own and unmapped when it is freed. Call once, before other threads start.
public func keepFreedMemory(perHeap byteCount: Int32, mappedFrom pieceByteCount: Int32) {
    mallopt(M_TRIM_THRESHOLD, byteCount)
    mallopt(M_MMAP_THRESHOLD, pieceByteCount)
}

/// Returns the size of an open file from the kernel's cache, by which reads go as well, or `nil` if it is not
/// known. Never waits for a file server.
public func knownSize(of descriptor: Int32) -> Int64? {
    let size = csys_known_size(descriptor)
    return size < 0 ? nil : size
}

/// A failed kernel call.
public struct SystemError: Error, Sendable, CustomStringConvertible {
    /// Name of the call, with its path if it has one.
    public let call: String
    /// Value of errno.
    public let code: Int32
    /// Creates an error from the current errno. Call it directly after the failed call.
    public init(_ call: String) { self.init(call, errno) }
    /// Creates an error from a value of errno.
    public init(_ call: String, _ code: Int32) {
        self.call = call
        self.code = code
    }
    /// Text of strerror(3) after the name of the call.
    public var description: String { "\(call): \(String(cString: strerror(code)))" }
}
