import FerryCore
import Glibc
import Postgres
import Sys

/// The server process and what belongs to it. Lives on one thread, from `init` to the end of `attend`.
final class PostgresOwner {
    let url: String
    private let cluster: PostgresCluster
    private let programs: PostgresPrograms
    private let socketDirectory: String
    private let lock: Int32
    private let log: BoundedLog
    private let ending: EventDescriptor
    private let notice: @Sendable (String) -> Void
    /// nil while no server runs.
    private var child: PostgresProcess?

    /// How long a server may take until it says that it starts, and from then on until it is reached. In
    /// between it may take as long as it wants: who ends a recovery has it begin anew.
    private static let startMillisecondsMax: Int64 = 120_000
    /// Between notices of a start that takes its time.
    private static let noticeMilliseconds: Int64 = 30_000

    /// Finds the programs and creates the cluster if there is none. `ending` tells `attend` to stop.
    init(
        dataDirectory: String, user: String?, ending: EventDescriptor,
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
        self.ending = ending
        self.notice = notice
        log = BoundedLog(path: cluster.log)
        let host = percentEncoded(socketDirectory, keeping: "/")
        url = "postgresql://\(PostgresCluster.role)@/postgres?host=\(host)"
    }

    deinit {
        if socketDirectory != cluster.directory { rmdir(socketDirectory) }
        close(lock)
    }

    /// Starts the server and waits until it accepts connections, or gives up with its own words.
    func launch() throws(PrivatePostgresError) {
        try cluster.vacate(socketDirectory: socketDirectory, notice: notice)
        // A cleaner of temporary files may have taken it since the last server.
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
                throw PrivatePostgresError(.failed, "the private PostgreSQL did not start: \(lastWords())")
            }
            let now = monotonicNanoseconds()
            if cluster.status(of: child.pid) == "starting" {
                deadline = now + Self.startMillisecondsMax * 1_000_000
            }
            if now >= nextNotice {
                notice("the private PostgreSQL still starts, perhaps with a recovery: \(lastWords())")
                nextNotice = now + Self.noticeMilliseconds * 1_000_000
            }
            guard now < deadline, !waitForEnding(milliseconds: 4) else {
                shutDown()
                throw PrivatePostgresError(
                    .failed, "the private PostgreSQL did not get ready: \(lastWords())")
            }
        }
    }

    /// Writes the log and starts the server again whenever it ends, until `ending` is signalled; then
    /// shuts it down.
    func attend() {
        var pause: Int32 = 100
        while true {
            if let child {
                var descriptors = [
                    pollfd(fd: ending.descriptor, events: Int16(POLLIN), revents: 0),
                    pollfd(fd: child.output, events: Int16(POLLIN), revents: 0),
                ]
                _ = poll(&descriptors, 2, -1)
                if descriptors[0].revents != 0 { return shutDown() }
                if drain(child) { continue }
                notice("the private PostgreSQL ended by itself and is started again: \(lastWords())")
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

    /// Alive, ready by its own account, and reachable: a server of somebody else fails the first two.
    private func isAccepting(_ child: PostgresProcess) -> Bool {
        guard cluster.status(of: child.pid) == "ready" else { return false }
        return (try? Connection(url: url)) != nil
    }

    /// Moves what the server said to the log. False when it and all its children are gone.
    private func drain(_ child: PostgresProcess) -> Bool {
        while let bytes = child.read() {
            if bytes.isEmpty { return true }
            log.append(bytes)
        }
        // Nobody holds the other end. Should the postmaster live on deaf, it must not live on at all.
        kill(child.pid, SIGKILL)
        log.append(Array(child.finish().output.utf8))
        self.child = nil
        return false
    }

    private func waitForEnding(milliseconds: Int32) -> Bool {
        var descriptor = pollfd(fd: ending.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&descriptor, 1, milliseconds) > 0
    }

    /// Fast shutdown, then an immediate one, then none of its choice (postgres(1), "Notes" on signals).
    private func shutDown() {
        for (signal, seconds) in [(SIGINT, Int64(10)), (SIGQUIT, 5), (SIGKILL, 5)] {
            guard let child else { return }
            kill(child.pid, signal)
            let deadline = monotonicNanoseconds() + seconds * 1_000_000_000
            while drain(child), monotonicNanoseconds() < deadline { child.waitForOutput(milliseconds: 50) }
        }
    }

    private func lastWords() -> String {
        let text = String(decoding: log.tail, as: UTF8.self).trimmed
        return text.isEmpty ? "it said nothing (\(cluster.log))" : text
    }

    // MARK: Settings

    /// On the command line, so that nothing in the cluster can open it to the network.
    private var arguments: [String] {
        let settings: [(String, String)] = [
            ("listen_addresses", ""), ("unix_socket_directories", socketDirectory),
            ("unix_socket_permissions", "0700"), ("port", "5432"), ("max_connections", "60"),
            ("shared_buffers", "64MB"), ("huge_pages", "off"), ("jit", "off"),
            ("max_parallel_workers_per_gather", "0"),
            // One server without standbys: less log, two processes fewer.
            ("wal_level", "minimal"), ("max_wal_senders", "0"), ("max_logical_replication_workers", "0"),
            // A queue's dead rows have to go sooner than once a minute.
            ("autovacuum_naptime", "10s"),
            // Statements may carry secrets; the log names tables and constraints only.
            ("logging_collector", "off"), ("log_destination", "stderr"), ("log_min_messages", "warning"),
            ("log_min_error_statement", "panic"), ("log_error_verbosity", "terse"),
            ("log_checkpoints", "off"), ("log_autovacuum_min_duration", "-1"),
            ("log_line_prefix", "%m [%p] "), ("log_timezone", "UTC"),
        ]
        return ["-D", cluster.directory] + settings.flatMap { ["-c", "\($0.0)=\($0.1)"] }
    }
}
