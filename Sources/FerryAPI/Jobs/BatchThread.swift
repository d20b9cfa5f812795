internal import FerryCore
internal import Sys

/// A thread for requests that take milliseconds to parse, so that they do not block the server's threads.
final class BatchThread: Sendable {
    private let mailbox = Mailbox<@Sendable () -> Void>()

    init() {
        let mailbox = mailbox
        _ = Thread(name: "ferry-batch") {
            while true {
                let work = mailbox.wait(milliseconds: -1)
                for run in work { run() }
                if work.isEmpty, mailbox.isClosed { return }
            }
        }
    }

    /// Queues `work`; after `stop`, runs it at once. The queue is bounded by the connections that wait for
    /// the responses.
    func run(_ work: @escaping @Sendable () -> Void) {
        if !mailbox.send(work) { work() }
    }

    /// Bytes of a request that is handled on the server's thread. They are about a hundred jobs, which take a
    /// millisecond; more would delay the other requests of that thread.
    private static let smallByteCountMax = 131_072

    /// Handles a request that may have many jobs: a large one on this thread, a small one at once.
    func run(
        _ request: RequestContext, _ work: @escaping @Sendable () throws(Problem) -> Void
    ) throws(Problem) {
        guard request.body.count > Self.smallByteCountMax else { return try work() }
        run { request.run(work) }
    }

    /// Ends the thread after the queued work. Idempotent.
    func stop() { mailbox.close() }

    deinit { stop() }
}
