import Glibc
import Postgres
import Sys
import TestSupport
import Testing

@testable import FerryServer

@Suite("starts of the private PostgreSQL after a crash")
struct PostgresOrphanTests {
    /// A server in the cluster of `place` that no Ferry process owns.
    private struct Orphan {
        let cluster: PostgresCluster
        let process: PostgresProcess

        init(in place: Place) throws {
            let cluster = try PostgresCluster.prepare(dataDirectory: place.path, userName: nil)
            let programs = try PostgresPrograms.find(clusterVersion: cluster.majorVersion)
            let process = try PostgresProcess(
                programs.server,
                ["-D", cluster.directory, "-k", cluster.directory, "-c", "listen_addresses="],
                account: cluster.account, deathSignal: SIGKILL, workingDirectory: cluster.directory)
            self.cluster = cluster
            self.process = process
            try waitUntil { cluster.status(of: process.pid) == "ready" }
        }

        var processFile: String { "\(cluster.directory)/postmaster.pid" }
        var socketLock: String { "\(cluster.directory)/.s.PGSQL.5432.lock" }

        /// Waits for the end of the server and returns its waitpid(2) status.
        func end() -> Int32 { process.finish().status }
    }

    /// A process that sleeps under another program's name until the test ends.
    private final class Sleeper {
        let process: PostgresProcess

        /// `account`: PostgreSQL ignores processes of other accounts.
        init(
            called name: String, in directory: String, place: Place, account: PostgresProcess.Account = .own
        ) throws {
            let programs = "\(place.path)/programs"
            mkdir(programs, 0o755)
            let program = "\(programs)/\(name)"
            let copy = try PostgresProcess("/bin/cp", ["/bin/sleep", program], deathSignal: SIGKILL).finish()
            try #require(copy.status == 0, "\(copy.output)")
            process = try PostgresProcess(
                program, ["600"], account: account, deathSignal: SIGKILL, workingDirectory: directory)
            try waitUntil { [pid = process.pid] in ProcessStatus(of: pid)?.name == name }
        }

        var isRunning: Bool { waitpid(process.pid, nil, WNOHANG) == 0 }

        deinit { if isRunning { ChildProcess.end(process.pid) } }
    }

    @Test("a start waits for an orphaned server that shuts down by itself")
    func orphan() throws {
        let place = try Place.withCluster()
        let orphan = try Orphan(in: place)
        let next = try PrivatePostgres.start(dataDirectory: place.path)
        defer { next.stop() }
        #expect(orphan.end() == 0, "a fast shutdown is a clean end")
        try run("SELECT 1", on: next.url)
    }

    @Test("an orphaned server that ignores SIGINT and SIGQUIT is killed, with its children")
    func deafOrphan() throws {
        let place = try Place.withCluster()
        let orphan = try Orphan(in: place)
        // A stopped process reacts only to SIGKILL. The child that the server waits for is stopped as well.
        let children = PostgresOccupant.find(in: orphan.cluster.directory, account: orphan.cluster.account)
            .filter { $0.parent == orphan.process.pid }
        try #require(!children.isEmpty)
        for child in children { child.signal(SIGSTOP) }
        kill(orphan.process.pid, SIGSTOP)
        let notices = Mailbox<String>()
        try orphan.cluster.removeEarlierServers(
            socketDirectory: orphan.cluster.directory,
            by: [(SIGINT, 50), (SIGQUIT, 50), (SIGKILL, 60_000)]
        ) { notices.send($0) }
        #expect(orphan.end() == SIGKILL)
        let messages = notices.take()
        #expect(messages.count == 2 && messages[0].contains("process \(orphan.process.pid)"), "\(messages)")
        let next = try PrivatePostgres.start(dataDirectory: place.path)
        next.stop()
    }

    @Test("lock files stay while a process of the cluster runs, and the error names it")
    func occupied() throws {
        let place = try Place.withCluster()
        let orphan = try Orphan(in: place)
        kill(orphan.process.pid, SIGSTOP)
        let error = #expect(throws: PrivatePostgresError.self) {
            try orphan.cluster.removeEarlierServers(
                socketDirectory: orphan.cluster.directory, by: [(SIGINT, 50)])
        }
        #expect(error?.code == .inUse)
        #expect(error?.description.contains("process \(orphan.process.pid)") == true)
        for path in [orphan.processFile, orphan.socketLock] { #expect(access(path, F_OK) == 0, "\(path)") }
        kill(orphan.process.pid, SIGCONT)
        #expect(orphan.end() == 0)
    }

    @Test("lock files that name an unrelated process are removed; that process gets no signal")
    func recycledNumbers() throws {
        let place = try Place.withCluster()
        let orphan = try Orphan(in: place)
        kill(orphan.process.pid, SIGKILL)
        #expect(orphan.end() == SIGKILL)
        let texts = try [orphan.processFile, orphan.socketLock].map { try #require(FileTree.text(of: $0)) }
        // One process has the name but another directory; one has the directory but another name.
        let unrelated = try [("postgres", place.path), ("backup", orphan.cluster.directory)].map {
            try Sleeper(called: $0, in: $1, place: place, account: orphan.cluster.account)
        }
        for sleeper in unrelated {
            for (path, text) in zip([orphan.processFile, orphan.socketLock], texts) {
                let rest = text.split(separator: "\n", omittingEmptySubsequences: false).dropFirst()
                try write("\(sleeper.process.pid)\n" + rest.joined(separator: "\n"), to: path)
            }
            let next = try PrivatePostgres.start(dataDirectory: place.path)
            try run("SELECT 1", on: next.url)
            next.stop()
        }
        #expect(unrelated.allSatisfy { $0.isRunning })
    }

    @Test(
        "a lock file without a live process does not prevent the next start",
        arguments: [
            "", "\n", "0\n", "no number", "-2147483648\n", "2000000000\n", "99999999999999999999", "1",
        ])
    func tornLockFiles(text: String) throws {
        let place = try Place.withCluster()
        let directory = "\(place.path)/postgres"
        for name in ["postmaster.pid", ".s.PGSQL.5432.lock"] { try write(text, to: "\(directory)/\(name)") }
        let server = try PrivatePostgres.start(dataDirectory: place.path)
        defer { server.stop() }
        try run("SELECT 1", on: server.url)
    }

    @Test("a start replaces the incomplete cluster of a killed start and ends its programs")
    func halfMadeCluster() throws {
        let place = try Place()
        let unfinished = "\(place.path)/postgres.new"
        try #require(mkdir(unfinished, 0o700) == 0 && mkdir("\(unfinished)/base", 0o700) == 0)
        try write("15\n", to: "\(unfinished)/PG_VERSION")
        let writers = try ["initdb", "postgres"].map {
            try Sleeper(called: $0, in: unfinished, place: place)
        }
        let server = try PrivatePostgres.start(dataDirectory: place.path)
        defer { server.stop() }
        try run("SELECT 1", on: server.url)
        #expect(writers.allSatisfy { !$0.isRunning })
        #expect(FileTree.status(unfinished) == nil)
    }

    @Test("a restarted server gets a new socket directory if the old one was removed")
    func lostSocketDirectory() throws {
        let place = try Place()
        let path = place.path + "/" + String(repeating: "long-", count: 20) + "/data"
        let server = try PrivatePostgres.start(dataDirectory: path)
        defer { server.stop() }
        let host = try #require(server.url.split(separator: "=").last.map(String.init))
        FileTree.remove(host)
        let killed = try #require(
            FileTree.text(of: "\(path)/postgres/postmaster.pid")?.split(separator: "\n").first
                .flatMap { pid_t($0) })
        kill(killed, SIGKILL)
        try waitUntil { (try? run("SELECT 1", on: server.url)) != nil }
    }

    @Test("a missing XDG_RUNTIME_DIR is not used for the socket")
    func lostRuntimeDirectory() throws {
        let place = try Place()
        let parent = place.path + "/" + String(repeating: "long-", count: 20)
        try #require(mkdir(parent, 0o700) == 0)
        let cluster = PostgresCluster(parent: parent, account: .own)
        let path = try cluster.socketDirectory(runtime: "\(place.path)/gone")
        #expect(path.hasPrefix("/tmp/ferry-"))
        rmdir(path)
    }

    @Test(
        "as root, the socket directory of an interrupted start is given to the server's user",
        .enabled(if: geteuid() == 0))
    func ownSocketDirectory() throws {
        let place = try Place()
        let account = try PostgresCluster.findAccount(nil)
        let cluster = PostgresCluster(parent: place.path, account: account)
        let path = "\(place.path)/socket"
        try #require(mkdir(path, 0o700) == 0)
        try cluster.makeSocketDirectory(path)
        #expect(FileTree.status(path)?.st_uid == account.uid)
        // A directory that other users can enter, or could have created, is rejected.
        chmod(path, 0o755)
        #expect(throws: PrivatePostgresError.self) { try cluster.makeSocketDirectory(path) }
    }

    @Test("a process name with spaces and parentheses is parsed")
    func processStatus() {
        let status = ProcessStatus(parsing: "7 (a) b (c) S 42 7 7 0 -1")
        #expect(status?.name == "a) b (c" && status?.parent == 42)
        #expect(ProcessStatus(parsing: "") == nil && ProcessStatus(parsing: "7 (a)") == nil)
        #expect(ProcessStatus(of: getpid())?.parent == getppid())
    }
}
