import Glibc
import Postgres
import Sys
import Testing

@testable import FerryServer

/// An empty directory for one test.
final class Place: Sendable {
    let path: String
    init() throws {
        var name = Array("/tmp/ferry-private-\(getpid())-XXXXXX".utf8CString)
        guard mkdtemp(&name) != nil else { throw SystemError("mkdtemp") }
        path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        chmod(path, 0o755)
    }
    deinit { FileTree.remove(path) }

    /// Returns a directory that contains a copy of a cluster that was created once.
    static func withCluster(at subdirectory: String = "") throws -> Place {
        let place = try Place()
        let parent = place.path + subdirectory
        if !subdirectory.isEmpty { mkdir(parent, 0o755) }
        let source = try template.get().path + "/postgres"
        let copy = try PostgresProcess("/bin/cp", ["-a", source, parent], deathSignal: SIGKILL).finish()
        #expect(copy.status == 0, "\(copy.output)")
        return place
    }

    private static let template: Result<Place, any Error> = Result {
        let place = try Place()
        try PrivatePostgres.start(dataDirectory: place.path).stop()
        atexit { Place.removeTemplate() }
        return place
    }

    private static func removeTemplate() {
        if case .success(let place) = template { FileTree.remove(place.path) }
    }

    /// Creates the directory of a cluster, owned by the account that would run the server.
    func makeClusterDirectory() throws {
        let directory = "\(path)/postgres"
        guard mkdir(directory, 0o700) == 0 else { throw SystemError("mkdir") }
        if geteuid() == 0, let user = getpwnam("postgres") {
            chown(directory, user.pointee.pw_uid, user.pointee.pw_gid)
        }
    }
}

func run(_ script: String, on url: String) throws {
    var connection = try Connection(url: url)
    try connection.execute(script: script)
}

func postmaster(in place: Place) -> pid_t? {
    FileTree.text(of: "\(place.path)/postgres/postmaster.pid")?.split(separator: "\n").first.flatMap {
        pid_t($0)
    }
}

func write(_ text: String, to path: String) throws {
    let owner = FileTree.status(parentDirectory(of: path))
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open") }
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    #expect(Glibc.write(descriptor, bytes, bytes.count) == bytes.count)
    if let owner { fchown(descriptor, owner.st_uid, owner.st_gid) }
}

/// Waits up to two minutes for a condition. Checks it every 5 ms.
func waitUntil(_ condition: () -> Bool) throws {
    let deadline = monotonicNanoseconds() + 120_000_000_000
    while !condition() {
        try #require(monotonicNanoseconds() < deadline)
        _ = poll(nil, 0, 5)
    }
}
