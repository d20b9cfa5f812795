import Synchronization
import Sys

/// Detects disks that do not answer at all. A network file system without its server, or a volume whose I/O
/// stalls, returns no error: a thread that needs it waits. Once a file thread has been at the same work for a
/// while, a separate thread writes a small file to each watched directory. How long that takes tells a disk
/// that hangs from a large file that takes long. Any thread.
final class StorageStallDetector: Sendable {
    /// Nanoseconds for which one piece of work may take before the disks are tried.
    private let stallMin: Int64
    private let timeout: Int64
    private let syncs: Bool
    /// Start of the trial that has not ended, in monotonic nanoseconds; 0 if none runs.
    private let askedAt = Atomic<Int64>(0)
    private let answeredAt = Atomic<Int64>(0)
    private let box = Mailbox<[String]>()
    private let thread = Mutex<Thread?>(nil)

    /// Starts the thread of the trials: when a disk hangs, the process may not get another thread.
    ///
    /// `timeout`: seconds after which a disk that does not answer counts as lost. `syncs`: whether files are
    /// to be on stable storage.
    init(timeout: Double, syncs: Bool) {
        self.timeout = Int64(timeout * 1e9)
        stallMin = self.timeout / 12
        self.syncs = syncs
        let box = box
        let thread = Thread(name: "storage-check") { [weak self] in
            while true {
                let asked = box.wait(milliseconds: -1)
                if asked.isEmpty, box.isClosed { return }
                self?.perform(asked)
            }
        }
        self.thread.withLock { $0 = thread }
    }

    deinit { box.close() }

    /// Called once a second. `busy`: nanoseconds for which a file thread has been at the same work; if that
    /// is long, a trial of `directories` begins. `now`: monotonic nanoseconds.
    func check(_ now: Int64, busy: Int64, at directories: [String]) {
        guard busy >= stallMin, askedAt.load(ordering: .relaxed) == 0,
            now - answeredAt.load(ordering: .relaxed) >= stallMin
        else { return }
        askedAt.store(now, ordering: .relaxed)
        box.send(directories)
    }

    private func perform(_ asked: [[String]]) {
        for path in asked.joined() {
            // Only the time counts. Errors are found by the transfers that write there.
            _ = try? StorageDirectory.existing(path).writingTrial(syncs: syncs)
        }
        answeredAt.store(monotonicNanoseconds(), ordering: .relaxed)
        askedAt.store(0, ordering: .relaxed)
    }

    /// `true` while a disk hangs, so that nothing that needs it should begin.
    func isStalled(_ now: Int64) -> Bool { stallTime(now) >= stallMin }

    /// `true` once a disk has hung for so long that attempts which wait for it are given up: another node may
    /// have a disk that answers.
    func isLost(_ now: Int64) -> Bool { stallTime(now) >= timeout - stallMin }

    private func stallTime(_ now: Int64) -> Int64 {
        let since = askedAt.load(ordering: .relaxed)
        return since == 0 ? 0 : now - since
    }

    /// Ends the thread. Waits for its end, but not while a trial runs: that may wait for a disk forever.
    func stop() {
        box.close()
        guard askedAt.load(ordering: .relaxed) == 0 else { return }
        thread.withLock { thread in
            thread?.join()
            thread = nil
        }
    }
}
