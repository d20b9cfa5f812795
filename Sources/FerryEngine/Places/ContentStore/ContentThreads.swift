import Synchronization
import Sys

/// Threads for work that waits for the content store. Work goes to the thread that has least of it. Any
/// thread.
final class ContentThreads: Sendable {
    private final class Worker: Sendable {
        let box = Mailbox<@Sendable () -> Void>()
        /// Work that has not ended.
        let count = Atomic<Int>(0)
    }

    private let workers: [Worker]
    private let threads: [Thread]

    /// Starts the threads. `name`: at most 13 bytes.
    init(name: String, count: Int) {
        let workers = (0..<count).map { _ in Worker() }
        self.workers = workers
        threads = workers.enumerated().map { index, worker in
            Thread(name: "\(name)-\(index)") {
                while true {
                    for work in worker.box.wait(milliseconds: -1) {
                        work()
                        worker.count.subtract(1, ordering: .relaxed)
                    }
                    if worker.box.isClosed, worker.box.count == 0 { return }
                }
            }
        }
    }

    /// Does work, which may block. Returns `false`, and drops the work, after `stop`.
    @discardableResult
    func run(_ work: @escaping @Sendable () -> Void) -> Bool {
        let counted = workers.map { ($0, $0.count.load(ordering: .relaxed)) }
        guard let worker = counted.min(by: { $0.1 < $1.1 })?.0 else { return false }
        worker.count.add(1, ordering: .relaxed)
        return worker.box.send(work)
    }

    /// Does the work that waits, and ends the threads.
    func stop() {
        for worker in workers { worker.box.close() }
        for thread in threads { thread.join() }
    }
}
