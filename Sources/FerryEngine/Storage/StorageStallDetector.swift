import Synchronization
import Sys

/// Whether the disks answer at all. A network file system without its server, or a volume whose I/O stalls,
/// gives no error: whoever wants something of it waits. Once a file thread has been at the same work for a
/// while, a thread that nobody waits for writes a small file to each watched directory; how long that takes
/// tells a disk that hangs from a large file on its way. Any thread.
final class StorageStallDetector: Sendable {
    /// Nanoseconds.
    private let patience: Int64
    private let timeout: Int64
    private let syncs: Bool
    /// Monotonic nanoseconds since when the trial has had no answer; 0: none is on its way.
    private let askedAt = Atomic<Int64>(0)
    private let answeredAt = Atomic<Int64>(0)
    private let box = Mailbox<[String]>()
    private let thread = Mutex<Thread?>(nil)

    /// Its thread is there from the start: when a disk hangs the process may have no more.
    ///
    /// `timeout`: seconds for which a disk may leave everything unanswered. `syncs`: whether files are to be
    /// on stable storage.
    init(timeout: Double, syncs: Bool) {
        self.timeout = Int64(timeout * 1e9)
        patience = self.timeout / 12
        self.syncs = syncs
        let box = box
        let thread = Thread(name: "ferry-trial") { [weak self] in
            while true {
                let asked = box.wait(milliseconds: -1)
                if asked.isEmpty, box.isClosed { return }
                self?.perform(asked)
            }
        }
        self.thread.withLock { $0 = thread }
    }

    deinit { box.close() }

    /// Once a second. `busy`: nanoseconds for which a file thread has been at the same work; `directories`
    /// are tried when that is long.
    func look(_ now: Int64, busy: Int64, at directories: [String]) {
        guard busy >= patience, askedAt.load(ordering: .relaxed) == 0,
            now - answeredAt.load(ordering: .relaxed) >= patience
        else { return }
        askedAt.store(now, ordering: .relaxed)
        box.send(directories)
    }

    private func perform(_ asked: [[String]]) {
        for path in asked.joined() {
            // What it says besides is for those who write there to find out.
            _ = try? StorageDirectory.existing(path).writingTrial(syncs: syncs)
        }
        answeredAt.store(monotonicNanoseconds(), ordering: .relaxed)
        askedAt.store(0, ordering: .relaxed)
    }

    /// Nothing should be begun that needs the disk.
    func isSilent(_ now: Int64) -> Bool { silence(now) >= patience }

    /// What waits for the disk has waited for long enough; others may have one that answers.
    func isLost(_ now: Int64) -> Bool { silence(now) >= timeout - patience }

    private func silence(_ now: Int64) -> Int64 {
        let since = askedAt.load(ordering: .relaxed)
        return since == 0 ? 0 : now - since
    }

    /// The thread ends when it can; it is not waited for while it waits itself.
    func stop() {
        box.close()
        guard askedAt.load(ordering: .relaxed) == 0 else { return }
        thread.withLock { thread in
            thread?.join()
            thread = nil
        }
    }
}
