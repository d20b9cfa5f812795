import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Permissions of files", .onOwnThread)
struct FileModeTests {
    /// Returns the permission bits of a path, or `nil` if it does not exist.
    private static func mode(_ path: String) -> UInt32? {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
    }

    private static func expect(_ path: String, _ mode: UInt32, _ note: String) {
        let found = Self.mode(path)
        #expect(found == mode, "\(note), \(path): \(String(found ?? 0, radix: 8))")
    }

    /// Settings of one run, and the expected modes of files and directories.
    struct Case: Sendable {
        let name: String
        var umask: String?
        var namesRoots = false
        let file: UInt32
        let directory: UInt32
    }

    @Test(
        "default roots have modes 0640 and 0750, named roots follow the umask, FERRY_UMASK overrides both",
        arguments: [
            Case(name: "own", file: 0o640, directory: 0o750),
            Case(name: "named", namesRoots: true, file: 0o644, directory: 0o755),
            Case(name: "own, FERRY_UMASK", umask: "0002", file: 0o664, directory: 0o775),
            Case(name: "named, FERRY_UMASK", umask: "77", namesRoots: true, file: 0o600, directory: 0o700),
        ])
    func modes(wanted: Case) throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".utf8)
        }
        defer { origin.stop() }
        let database = try TestDatabase()
        let directory = try TemporaryDirectory.make("modes")
        defer { TemporaryDirectory.remove(directory) }
        var settings = ["FERRY_DATABASE_URL": database.url]
        settings["FERRY_UMASK"] = wanted.umask
        if wanted.namesRoots {
            settings["FERRY_STORAGE_ROOT"] = directory + "/own/files"
            settings["FERRY_TENANT_STORAGE_ROOT"] = directory + "/others"
        }
        let ferry = try FerryProcess(settings)
        defer { ferry.remove() }
        let tenant = try ferry.makeKey(role: "client", tenant: "tt")
        let job = #"{"kind":"download","request":{"url":"\#(origin.url)/x"},"destination":{"path":"a/b/c"}}"#
        for key in [adminKey, tenant] {
            let ended = try ferry.run(job, key: key)
            #expect(ended["state"]?.string == "succeeded", "\(ended)")
        }
        let others = settings["FERRY_TENANT_STORAGE_ROOT"] ?? ferry.directory + "/tenants"
        for root in [ferry.files, others + "/tt/files"] {
            for path in ["", "/a", "/a/b"] { Self.expect(root + path, wanted.directory, wanted.name) }
            Self.expect(root + "/a/b/c", wanted.file, wanted.name)
        }
        // Managed files are private to the service.
        let managed = try ferry.run(#"{"kind":"download","request":{"url":"\#(origin.url)/x"}}"#)
        let id = try #require(managed["id"]?.string)
        let shards = directoryNames(ferry.directory + "/results").map { ferry.directory + "/results/" + $0 }
        let shard = try #require(shards.first { Self.mode("\($0)/\(id)") != nil })
        Self.expect(shard, 0o700, wanted.name)
        Self.expect("\(shard)/\(id)", 0o600, wanted.name)
    }
}
