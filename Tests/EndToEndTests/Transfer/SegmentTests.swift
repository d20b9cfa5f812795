import Curl
import FerryCore
import Glibc
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Segments and mirrors", .onOwnThread)
struct SegmentTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("a download with four segments fetches four ranges in parallel")
    func nginx() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(6 << 20)
        try nginx.serve("file", bytes)
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/limited/file"},"#
                + #""destination":{"path":"parts/a.bin"},"segments":4}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(job["segments"]?.integer == 4 && job["mirrors"] == .array([]))
        #expect(job["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
        #expect(names(in: ferry.files + "/parts") == ["a.bin"])
        let isSame = readFile(ferry.files + "/parts/a.bin") == bytes
        #expect(isSame)
        // The log of nginx has the range of each request; the attempt has the byte counts.
        let attempts = try ferry.json("GET", "/v1/jobs/\(job["id"]?.string ?? "")/attempts")
        let transactions = attempts["data"]?.array?.first?["transactions"]?.array ?? []
        // nginx logs a request after its end.
        #expect(becomes { nginx.log.count == transactions.count }, "\(attempts)")
        let lines = nginx.log
        let starts = Set(lines.compactMap { $0.range?.lowerBound })
        let quarter = bytes.count / 4
        #expect(starts.isSuperset(of: [0, quarter, 2 * quarter, 3 * quarter]), "\(lines)")
        #expect(lines.allSatisfy { $0.status == 206 })
        let received = transactions.compactMap { $0["count_of_response_body_bytes_after_decoding"]?.integer }
        #expect(received.reduce(0, +) == Int64(bytes.count))
    }

    @Test("if the request's URL fails, a mirror serves the file in the same attempt")
    func mirrors() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(3 << 20)
        try nginx.serve("file", bytes)
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/status/503"},"segments":2,"#
                + #""mirrors":["\#(nginx.url)/status/404","\#(nginx.url)/file"],"#
                + #""integrity":{"sha256":"\#(hexadecimal(Digest.of(bytes)))"}}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(job["attempt"]?.integer == 1)
        #expect(job["response"]?["url"]?.string == nginx.url + "/file")
        #expect(job["mirrors"]?.array?.count == 2 && job["segments"]?.integer == 2)
        let content = try ferry.call("GET", "/v1/jobs/\(job["id"]?.string ?? "")/content")
        #expect(content.body == bytes)
        let failed = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/status/404"},"#
                + #""mirrors":["\#(nginx.url)/status/403"]}"#)
        #expect(failed["state"]?.string == "failed" && failed["attempt"]?.integer == 1, "\(failed)")
        #expect(failed["error"]?["code"]?.string == "unacceptable_status")
    }

    @Test("wrong mirrors and segments are rejected with 422")
    func refusals() throws {
        let job = { (rest: String) in
            try ferry.call(
                "POST", "/v1/jobs", #"{"kind":"download","request":{"url":"http://127.0.0.1:1/"},\#(rest)}"#)
        }
        for (rest, pointer, code) in [
            (#""segments":65"#, "#/segments", "out_of_range"),
            (#""mirrors":["http://10.0.0.1/"]"#, "#/mirrors/0", "blocked_address"),
            (#""mirrors":["ftp://a.example/"]"#, "#/mirrors/0", "invalid_value"),
            (#""mirrors":["http://127.0.0.1:1"]"#, "#/mirrors/0", "duplicate"),
        ] {
            let response = try job(rest)
            #expect(response.status == 422)
            let errors = try response.json["errors"]?.array ?? []
            #expect(errors.map { $0["pointer"]?.string } == [pointer], "\(response.text)")
            #expect(errors.first?["code"]?.string == code)
        }
    }

    @Test("cancelling a segmented download removes its files")
    func cancelled() throws {
        let running = Signal<Void>()
        let gate = Gate()
        let origin = try RangeOrigin(patternBytes(8 << 20)) { response, _, _ in
            response.halfway = (
                after: 30_000,
                body: {
                    running.fire(())
                    _ = gate.pass()
                }
            )
        }
        defer { origin.stop() }
        defer { gate.open() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)"},"segments":3,"#
                + #""destination":{"path":"cancelled/x"}}"#)
        #expect(running.wait(for: 3).count == 3)
        // The bytes that the origin has sent may not have arrived yet.
        #expect(
            becomes {
                let progress = try ferry.json("GET", "/v1/jobs/\(id)")["progress"]
                return progress?["bytes_expected_to_receive"]?.integer == 8 << 20
            })
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/cancel").status == 200)
        #expect(try ferry.finished(id)["state"]?.string == "cancelled")
        #expect(becomes { names(in: ferry.files + "/cancelled").isEmpty })
    }

    @Test("after kill -9 of a segmented download no file is published; the next attempt completes it")
    func killed() throws {
        let bytes = patternBytes(8 << 20, seed: 3)
        let running = Signal<Void>()
        let gate = Gate()
        let origin = try RangeOrigin(bytes) { response, _, _ in
            response.halfway = (
                after: 300_000,
                body: {
                    running.fire(())
                    _ = gate.pass()
                }
            )
        }
        defer { origin.stop() }
        defer { gate.open() }
        let database = try TestDatabase()
        let own = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { own.remove() }
        let id = try own.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)"},"segments":3,"#
                + #""destination":{"path":"x"}}"#)
        #expect(running.wait(for: 3).count == 3)
        own.kill9()
        #expect(!names(in: own.files).contains("x"))
        gate.open()
        try own.start()
        let job = try own.finished(id)
        #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 2, "\(job)")
        let isSame = readFile(own.files + "/x") == bytes
        #expect(isSame)
        #expect(names(in: own.files) == ["x"])
    }
}
