import Glibc
import Synchronization
import Sys

/// A PostgreSQL server that Ferry starts when no database is configured. Its files are in the data directory,
/// and it listens on a Unix socket only.
///
/// One thread owns the server while it runs and restarts it when it ends by itself. If Ferry is killed, the
/// end of that thread makes the kernel send the server its death signal.
package final class PrivatePostgres: Sendable {
    /// libpq URI. The role owns all objects and needs no password, because other users cannot enter the
    /// socket's directory.
    package let url: String
    private let stopping: EventDescriptor
    /// Closed when the thread is done.
    private let hasEnded: Mailbox<Never>
    private let thread: Mutex<Thread?>

    /// Longest duration in seconds of fast shutdown, immediate shutdown and kill (`PostgresOwner.shutDown`).
    private static let stopSeconds: Int64 = 20

    private init(url: String, stopping: EventDescriptor, hasEnded: Mailbox<Never>, thread: Thread) {
        self.url = url
        self.stopping = stopping
        self.hasEnded = hasEnded
        self.thread = Mutex(thread)
    }

    deinit { stopping.signal() }

    /// Starts the server and returns when it accepts connections. The first call creates the cluster, which
    /// takes about 0.6 s. Later starts take less than 0.1 s, and longer if the server recovers from a crash.
    ///
    /// `dataDirectory`: Ferry's data directory. `user`: the account that runs the server if Ferry runs as
    /// root. `notice` gets sentences for the operator, on the owning thread. Blocks. Throws if the directory
    /// is in use, cannot be reached or belongs to another major version.
    /// use, belongs to another major version or cannot be reached.
    package static func start(
        dataDirectory: String, user: String? = nil, notice: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(PrivatePostgresError) -> PrivatePostgres {
        let (stopping, hasEnded) = (EventDescriptor(), Mailbox<Never>())
        let replies = Mailbox<Result<String, PrivatePostgresError>>()
        let thread = Thread(name: "postgres-owner") {
            do throws(PrivatePostgresError) {
                let owner = try PostgresOwner(
                    dataDirectory: dataDirectory, user: user, stopping: stopping, notice: notice)
                try owner.launch()
                replies.send(.success(owner.url))
                owner.supervise()
            } catch { replies.send(.failure(error)) }
            hasEnded.close()
        }
        while true {
            guard let reply = replies.wait(milliseconds: -1).first else { continue }
            switch reply {
            case .success(let url):
                return PrivatePostgres(url: url, stopping: stopping, hasEnded: hasEnded, thread: thread)
            case .failure(let error):
                thread.join()
                throw error
            }
        }
    }

    /// Shuts the server down with a checkpoint and waits up to 20 s until it has ended. Closes open
    /// connections. Repeated calls wait for the same shutdown. Usable on any thread.
    package func stop() {
        stopping.signal()
        // The owning thread also writes the server's log, perhaps to a disk that does not respond.
        let deadline = monotonicNanoseconds() + Self.stopSeconds * 1_000_000_000
        while !hasEnded.isClosed {
            let left = deadline - monotonicNanoseconds()
            guard left > 0 else { return }
            _ = hasEnded.wait(milliseconds: Int32(left / 1_000_000 + 1))
        }
        thread.withLock { thread in
            thread?.join()
            thread = nil
        }
    }
}
