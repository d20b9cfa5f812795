import Glibc
import Synchronization
import Sys

/// A PostgreSQL of Ferry's own, for those who have none: below the data directory, on a Unix socket only.
///
/// A thread owns the server for as long as it runs, starts it again when it ends by itself, and is the one
/// whose end (when Ferry is killed) makes the kernel tell the server to shut down.
package final class PrivatePostgres: Sendable {
    /// A libpq URI; the role owns everything and needs no password, the directory is closed to others.
    package let url: String
    private let ending: EventDescriptor
    /// Closed once the thread has nothing left to do.
    private let ended: Mailbox<Never>
    private let thread: Mutex<Thread?>

    /// What fast and immediate shutdown and the kill may take (`PostgresOwner.shutDown`).
    private static let stopSeconds: Int64 = 20

    private init(url: String, ending: EventDescriptor, ended: Mailbox<Never>, thread: Thread) {
        self.url = url
        self.ending = ending
        self.ended = ended
        self.thread = Mutex(thread)
    }

    deinit { ending.signal() }

    /// Creates the cluster at the first call, starts the server and returns when it accepts connections:
    /// about 0.6 s the first time, less than 0.1 s later, longer when it recovers from a crash.
    ///
    /// `dataDirectory` is Ferry's own; `user` names the account for the server when we are root. `notice`
    /// receives sentences for the operator, on the owning thread. Blocks; throws when the directory is in
    /// use, belongs to another major version or cannot be reached.
    package static func start(
        dataDirectory: String, user: String? = nil, notice: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(PrivatePostgresError) -> PrivatePostgres {
        let (ending, ended) = (EventDescriptor(), Mailbox<Never>())
        let answers = Mailbox<Result<String, PrivatePostgresError>>()
        let thread = Thread(name: "postgres-owner") {
            do throws(PrivatePostgresError) {
                let owner = try PostgresOwner(
                    dataDirectory: dataDirectory, user: user, ending: ending, notice: notice)
                try owner.launch()
                answers.send(.success(owner.url))
                owner.attend()
            } catch { answers.send(.failure(error)) }
            ended.close()
        }
        while true {
            guard let answer = answers.wait(milliseconds: -1).first else { continue }
            switch answer {
            case .success(let url):
                return PrivatePostgres(url: url, ending: ending, ended: ended, thread: thread)
            case .failure(let error):
                thread.join()
                throw error
            }
        }
    }

    /// Shuts the server down with a checkpoint and waits until it is gone, at most 20 s; open connections are
    /// cut. Later calls wait for the same. Any thread.
    package func stop() {
        ending.signal()
        // Its thread writes the server's log as well, perhaps to a disk that hangs.
        let deadline = monotonicNanoseconds() + Self.stopSeconds * 1_000_000_000
        while !ended.isClosed {
            let left = deadline - monotonicNanoseconds()
            guard left > 0 else { return }
            _ = ended.wait(milliseconds: Int32(left / 1_000_000 + 1))
        }
        thread.withLock { thread in
            thread?.join()
            thread = nil
        }
    }
}
