package import FerryCore
import Glibc
import Synchronization
import Sys

/// The bytes of a partial file from byte 0 on without a gap, for readers that follow a download. Any thread.
///
/// Has a descriptor of its own: readers neither keep the lock of the partial file nor need its name.
package final class FollowedFile: Sendable {
    /// Identity of the file, whatever its name (stat(2)). No other file has it while this object exists.
    package let device: UInt64
    package let inode: UInt64
    private let descriptor: Int32
    private let written: Atomic<Int64>
    /// Whether a reader waits for more bytes.
    private let isAwaited = Atomic<Bool>(false)
    /// Called once for all readers that wait, on the thread that writes.
    private let changed: @Sendable () -> Void

    /// Takes over an open descriptor. `byteCount`: bytes that can be read. `changed` must not block. Returns
    /// `nil` and closes the descriptor if the file has no identity.
    package init?(
        owning descriptor: Int32, byteCount: Int64, changed: @escaping @Sendable () -> Void = {}
    ) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else {
            close(descriptor)
            return nil
        }
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        self.descriptor = descriptor
        self.changed = changed
        written = Atomic(byteCount)
    }

    deinit { close(descriptor) }

    /// Bytes that can be read from byte 0 on.
    package var byteCount: Int64 { written.load(ordering: .sequentiallyConsistent) }

    /// Reads bytes from `offset` on. Returns their number, 0 at the end of the file, or `nil` after an error.
    package func readBytes(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int? {
        while true {
            let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            if count >= 0 { return count }
            if errno != EINTR { return nil }
        }
    }

    /// Asks for a call of `changed` when there are more bytes than `byteCount`. Returns `false` if there are
    /// more already.
    package func awaitBytes(after byteCount: Int64) -> Bool {
        isAwaited.store(true, ordering: .sequentiallyConsistent)
        return self.byteCount <= byteCount
    }

    /// Notes that more bytes can be read.
    func advance(to byteCount: Int64) {
        written.max(byteCount, ordering: .sequentiallyConsistent)
        guard isAwaited.load(ordering: .sequentiallyConsistent),
            isAwaited.exchange(false, ordering: .sequentiallyConsistent)
        else { return }
        changed()
    }
}

/// The jobs whose content readers of this node follow, running or not. Any thread.
final class FollowedJobs: Sendable {
    private let count = Atomic<Int>(0)
    private let observers = Mutex<[JobID: Callback]>([:])

    /// Calls `changed` when further bytes of the job can be read. It must not block.
    func add(_ job: JobID, changed: @escaping @Sendable () -> Void) {
        let callback = Callback(changed)
        observers.withLock { observers in
            observers[job] = callback
            count.store(observers.count, ordering: .sequentiallyConsistent)
        }
    }

    func remove(_ job: JobID) {
        observers.withLock { observers in
            observers[job] = nil
            count.store(observers.count, ordering: .sequentiallyConsistent)
        }
    }

    func contains(_ job: JobID) -> Bool {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return false }
        return observers.withLock { $0[job] != nil }
    }

    /// Calls the observer of the job, if it has one.
    func changed(_ job: JobID) {
        guard count.load(ordering: .sequentiallyConsistent) > 0 else { return }
        observers.withLock { $0[job] }?()
    }
}

/// Shows the file of one attempt to readers that follow its job.
struct FollowableContent: Sendable {
    let job: JobID
    let progress: ProgressMeter
    let followers: FollowedJobs

    /// Whether readers follow the job: its bytes go to a file then, however few they are.
    var isFollowed: Bool { followers.contains(job) }

    /// The bytes of the attempt are in this file from now on.
    func show(_ file: PartialFile) {
        progress.show(file)
        followers.changed(job)
    }
}

extension Engine {
    /// Calls `changed` when more of the job's content can be read, or another file has it. It is called on a
    /// thread of the engine and must not block. A job has one observer; it need not run here.
    package func follow(_ job: JobID, changed: @escaping @Sendable () -> Void) {
        context.followers.add(job, changed: changed)
    }

    /// Ends `follow`.
    package func unfollow(_ job: JobID) { context.followers.remove(job) }

    /// Returns the file with the bytes of the job's running attempt; `nil` if it has none or no attempt runs
    /// here. Opens a descriptor: not for threads that must not block.
    package func followedFile(of job: JobID) -> FollowedFile? {
        context.registry[job]?.progress.file?.follow { [followers = context.followers] in
            followers.changed(job)
        }
    }
}
