import FerryCore
import Glibc
import Sys
import TestSupport
import Testing

@Suite("What clients and operators ask for")
struct CommandTests {
    @Test("a cancelled transfer closes its socket at once and leaves no file")
    func cancel() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let begun = Signal<Void>()
        let closed = Signal<Int64>()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nsome bytes")
            begun.fire(())
            if connection.waitUntilClosed() { closed.fire(monotonicNanoseconds()) }
        }
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/x"},"destination":{"path":"x"}}"#)
        #expect(begun.wait().count == 1)
        let asked = monotonicNanoseconds()
        let answer = try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}")
        #expect(answer.status == 200)
        let end = try #require(closed.wait().first)
        #expect(end - asked < 1_000_000_000, "closed after \((end - asked) / 1_000_000) ms")
        #expect(try ferry.finished(id)["state"]?.string == "cancelled")
        #expect(directoryNames(ferry.files).isEmpty)
        let again = try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}")
        #expect(again.status == 409)
        #expect(try JSON.parse(again.body)["code"]?.string == "invalid_state")
    }

    @Test("the same idempotency key and body give the first answer again, another body is refused")
    func idempotency() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let body = #"{"kind":"data","request":{"url":"\#(nginx.url)/file"}}"#
        let first = try ferry.call("POST", "/v1/jobs", body, headers: ["Idempotency-Key": "\"one\""])
        let second = try ferry.call("POST", "/v1/jobs", body, headers: ["Idempotency-Key": "one"])
        #expect(first.status == 201 && second.status == 201)
        #expect(try JSON.parse(first.body)["id"] == JSON.parse(second.body)["id"])
        let other = try ferry.call(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"\#(nginx.url)/other"}}"#,
            headers: ["Idempotency-Key": "one"])
        #expect(other.status == 422)
        #expect(try JSON.parse(other.body)["code"]?.string == "idempotency_key_reused")
    }

    @Test("lists go on behind their cursor while rows come, and filters hold")
    func lists() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let one = #"{"kind":"data","request":{"url":"\#(nginx.url)/file"},"metadata":{"n":"a"}}"#
        _ = try ferry.call("POST", "/v1/jobs/batch", #"{"jobs":[\#(Array(repeating: one, count: 25).joined(separator: ","))]}"#)
        var seen: [String] = []
        var path: String? = "/v1/jobs?limit=10&metadata.n=a"
        while let next = path {
            let page = try ferry.json("GET", next)
            seen += (page["data"]?.array ?? []).compactMap { $0["id"]?.string }
            _ = try ferry.submit(#"{"kind":"data","request":{"url":"\#(nginx.url)/file"}}"#)
            path = page["next_cursor"]?.string.map { "/v1/jobs?limit=10&metadata.n=a&cursor=\($0)" }
        }
        #expect(seen.count == 25 && Set(seen).count == 25 && seen == seen.sorted(by: >))
        #expect(try ferry.json("GET", "/v1/jobs?kind=upload")["data"]?.array?.isEmpty == true)
    }

    @Test("a failed job says why, and a full disk is a storage error that touches nothing else")
    func failures() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("large", patternBytes(3_000_000))
        let missing = try ferry.finished(
            ferry.submit(#"{"kind":"download","request":{"url":"\#(nginx.url)/none"},"destination":{"path":"n"}}"#))
        #expect(missing["state"]?.string == "failed" && missing["response"]?["status"]?.integer == 404)
        #expect(missing["error"]?["code"]?.string == "unacceptable_status")
        let blocked = try ferry.call("POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://10.0.0.1/"}}"#)
        #expect(blocked.status == 422)
        let small = try SmallFileSystem(ferry.files + "/small", byteCount: 1 << 20)
        defer { small.remove() }
        let full = try ferry.finished(
            ferry.submit(
                #"{"kind":"download","request":{"url":"\#(nginx.url)/large"},"destination":{"path":"small/x"},"#
                    + #""retry":{"max_attempts":1}}"#))
        #expect(full["error"]?["code"]?.string == "storage_full", "\(full)")
        #expect(directoryNames(ferry.files + "/small").isEmpty)
    }

    @Test("SIGTERM drains: what runs ends, what waits stays, and the exit status is 0")
    func drain() throws {
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "1"])
        defer { ferry.remove() }
        let begun = Signal<Void>()
        let go = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                begun.fire(())
                _ = go.wait(seconds: 30)
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        defer { origin.stop() }
        let body = #"{"kind":"download","request":{"url":"\#(origin.url)/x"},"destination":{"path":"x"}}"#
        let running = try ferry.submit(body)
        #expect(begun.wait().count == 1)
        let queued = try ferry.submit(body)
        let status = Signal<Int32>()
        let thread = Thread(name: "terminate") { status.fire(ferry.terminate()) }
        #expect(eventually { (try? ferry.call("GET", "/readyz").status) != 200 })
        go.fire(())
        #expect(status.wait(seconds: 30) == [0])
        thread.join()
        try ferry.start()
        go.fire(())
        #expect(try ferry.json("GET", "/v1/jobs/\(running)")["state"]?.string == "succeeded")
        #expect(try ferry.finished(queued)["state"]?.string == "succeeded")
    }

    @Test("the embedded PostgreSQL needs no configuration, and its jobs are there after a restart")
    func embedded() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let id = try ferry.submit(#"{"kind":"data","request":{"url":"\#(nginx.url)/file"}}"#)
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        ferry.kill9()
        try ferry.start()
        #expect(try ferry.json("GET", "/v1/jobs/\(id)")["state"]?.string == "succeeded")
        #expect(ferry.terminate() == 0)
    }
}

/// A tmpfs of a fixed size; needs root, as the tests have it in CI.
struct SmallFileSystem {
    let path: String

    init(_ path: String, byteCount: Int) throws {
        self.path = path
        mkdir(path, 0o777)
        guard mount("ferry-test", path, "tmpfs", 0, "size=\(byteCount),mode=777") == 0 else {
            throw TestSupportError("tmpfs: \(SystemError("mount"))")
        }
    }

    func remove() {
        umount2(path, 0)
        rmdir(path)
    }
}
