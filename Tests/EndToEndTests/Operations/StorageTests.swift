import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Full and read-only disks", .onOwnThread)
struct StorageTests {
    @Test("without disk space, downloads wait until there is space again; other jobs run")
    func holdsDownloads() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(500_000))
        let root = try TemporaryDirectory.make("small")
        defer { TemporaryDirectory.remove(root) }
        let disk = try SmallFileSystem(root + "/files", byteCount: 16 << 20)
        defer { disk.remove() }
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_DATABASE_URL": database.url, "FERRY_STORAGE_ROOT": disk.path,
            "FERRY_STORAGE_RESERVE": "500000",
        ])
        defer { ferry.remove() }
        try writeFile(disk.path + "/ballast", [UInt8](repeating: 0, count: 16_000 << 10))
        let holdsDownloads = {
            try ferry.json("GET", "/v1/admin/status")["storage"]?["holds_downloads"]?.bool
        }
        #expect(becomes { try holdsDownloads() == true })
        #expect(try ferry.call("GET", "/metrics").text.contains("ferry_downloads_blocked 1"))
        let storage = try ferry.json("GET", "/v1/admin/status")["storage"]
        #expect(storage?["free_bytes"]?.integer ?? .max < 500_000, "the fullest disk: \(storage ?? .null)")
        #expect(
            becomes {
                let ready = try ferry.call("GET", "/readyz?verbose", key: "")
                return ready.status == 200 && ready.text.contains("[!]room_for_downloads")
            })
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"file"}}"#)
        let data = try ferry.run(#"{"kind":"data","request":{"url":"\#(nginx.url)/status/404"}}"#)
        #expect(data["state"]?.string == "succeeded", "\(data)")
        let waiting = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(waiting["state"]?.string == "queued" && waiting["attempt"]?.integer == 0, "\(waiting)")
        #expect(waiting["waiting_reason"]?["code"]?.string == "storage_low", "\(waiting)")
        unlink(disk.path + "/ballast")
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        #expect(try holdsDownloads() == false)
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
            _ = connection.waitUntilClosed()
        }
        defer { origin.stop() }
        let large = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"retry":{"max_attempts":1}}"#)
        #expect(large["error"]?["code"]?.string == "storage_full", "\(large)")
    }

    @Test("without Content-Length, a download waits until its expected_bytes_to_receive are free")
    func expected() throws {
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            // Larger than the buffer that collects small bodies. A body within it has a known size when its
            // file is created.
            connection.send(patternBytes(1 << 20))
        }
        defer { origin.stop() }
        let root = try TemporaryDirectory.make("expected")
        defer { TemporaryDirectory.remove(root) }
        let disk = try SmallFileSystem(root + "/files", byteCount: 16 << 20)
        defer { disk.remove() }
        try writeFile(disk.path + "/ballast", [UInt8](repeating: 0, count: 8 << 20))
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_DATABASE_URL": database.url, "FERRY_STORAGE_ROOT": disk.path,
            "FERRY_STORAGE_RESERVE": "500000",
        ])
        defer { ferry.remove() }
        let job = { (path: String, more: String) in
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"#
                + #""destination":{"path":"\#(path)"}\#(more)}"#
        }
        // Less than the size of the disk, and more than is free. `max_delay` makes the job check again soon.
        let more = #","schedule":{"expected_bytes_to_receive":\#(10 << 20)},"retry":{"max_delay":1}"#
        let id = try ferry.submit(job("large", more))
        var waiting: JSON?
        let isWaiting = becomes {
            waiting = try ferry.json("GET", "/v1/jobs/\(id)")
            return waiting?["waiting_reason"]?["code"]?.string == "storage_low"
        }
        #expect(isWaiting && waiting?["error"]?["code"]?.string == "storage_full", "\(waiting ?? .null)")
        #expect(try ferry.run(job("small", ""))["state"]?.string == "succeeded")
        unlink(disk.path + "/ballast")
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        #expect(names(in: disk.path) == ["large", "small"])
    }

    @Test("jobs of a node whose disk became read-only wait, or run on another node")
    func readOnly() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(50_000))
        let root = try TemporaryDirectory.make("readonly")
        defer { TemporaryDirectory.remove(root) }
        let disk = try SmallFileSystem(root + "/files", byteCount: 16 << 20)
        defer { disk.remove() }
        let database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
        ]
        let ferry = try FerryProcess(settings.merging(["FERRY_STORAGE_ROOT": disk.path]) { $1 })
        defer { ferry.remove() }
        let job = { (name: String) in
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"\#(name)"}}"#
        }
        #expect(try ferry.run(job("before"))["state"]?.string == "succeeded")
        try disk.remount(isReadOnly: true)
        let ids = try (0..<20).map { try ferry.submit(job("\($0)")) }
        #expect(becomes { try ferry.call("GET", "/metrics").text.contains("ferry_downloads_blocked 1") })
        var ready = ""
        let isShown = becomes {
            let response = try ferry.call("GET", "/readyz?verbose", key: "")
            ready = response.text
            return response.status == 200 && ready.contains("[!]storage_writable")
                && ready.contains("[+]room_for_downloads")
        }
        #expect(isShown, "\(ready)")
        for id in ids {
            #expect(
                becomes {
                    let job = try ferry.json("GET", "/v1/jobs/\(id)")
                    return job["waiting_reason"]?["code"]?.string == "storage_unavailable"
                })
        }
        #expect(try ferry.json("GET", "/v1/jobs?state=failed")["data"]?.array?.isEmpty == true)
        let other = try FerryProcess(settings)
        defer { other.remove() }
        for id in ids {
            let job = try other.finished(id)
            #expect(job["state"]?.string == "succeeded", "\(job)")
        }
        #expect(names(in: other.files).count == 20)
        other.terminate()
        let last = try ferry.submit(job("last"))
        try disk.remount(isReadOnly: false)
        #expect(try ferry.finished(last)["state"]?.string == "succeeded")
        #expect(Set(names(in: disk.path)) == ["before", "last"])
    }
}
