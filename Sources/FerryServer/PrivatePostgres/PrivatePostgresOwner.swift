import FerryCore
import Glibc
import Postgres
import Sys

/// Owns the server process, the lock and the log. Used on one thread, from `init` to the end of `supervise`.
final class PostgresOwner {
    let url: String
    private let cluster: PostgresCluster
    private let programs: PostgresPrograms
    private let socketDirectory: String
    private let lock: Int32
    private let log: BoundedLog
    private let stopping: EventDescriptor
    private let notice: @Sendable (String) -> Void
    /// `nil` while no server runs.
    private var child: PostgresProcess?

    /// Milliseconds that a server may take to report that it starts, and from then on to accept connections.
    /// There is no limit while it recovers: ending a recovery would make it begin again.
    private static let startMillisecondsMax: Int64 = 120_000
    /// Milliseconds between notices about a slow start.
    private static let noticeMilliseconds: Int64 = 30_000

    /// Finds the programs and creates the cluster if there is none. Signalling `stopping` stops `supervise`.
    init(
        dataDirectory: String, user: String?, stopping: EventDescriptor,
        notice: @escaping @Sendable (String) -> Void
    ) throws(PrivatePostgresError) {
        var cluster = try PostgresCluster.prepare(dataDirectory: dataDirectory, userName: user)
        let lock = try cluster.lock()
        do throws(PrivatePostgresError) {
            let version = try cluster.majorVersion
            programs = try PostgresPrograms.find(clusterVersion: version)
            if version == nil { try cluster.create(with: programs) }
            socketDirectory = try cluster.socketDirectory()
        } catch {
            close(lock)
            throw error
        }
        self.cluster = cluster
        self.lock = lock
        self.stopping = stopping
        self.notice = notice
        log = BoundedLog(path: cluster.log)
        let host = percentEncoded(socketDirectory, keeping: "/")
        url = "postgresql://\(PostgresCluster.role)@/postgres?host=\(host)"
    }

    deinit {
        if socketDirectory != cluster.directory { rmdir(socketDirectory) }
        close(lock)
    }

    /// Starts the server and waits until it accepts connections. Throws with the server's output if it does
    /// not start.
    func launch() throws(PrivatePostgresError) {
        try cluster.removeEarlierServers(socketDirectory: socketDirectory, notice: notice)
        // A cleaner of temporary files may have removed it since the last start.
        try cluster.makeSocketDirectory(socketDirectory)
        log.forgetTail()
        let child: PostgresProcess
        do {
            child = try PostgresProcess(
                programs.server, arguments, account: cluster.account, deathSignal: SIGINT,
                workingDirectory: cluster.directory)
        } catch { throw PrivatePostgresError(.failed, "\(error)") }
        self.child = child
        var deadline = monotonicNanoseconds() + Self.startMillisecondsMax * 1_000_000
        var nextNotice = monotonicNanoseconds() + Self.noticeMilliseconds * 1_000_000
        while !isAccepting(child) {
            guard drain(child) else {
                throw PrivatePostgresError(.failed, "the private PostgreSQL did not start: \(recentOutput())")
            }
            let now = monotonicNanoseconds()
            if cluster.status(of: child.pid) == "starting" {
                deadline = now + Self.startMillisecondsMax * 1_000_000
            }
            if now >= nextNotice {
                notice("the private PostgreSQL is still starting, perhaps recovering: \(recentOutput())")
                nextNotice = now + Self.noticeMilliseconds * 1_000_000
            }
            guard now < deadline, !waitForEnding(milliseconds: 4) else {
                shutDown()
                throw PrivatePostgresError(
                    .failed, "the private PostgreSQL was not ready in time: \(recentOutput())")
            }
        }
    }

    /// Copies the server's output to the log and restarts the server when it ends. When `stopping` is
    /// signalled, shuts the server down and returns.
    func supervise() {
        var pause: Int32 = 100
        while true {
            if let child {
                var descriptors = [
                    pollfd(fd: stopping.descriptor, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: child.output, events: Int16(POLLIN), revents: 0),
                ]
                _ = poll(&descriptors, 2, -1)
                if descriptors[0].revents != 0 { return shutDown() }
                if drain(child) { continue }
                notice("the private PostgreSQL ended unexpectedly and is restarted: \(recentOutput())")
            }
            if waitForEnding(milliseconds: pause) { return }
            do throws(PrivatePostgresError) {
                try launch()
                pause = 100
            } catch {
                notice("\(error)")
                pause = min(pause * 2, 5_000)
            }
        }
    }

    // MARK: Steps

    /// Returns `true` if the child is alive and ready, and accepts connections. Another server in the same
    /// place fails the first two.
    private func isAccepting(_ child: PostgresProcess) -> Bool {
        guard cluster.status(of: child.pid) == "ready" else { return false }
        // Any error means that the server does not accept connections yet.
        return (try? Connection(url: url)) != nil
    }

    /// Copies the server's output to the log. Returns `false` if the server and all its children have ended.
    private func drain(_ child: PostgresProcess) -> Bool {
        while let bytes = child.read() {
            if bytes.isEmpty { return true }
            log.append(bytes)
        }
        // All processes closed their end of the socket. A postmaster that still runs cannot be observed, so
        // it is killed.
        kill(child.pid, SIGKILL)
        log.append(Array(child.finish().output.utf8))
        self.child = nil
        return false
    }

    private func waitForEnding(milliseconds: Int32) -> Bool {
        var descriptor = pollfd(fd: stopping.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&descriptor, 1, milliseconds) > 0
    }

    /// Ends the server by a fast shutdown, then an immediate one, then a kill (postgres(1), "Notes" on
    /// signals).
    private func shutDown() {
        for (signal, seconds) in [(SIGINT, Int64(10)), (SIGQUIT, 5), (SIGKILL, 5)] {
            guard let child else { return }
            kill(child.pid, signal)
            let deadline = monotonicNanoseconds() + seconds * 1_000_000_000
            while drain(child), monotonicNanoseconds() < deadline { child.waitForOutput(milliseconds: 50) }
        }
    }

    private func recentOutput() -> String {
        let text = String(decoding: log.tail, as: UTF8.self).trimmed
        return text.isEmpty ? "it wrote no message (\(cluster.log))" : text
    }

    // MARK: Settings

    /// Command-line settings, which override those in the cluster, so that no file there opens the server to
    /// the network.
    private var arguments: [String] {
        let settings: [(String, String)] = [
            ("listen_addresses", ""), ("unix_socket_directories", socketDirectory),
            ("unix_socket_permissions", "0700"), ("port", "5432"), ("max_connections", "60"),
            ("shared_buffers", "64MB"), ("huge_pages", "off"), ("jit", "off"),
            ("max_parallel_workers_per_gather", "0"),
            // A single server without standbys: writes less WAL and runs two processes fewer.
            ("wal_level", "minimal"), ("max_wal_senders", "0"), ("max_logical_replication_workers", "0"),
            // Dead rows of the queue must be removed more often than once per minute.
            ("autovacuum_naptime", "10s"),
            // Statements may contain secrets: the log names only tables and constraints.
            ("logging_collector", "off"), ("log_destination", "stderr"), ("log_min_messages", "warning"),
            ("log_min_error_statement", "panic"), ("log_error_verbosity", "terse"),
            ("log_checkpoints", "off"), ("log_autovacuum_min_duration", "-1"),
            ("log_line_prefix", "%m [%p] "), ("log_timezone", "UTC"),
        ]
        return ["-D", cluster.directory] + settings.flatMap { ["-c", "\($0.0)=\($0.1)"] }
    }
}
