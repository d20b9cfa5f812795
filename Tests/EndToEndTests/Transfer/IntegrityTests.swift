import Curl
import FerryCore
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Integrity checks and content codings", .onOwnThread)
struct IntegrityTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("a job's checksums are verified; a mismatch is retried and leaves no file")
    func checksums() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789".utf8)
        }
        defer { origin.stop() }
        let run = { (name: String, crc32c: String) in
            try ferry.run(
                #"{"kind":"download","request":{"url":"\#(origin.url)/"},"destination":{"path":"\#(name)"},"#
                    + #""integrity":{"crc32c":"\#(crc32c)","adler32":"091E01DE"},"#
                    + #""retry":{"max_attempts":2,"initial_delay":0}}"#)
        }
        let good = try run("crc-good", "E3069283")
        #expect(good["result"]?["verified"]?.string == "digest", "\(good)")
        #expect(good["integrity"]?["crc32c"]?.string == "e3069283")
        #expect(good["integrity"]?["adler32"]?.string == "091e01de")
        let bad = try run("crc-bad", "00000000")
        #expect(bad["error"]?["code"]?.string == "digest_mismatch", "\(bad)")
        #expect(origin.requests.count == 3 && !names(in: ferry.files).contains("crc-bad"))
    }

    @Test("a body that does not match Repr-Digest is fetched again")
    func announced() throws {
        let digest = Base64.encode(Digest.of(Array("right".utf8)))
        let first = Signal<Void>()
        let origin = try ScriptedOrigin.answering { _, _ in
            let isFirst = first.wait(seconds: 0.05).isEmpty
            first.fire(())
            return Array(
                ("HTTP/1.1 200 OK\r\nRepr-Digest: sha-256=:\(digest):\r\nContent-Length: 5\r\n\r\n"
                    + (isFirst ? "wrong" : "right")).utf8)
        }
        defer { origin.stop() }
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"destination":{"path":"announced"},"#
                + #""retry":{"initial_delay":0}}"#)
        #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 2, "\(job)")
        #expect(job["result"]?["verified"]?.string == "digest")
        #expect(readFile(ferry.files + "/announced") == Array("right".utf8))
    }

    @Test("accept_encoding is sent to the origin, and the decoded body is stored and shown")
    func codings() throws {
        let text = String(repeating: "so it goes. ", count: 1_000)
        let origin = try ScriptedOrigin.answering { request, _ in
            let isAsked = request.header("accept-encoding")?.contains("gzip") == true
            let bytes = isAsked ? Coded.gzip(Array(text.utf8)) : Array(text.utf8)
            return Array(
                ("HTTP/1.1 200 OK\r\n" + (isAsked ? "Content-Encoding: gzip\r\n" : "")
                    + "Content-Length: \(bytes.count)\r\n\r\n").utf8) + bytes
        }
        defer { origin.stop() }
        for choice in ["identity", "gzip", "any"] {
            let job = try ferry.run(
                #"{"kind":"data","request":{"url":"\#(origin.url)/","accept_encoding":"\#(choice)"}}"#)
            #expect(job["result"]?["body"]?.string == text, "\(choice)")
            #expect(job["result"]?["size"]?.integer == Int64(text.utf8.count))
            #expect(job["request"]?["accept_encoding"]?.string == choice)
            let coding = job["response"]?["headers"]?["Content-Encoding"]?.string
            #expect(coding == (choice == "identity" ? nil : "gzip"))
        }
        let refused = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(origin.url)/","accept_encoding":"zstd"}}"#)
        #expect(refused.status == 422)
    }
}
