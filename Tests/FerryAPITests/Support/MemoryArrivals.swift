import FerryAPI
import FerryCore
import Glibc
import Synchronization

/// Content of running jobs in memory.
final class MemoryArrivals: ArrivingContent {
    private struct State {
        var observers: [JobID: @Sendable () -> Void] = [:]
        var contents: [JobID: MemoryContent] = [:]
        var running: Set<JobID> = []
    }
    private let state = Mutex(State())

    var followedCount: Int { state.withLock { $0.observers.count } }

    func follow(_ job: JobID, changed: @escaping @Sendable () -> Void) {
        state.withLock { $0.observers[job] = changed }
    }
    func unfollow(_ job: JobID) { state.withLock { $0.observers[job] = nil } }
    func isRunning(_ job: JobID) -> Bool { state.withLock { $0.running.contains(job) } }
    func content(of job: JobID) -> (any FollowedContent)? { state.withLock { $0.contents[job] } }

    /// Sets the bytes of the job's running attempt; `nil` if none runs.
    func set(_ content: MemoryContent?, of job: JobID) {
        let observer = state.withLock { state in
            state.contents[job] = content
            return state.observers[job]
        }
        observer?()
    }
}

/// Bytes of a file that does not exist.
final class MemoryContent: FollowedContent {
    let key: FollowedContentKey?
    private let bytes: [UInt8]

    init(file: UInt64, _ bytes: [UInt8]) {
        key = FollowedContentKey(device: 0, inode: file)
        self.bytes = bytes
    }

    var byteCount: Int64 { Int64(bytes.count) }
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        let part = bytes[Int(offset)...].prefix(buffer.count)
        buffer.copyBytes(from: part)
        return .bytes(part.count)
    }
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }
    func awaitBytes(after byteCount: Int64) -> Bool { self.byteCount <= byteCount }
}
