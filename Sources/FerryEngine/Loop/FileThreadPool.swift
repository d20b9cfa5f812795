import Curl
import Glibc
import Synchronization
import Sys

/// Work for a file thread.
enum FileWork: Sendable {
    case publish(Publication)
    case digest(DigestTail)
    /// Short work that touches the disk, such as removing files or preparing an attempt.
    case run(@Sendable () -> Void)
}

/// The file threads. Everything that may wait for a disk runs here, never on a loop. Each thread takes all
/// work that has gathered for it, so that publications share their directory's sync.
final class FileThreadPool: Sendable {
    /// The queue of one thread, and when its current work began.
    private final class Worker: Sendable {
        let box = Mailbox<FileWork>()
        /// Start of the current work in monotonic nanoseconds; 0 while idle.
        let busySince = Atomic<Int64>(0)

        func busyNanoseconds(_ now: Int64) -> Int64 {
            let since = busySince.load(ordering: .relaxed)
            return since == 0 ? 0 : max(0, now - since)
        }
    }

    private let workers: [Worker]
    private let threads: Mutex<[Thread]>
    /// The indices of threads that have ended.
    private let ended: Mailbox<Int>
    private let next = Atomic<Int>(0)
    private let clock: @Sendable () -> Int64

    /// `clock`: monotonic nanoseconds.
    init(threadCount: Int, clock: @escaping @Sendable () -> Int64 = monotonicNanoseconds) {
        self.clock = clock
        let workers = (0..<max(1, threadCount)).map { _ in Worker() }
        self.workers = workers
        let ended = Mailbox<Int>()
        self.ended = ended
        threads = Mutex(
            workers.enumerated().map { index, worker in
                Thread(name: "ferry-file-\(index)") {
                    FileThreadPool.run(worker, clock)
                    ended.send(index)
                }
            })
    }

    /// Queues work; dropped after `stop()`. Does not wait. The number of running attempts bounds the queues.
    /// Any thread.
    func send(_ work: FileWork) { worker(for: work, clock()).box.send(work) }

    /// Chooses a thread: work does not wait behind a large file's sync or a disk that hangs while another
    /// thread is free.
    private func worker(for work: FileWork, _ now: Int64) -> Worker {
        let isFree = { (worker: Worker) in worker.busyNanoseconds(now) < Self.longWork }
        // Publications go to few threads, because those that gather are synced together and a wake-up costs
        // more than a small file. If a thread's queue is long, the next thread gets them.
        if case .publish = work {
            let short = { (worker: Worker) in worker.box.count < Self.crowdMax }
            if let worker = workers.first(where: { short($0) && isFree($0) }) ?? workers.first(where: short) {
                return worker
            }
        }
        let first = Int(next.wrappingAdd(1, ordering: .relaxed).oldValue.magnitude % UInt(workers.count))
        return workers[first...].first(where: isFree) ?? workers[..<first].first(where: isFree)
            ?? workers[first]
    }

    /// Longest time, in nanoseconds, that a thread has been at the same work. `now`: monotonic nanoseconds.
    /// Any thread.
    func busyNanoseconds(_ now: Int64) -> Int64 { workers.map { $0.busyNanoseconds(now) }.max() ?? 0 }

    /// Whether a thread has been at the same work for so long that its disk may not answer. `now`: monotonic
    /// nanoseconds. Any thread.
    func isSlow(_ now: Int64) -> Bool { workers.contains { $0.busyNanoseconds(now) >= Self.longWork } }

    private static let gatherMicroseconds = 300

    /// Publications that wait for one thread before another one is used.
    private static let crowdMax = 8

    /// Nanoseconds after which a thread's work counts as long.
    private static let longWork: Int64 = 250_000_000

    /// Finishes the queued work and ends the threads. Returns how many had not ended after so many seconds:
    /// threads that a disk blocks end with the process. A second call does nothing.
    @discardableResult
    func stop(seconds: Double = 5) -> Int {
        workers.forEach { $0.box.close() }
        let ending = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        let deadline = monotonicNanoseconds() + Int64(seconds * 1e9)
        var count = ending.count
        while count > 0 {
            let left = max(0, deadline - monotonicNanoseconds())
            let came = ended.wait(milliseconds: Int32((left + 999_999) / 1_000_000))
            for index in came { ending[index].join() }
            count -= came.count
            if left == 0 { break }
        }
        return count
    }

    private static func run(_ worker: Worker, _ clock: () -> Int64) {
        let box = worker.box
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 4_096)
        defer { buffer.deallocate() }
        // If several publications came at once, more will follow: waiting shortly lets them share syncs,
        // directories and wake-ups.
        var isBusy = false
        while true {
            let isLast = box.isClosed
            let work = box.gather(
                milliseconds: isLast ? 0 : -1, expected: isBusy ? crowdMax : 0,
                microseconds: gatherMicroseconds)
            isBusy = work.count > 1
            if !work.isEmpty { worker.busySince.store(clock(), ordering: .relaxed) }
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
            worker.busySince.store(0, ordering: .relaxed)
            if isLast, work.isEmpty { return }
        }
    }
}
