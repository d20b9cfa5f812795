import Glibc
import Postgres
import Sys
import Testing

@testable import FerryServer

@Suite("the private PostgreSQL")
struct PrivatePostgresTests {
    @Test("the first start creates a cluster, and a later start finds its data")
    func coldAndWarm() throws {
        let place = try Place()
        let first = try PrivatePostgres.start(dataDirectory: place.path)
        try run("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)", on: first.url)
        first.stop()
        #expect(postmaster(in: place) == nil)
        first.stop()

        let second = try PrivatePostgres.start(dataDirectory: place.path)
        defer { second.stop() }
        try run("SELECT 1 / (count(*) - count(*) + 1) FROM kept WHERE n = 7", on: second.url)
        try run("DROP TABLE kept", on: second.url)
    }

    @Test("the server listens only on its socket, and other users cannot enter the cluster")
    func isPrivate() throws {
        let place = try Place.withCluster()
        let server = try PrivatePostgres.start(dataDirectory: place.path)
        defer { server.stop() }
        let pid = try #require(postmaster(in: place))
        #expect(FileTree.status("\(place.path)/postgres")?.st_mode == 0o040700)
        #expect(FileTree.status("/proc/\(pid)")?.st_uid != 0)
        try run(
            "DO $$ BEGIN ASSERT current_setting('listen_addresses') = ''; "
                + "ASSERT current_setting('fsync') = 'on'; END $$",
            on: server.url)
    }

    @Test("a killed server is restarted with its committed data")
    func restartsByItself() throws {
        let place = try Place.withCluster()
        let notices = Mailbox<String>()
        let server = try PrivatePostgres.start(dataDirectory: place.path) { notices.send($0) }
        defer { server.stop() }
        try run("CREATE TABLE kept (n int)", on: server.url)
        let killed = try #require(postmaster(in: place))
        kill(killed, SIGKILL)
        // The first start may fail because the killed server's processes still run; that is logged as well.
        #expect(!notices.wait(milliseconds: 120_000).isEmpty)
        try waitUntil { (try? run("TABLE kept", on: server.url)) != nil }
        #expect(postmaster(in: place) != killed)
    }

    @Test("a second Ferry on the same directory is refused, with the first one's process ID")
    func second() throws {
        let place = try Place.withCluster()
        let server = try PrivatePostgres.start(dataDirectory: place.path)
        defer { server.stop() }
        let error = #expect(throws: PrivatePostgresError.self) {
            try PrivatePostgres.start(dataDirectory: place.path)
        }
        #expect(error?.code == .inUse)
        #expect(error?.description.contains("process \(getpid())") == true)
        try run("SELECT 1", on: server.url)
    }

    @Test("a start waits for a lock that a forked child holds until its exec")
    func inheritedLock() throws {
        let place = try Place()
        let cluster = try PostgresCluster.prepare(dataDirectory: place.path, userName: nil)
        // A forked child shares the open file whose descriptor Ferry has closed.
        let inherited = try cluster.lock()
        let start = monotonicNanoseconds()
        let exec = Thread(name: "exec") {
            _ = poll(nil, 0, 60)
            close(inherited)
        }
        let descriptor = try cluster.lock(milliseconds: 60_000)
        #expect(monotonicNanoseconds() - start >= 50_000_000)
        exec.join()
        close(descriptor)
    }

    @Test("a path too long for a socket uses a short directory, which is removed at the end")
    func longPath() throws {
        let place = try Place()
        let path = place.path + "/" + String(repeating: "long-", count: 20) + "/data"
        let server = try PrivatePostgres.start(dataDirectory: path)
        try run("SELECT 1", on: server.url)
        let host = try #require(server.url.split(separator: "=").last.map(String.init))
        #expect(host.hasPrefix("/tmp/ferry-"))
        server.stop()
        #expect(FileTree.status(host) == nil)
    }

    @Test("a data directory with URI delimiters in its path works")
    func oddPath() throws {
        let place = try Place.withCluster(at: "/a b&c=d%20é")
        let server = try PrivatePostgres.start(dataDirectory: place.path + "/a b&c=d%20é")
        defer { server.stop() }
        try run("SELECT 1", on: server.url)
    }

    @Test("a cluster of another major version is unchanged, and the error names both versions")
    func wrongMajor() throws {
        let place = try Place()
        try place.makeClusterDirectory()
        let file = "\(place.path)/postgres/PG_VERSION"
        try write("9\n", to: file)
        let error = #expect(throws: PrivatePostgresError.self) {
            try PrivatePostgres.start(dataDirectory: place.path)
        }
        #expect(error?.code == .versionMismatch)
        #expect(error?.description.contains("created by PostgreSQL 9, but version") == true)
        #expect(directoryNames("\(place.path)/postgres") == ["PG_VERSION"])
    }

    @Test("a linked cluster is used, and a broken link is an error instead of a new cluster")
    func movedCluster() throws {
        let place = try Place.withCluster()
        let link = "\(place.path)/postgres"
        let (disk, moved) = ("\(place.path)/disk", "\(place.path)/disk/pgdata")
        mkdir(disk, 0o755)
        try #require(rename(link, moved) == 0 && symlink("\(moved)/", link) == 0)
        let server = try PrivatePostgres.start(dataDirectory: place.path)
        server.stop()
        #expect(directoryNames(disk) == ["pgdata"])
        #expect(FileTree.status("\(moved)/postgres") == nil)
        // Simulates a disk that is not mounted.
        try #require(rename(disk, "\(place.path)/elsewhere") == 0)
        for hasDirectory in [false, true] {
            if hasDirectory { try #require(mkdir(disk, 0o755) == 0 && mkdir(moved, 0o755) == 0) }
            let error = #expect(throws: PrivatePostgresError.self) {
                try PrivatePostgres.start(dataDirectory: place.path)
            }
            #expect(error?.code == .directoryUnusable)
            #expect(error?.description.contains("\(link) is a link to \(moved)/") == true, "\(error as Any)")
        }
        #expect(directoryNames(moved).isEmpty && FileTree.target(ofLink: link) == "\(moved)/")
    }

    @Test("an unreadable cluster is an error and is not replaced", arguments: [false, true])
    func unreadCluster(isMoved: Bool) throws {
        let place = try Place()
        try place.makeClusterDirectory()
        let (link, moved) = ("\(place.path)/postgres", "\(place.path)/moved")
        if isMoved { try #require(rename(link, moved) == 0 && symlink(moved, link) == 0) }
        // A directory is an error for every user; root could read a file without permissions.
        try #require(mkdir("\(link)/PG_VERSION", 0o755) == 0)
        let error = #expect(throws: PrivatePostgresError.self) {
            try PrivatePostgres.start(dataDirectory: place.path)
        }
        #expect(error?.code == .directoryUnusable)
        let words = String(cString: strerror(EISDIR))
        #expect(error?.description.hasSuffix("/PG_VERSION: \(words)") == true, "\(error as Any)")
    }

    @Test("the server's status is read only from its own postmaster.pid")
    func ownWords() throws {
        let place = try Place()
        try place.makeClusterDirectory()
        let cluster = PostgresCluster(parent: place.path, account: .own)
        #expect(cluster.status(of: 7) == nil)
        let lines = ["7", cluster.directory, "1", "5432", cluster.directory, "", "1 1"]
        try write(lines.joined(separator: "\n"), to: "\(cluster.directory)/postmaster.pid")
        #expect(cluster.status(of: 7) == nil)
        let all = lines + ["starting", ""]
        try write(all.joined(separator: "\n"), to: "\(cluster.directory)/postmaster.pid")
        #expect(cluster.status(of: 7) == "starting" && cluster.status(of: 8) == nil)
    }

    @Test("the newest installation creates a cluster, and the same version opens it")
    func choice() throws {
        let all = [14, 17, 13, 16].map { PostgresPrograms(directory: "/pg/\($0)", majorVersion: $0) }
        #expect(try PostgresPrograms.choose(from: all, clusterVersion: nil).majorVersion == 17)
        #expect(try PostgresPrograms.choose(from: all, clusterVersion: 14).majorVersion == 14)
        for installed in [[], [all[2]]] {
            let error = #expect(throws: PrivatePostgresError.self) {
                try PostgresPrograms.choose(from: installed, clusterVersion: nil)
            }
            #expect(error?.code == .programsNotFound)
        }
    }

    @Test(
        "the major version is parsed from all forms of `postgres --version`",
        arguments: [
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n", 15),
            ("postgres (PostgreSQL) 19beta1\n", 19),
            ("postgres (PostgreSQL) 18devel", 18), ("mysqld 8.0", nil), ("", nil),
        ] as [(String, Int?)])
    func versions(text: String, version: Int?) {
        #expect(PostgresPrograms.majorVersion(text) == version)
    }

    @Test("a directory that is not a cluster is not overwritten")
    func strangeDirectory() throws {
        let place = try Place()
        try place.makeClusterDirectory()
        try write("mine", to: "\(place.path)/postgres/letter")
        let error = #expect(throws: PrivatePostgresError.self) {
            try PrivatePostgres.start(dataDirectory: place.path)
        }
        #expect(error?.code == .directoryUnusable)
        #expect(FileTree.text(of: "\(place.path)/postgres/letter") == "mine")
    }

    @Test(
        "as root, a closed data directory gets a link to a cluster below /var/lib/ferry",
        .enabled(if: geteuid() == 0))
    func closedWay() throws {
        let place = try Place()
        mkdir("\(place.path)/closed", 0o700)
        let directory = "\(place.path)/closed/data"
        var home: String?
        for _ in 1...2 {
            try PrivatePostgres.start(dataDirectory: directory).stop()
            let target = try #require(FileTree.target(ofLink: "\(directory)/postgres"))
            #expect(target.hasPrefix("\(PostgresCluster.varLib)/cluster-"))
            #expect(home == nil || home == parentDirectory(of: target))
            home = parentDirectory(of: target)
        }
        if let home { FileTree.remove(home) }
    }

    @Test(
        "as root, the error names a closed directory above a cluster, or an unknown user",
        .enabled(if: geteuid() == 0))
    func unusable() throws {
        let place = try Place()
        let closed = "\(place.path)/closed"
        mkdir(closed, 0o700)
        mkdir("\(closed)/postgres", 0o700)
        chmod(place.path, 0o700)
        let blocked = #expect(throws: PrivatePostgresError.self) {
            try PrivatePostgres.start(dataDirectory: closed)
        }
        #expect(blocked?.code == .directoryUnusable)
        #expect(blocked?.description.contains("may not pass \(place.path) on the way") == true)
        let unknown = #expect(throws: PrivatePostgresError.self) {
            try PrivatePostgres.start(dataDirectory: place.path, user: "nobody-of-that-name")
        }
        #expect(unknown?.code == .userUnusable)
    }

    @Test("a log that reaches its limit becomes the predecessor")
    func log() throws {
        let place = try Place()
        let log = BoundedLog(path: "\(place.path)/log")
        let line = [UInt8](repeating: 65, count: 1 << 20)
        for _ in 0..<9 { log.append(line) }
        let sizes = ["log", "log.1"].map { FileTree.status("\(place.path)/\($0)")?.st_size ?? 0 }
        #expect(sizes.allSatisfy { $0 > 0 && $0 <= BoundedLog.byteCountMax })
        #expect(log.tail.count == 2048)
    }
}
