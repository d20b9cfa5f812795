internal import Sys

/// A thread for what takes milliseconds to parse, so that the server's threads keep answering.
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

    /// Runs it soon; bounded by the connections that wait for its answer. Runs it at once after `stop`.
    func run(_ work: @escaping @Sendable () -> Void) {
        if !mailbox.send(work) { work() }
    }

    /// Ends the thread once it has done what was sent. Harmless when called twice.
    func stop() { mailbox.close() }

    deinit { stop() }
}
