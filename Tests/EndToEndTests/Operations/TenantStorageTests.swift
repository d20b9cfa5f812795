import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Storage roots of tenants", .onOwnThread)
struct TenantStorageTests {
    @Test("tenants' files are below the configured root, separate, served by every node, and swept")
    func roots() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let shared = try TemporaryDirectory.make("shared")
        defer { TemporaryDirectory.remove(shared) }
        let stale = "\(shared)/others/tt/files/.ferry-\(JobID(high: 1, low: 1))-1.part"
        for path in ["/own", "/others", "/others/tt", "/others/tt/files"] { mkdir(shared + path, 0o755) }
        try writeFile(stale, [0])
        var times = utimbuf(actime: 0, modtime: 0)
        utime(stale, &times)
        symlink("../others", shared + "/own/link")
        let database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
            "FERRY_STORAGE_ROOT": shared + "/own", "FERRY_TENANT_STORAGE_ROOT": shared + "/others",
        ]
        let first = try FerryProcess(settings)
        defer { first.remove() }
        let second = try FerryProcess(settings.merging(["FERRY_ROLES": "api"]) { $1 })
        defer { second.remove() }
        let key = try first.makeKey(role: "client", tenant: "tt")
        let job = try first.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"top/a.txt"}}"#,
            key: key)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(readFile(shared + "/others/tt/files/top/a.txt") == [1, 2, 3])
        let content = "/v1/jobs/\(job["id"]?.string ?? "")/content"
        // The other node reads the API keys every few seconds.
        #expect(becomes { try second.call("GET", content, key: key).body == [1, 2, 3] })
        for path in ["top/a.txt", "tt/files/top/a.txt", "link/tt/files/top/a.txt"] {
            let upload = try first.run(
                #"{"kind":"upload","request":{"url":"\#(nginx.url)/put/x"},"source":{"path":"\#(path)"}}"#)
            #expect(upload["error"]?["code"]?.string == "source_not_found", "\(path): \(upload)")
        }
        #expect(becomes { readFile(stale) == nil })
        let metrics = try first.call("GET", "/metrics").text
        #expect(metrics.contains("ferry_storage_free_bytes{path=\"\(shared)/others\"}"))
    }

    @Test("an overlapping root of tenants is rejected; one that tenant default can reach is warned of")
    func nested() throws {
        let root = try TemporaryDirectory.make("nested")
        defer { TemporaryDirectory.remove(root) }
        symlink(root, root + "-link")
        defer { unlink(root + "-link") }
        let (own, others) = ("FERRY_STORAGE_ROOT", "FERRY_TENANT_STORAGE_ROOT")
        let data = ["FERRY_DATA_DIR": root + "/data", "FERRY_DATABASE_URL": "postgresql://127.0.0.1:1/none"]
        let refused = [
            [own: root + "/data/results"], [own: root + "/data/tenants/tt/files"],
            [own: root + "/a", others: root + "/a"], [own: root + "/a/b", others: root + "/a"],
            [others: root], [others: root + "-link/data/results"],
        ]
        for settings in refused {
            let environment = data.merging(settings) { $1 }
            let served = try Program.run([Program.ferry, "serve"], environment: environment)
            #expect(served.status == 1 && served.messages.contains("is at or below"), "\(settings) \(served)")
            let checked = try Program.run([Program.ferry, "check"], environment: environment)
            let disk = checked.lines.first { $0.contains("disk:") } ?? ""
            #expect(disk.hasPrefix("FAIL") && disk.contains("is at or below"), "\(settings) \(checked)")
        }
        // The tenant `default` belongs to the operator, so its root may contain the others.
        for settings in [
            [own: root], [own: root + "/data"], [own: root + "-link"],
            [own: root + "/a", others: root + "/a/b"],
        ] {
            let checked = try Program.run(
                [Program.ferry, "check"], environment: data.merging(settings) { $1 })
            #expect(checked.lines.contains { $0.hasPrefix("ok   disk:") }, "\(settings): \(checked)")
            #expect(
                checked.lines.contains {
                    $0.hasPrefix("warn storage:") && $0.contains("the tenant default can reach")
                }, "\(settings): \(checked)")
        }
        for settings in [[:], [own: root + "/a"], [own: root + "/a", others: root + "-link/b"]] {
            let environment = data.merging(settings) { $1 }
            let checked = try Program.run([Program.ferry, "check"], environment: environment)
            let disk = checked.lines.first { $0.contains("disk:") } ?? ""
            #expect(disk.hasPrefix("ok"), "\(settings): \(checked)")
            #expect(!checked.output.contains("warn storage"), "\(settings): \(checked)")
            for name in [own, others] where settings[name] != nil {
                #expect(disk.contains("in \(settings[name] ?? "")"), "\(disk)")
            }
        }
    }
}
