import Curl
import Glibc
import Synchronization
import Sys

/// What file threads do.
enum FileWork: Sendable {
    case publish(Publication)
    case digest(DigestTail)
    /// Short things that touch the disk: removing files, preparing an attempt.
    case run(@Sendable () -> Void)
}

/// The file threads: everything that may wait for a disk happens here, never on a loop. Each takes whatever
/// has gathered for it, so publications share their directory's sync.
final class FileLane: Sendable {
    private let boxes: [Mailbox<FileWork>]
    private let threads: Mutex<[Thread]>
    private let next = Atomic<Int>(0)

    init(threadCount: Int) {
        let boxes = (0..<max(1, threadCount)).map { _ in Mailbox<FileWork>() }
        self.boxes = boxes
        threads = Mutex(
            boxes.enumerated().map { index, box in
                Thread(name: "ferry-file-\(index)") { FileLane.run(box) }
            })
    }

    /// Any thread, never waits. Bounded by the attempts that are alive. Dropped after `stop()`.
    func send(_ work: FileWork) {
        // Publications crowd on few threads, because what gathers is synced together and a wake-up costs more
        // than a small file; whoever has a queue sheds to the next.
        if case .publish = work, let box = boxes.first(where: { $0.count < Self.crowdMax }) {
            box.send(work)
            return
        }
        let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
        boxes[Int(index.magnitude % UInt(boxes.count))].send(work)
    }

    private static let gatherMicroseconds = 300

    /// Publications that wait for one thread before another one is woken.
    private static let crowdMax = 8

    /// Finishes what was sent and ends the threads. Twice is once.
    func stop() {
        boxes.forEach { $0.close() }
        let ending = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        ending.forEach { $0.join() }
    }

    private static func run(_ box: Mailbox<FileWork>) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 4_096)
        defer { buffer.deallocate() }
        // Several came at once: more are on their way, and share syncs, directories and wake-ups.
        var isBusy = false
        while true {
            let isLast = box.isClosed
            let work = box.gather(
                milliseconds: isLast ? 0 : -1, expected: isBusy ? crowdMax : 0,
                microseconds: gatherMicroseconds)
            isBusy = work.count > 1
            var publications: [Publication] = []
            for one in work {
                switch one {
                case .publish(let publication): publications.append(publication)
                case .run(let body): body()
                case .digest: break
                }
            }
            if !publications.isEmpty { Publication.publish(publications) }
            // Last: a slice of a large file may take milliseconds.
            for case .digest(let tail) in work { tail.run(buffer) }
            if isLast, work.isEmpty { return }
        }
    }
}
