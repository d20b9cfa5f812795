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
final class FileThreadPool: Sendable {
    /// One thread's place: what waits for it, and since when it has been at what it took last.
    private final class Desk: Sendable {
        let box = Mailbox<FileWork>()
        /// Monotonic nanoseconds; 0: it waits for work.
        let busySince = Atomic<Int64>(0)

        func busyNanoseconds(_ now: Int64) -> Int64 {
            let since = busySince.load(ordering: .relaxed)
            return since == 0 ? 0 : max(0, now - since)
        }
    }

    private let desks: [Desk]
    private let threads: Mutex<[Thread]>
    /// The indices of those that have come to their end.
    private let ended: Mailbox<Int>
    private let next = Atomic<Int>(0)
    private let clock: @Sendable () -> Int64

    /// `clock`: monotonic nanoseconds.
    init(threadCount: Int, clock: @escaping @Sendable () -> Int64 = monotonicNanoseconds) {
        self.clock = clock
        let desks = (0..<max(1, threadCount)).map { _ in Desk() }
        self.desks = desks
        let ended = Mailbox<Int>()
        self.ended = ended
        threads = Mutex(
            desks.enumerated().map { index, desk in
                Thread(name: "ferry-file-\(index)") {
                    FileThreadPool.run(desk, clock)
                    ended.send(index)
                }
            })
    }

    /// Any thread, never waits. Bounded by the attempts that are alive. Dropped after `stop()`.
    func send(_ work: FileWork) { desk(for: work, clock()).box.send(work) }

    /// Nobody queues behind a large file's sync, or a disk that hangs, while another thread has time.
    private func desk(for work: FileWork, _ now: Int64) -> Desk {
        let isFree = { (desk: Desk) in desk.busyNanoseconds(now) < Self.longWork }
        // Publications crowd on few threads, because what gathers is synced together and a wake-up costs more
        // than a small file; whoever has a queue sheds to the next.
        if case .publish = work {
            let short = { (desk: Desk) in desk.box.count < Self.crowdMax }
            if let desk = desks.first(where: { short($0) && isFree($0) }) ?? desks.first(where: short) {
                return desk
            }
        }
        let first = Int(next.wrappingAdd(1, ordering: .relaxed).oldValue.magnitude % UInt(desks.count))
        return desks[first...].first(where: isFree) ?? desks[..<first].first(where: isFree) ?? desks[first]
    }

    /// Nanoseconds for which the thread that has been busy for longest has been at what it took last; `now`
    /// in monotonic ones. Any thread.
    func busyNanoseconds(_ now: Int64) -> Int64 { desks.map { $0.busyNanoseconds(now) }.max() ?? 0 }

    private static let gatherMicroseconds = 300

    /// Publications that wait for one thread before another one is woken.
    private static let crowdMax = 8

    /// Nanoseconds after which a thread is not expected back soon.
    private static let longWork: Int64 = 250_000_000

    /// Finishes what was sent and ends the threads. Returns how many had not come to their end after so many
    /// seconds: what a disk holds up ends with the process. Twice is once.
    @discardableResult
    func stop(seconds: Double = 5) -> Int {
        desks.forEach { $0.box.close() }
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

    private static func run(_ desk: Desk, _ clock: () -> Int64) {
        let box = desk.box
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
            if !work.isEmpty { desk.busySince.store(clock(), ordering: .relaxed) }
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
            desk.busySince.store(0, ordering: .relaxed)
            if isLast, work.isEmpty { return }
        }
    }
}
