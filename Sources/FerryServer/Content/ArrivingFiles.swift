import FerryAPI
import FerryCore
import FerryEngine

/// The files of the jobs that this node's engine runs. `engine`: `nil` on a node that runs no jobs.
struct ArrivingFiles: ArrivingContent {
    let engine: Engine?

    func follow(_ job: JobID, changed: @escaping @Sendable () -> Void) {
        engine?.follow(job, changed: changed)
    }
    func unfollow(_ job: JobID) { engine?.unfollow(job) }
    func isRunning(_ job: JobID) -> Bool { engine?.progress(of: job) != nil }
    func content(of job: JobID) -> (any FollowedContent)? { engine?.followedFile(of: job) }
}

extension FollowedFile: FollowedContent {
    var key: FollowedContentKey? { FollowedContentKey(device: device, inode: inode) }
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        readBytes(into: buffer, at: offset).map { .bytes($0) } ?? .failed
    }
    /// A read below `byteCount` always finds bytes.
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }
}
