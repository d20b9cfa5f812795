import Curl
import FerryCore
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Responses that reject uploads", .onOwnThread)
struct RejectedUploadTests {
    private static let limit = 256 << 10

    /// Serves `/STATUS/BYTES`: a response with this status and so many bytes of body. `/cut` announces more
    /// than it sends.
    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                _ = connection.readBody(of: request)
                let words = request.path.split(separator: "/")
                let (status, count) = (Int(words.first ?? "") ?? 400, Int(words.last ?? "") ?? 100)
                let body = patternBytes(count)
                let isCut = request.path.hasSuffix("cut")
                let head = "HTTP/1.1 \(status) x\r\nContent-Type: application/problem+json; v=1\r\n"
                connection.send("\(head)Content-Length: \(isCut ? count + 1 : count)\r\n\r\n")
                guard connection.send(body), !isCut else { return }
            }
        }
    }

    @Test(
        "the body of a final response is the content of the failed upload, in a file above 256 KiB",
        arguments: [
            "/400/7", "/403/70000", "/503/500", "/422/\(limit)", "/422/\(limit + 1)", "/503/3000000",
        ])
    func kept(path: String) throws {
        let ferry = try FerryProcess.shared.get().ferry
        let origin = try Self.origin()
        defer { origin.stop() }
        let job = try ferry.run(
            #"{"kind":"upload","request":{"url":"\#(origin.url)\#(path)"},"source":{"text":"x"},"#
                + #""retry":{"max_attempts":2,"initial_delay":0.1}}"#)
        #expect(job["state"]?.string == "failed" && job["error"]?["code"]?.string == "unacceptable_status")
        let body = patternBytes(Int(path.split(separator: "/").last ?? "") ?? 0)
        #expect(job["response"]?["content"]?["size"]?.integer == Int64(body.count))
        #expect(job["response"]?["content"]?["sha256"]?.string == hexEncoded(Digest.of(body)))
        #expect(job["result"]?.isNull ?? true)
        let id = try #require(job["id"]?.string)
        for _ in 1...2 {
            let content = try ferry.call("GET", "/v1/jobs/\(id)/content")
            #expect(content.status == 200 && content.body == body)
            #expect(content.header("content-type") == "application/problem+json; v=1")
        }
        let part = try ferry.call("GET", "/v1/jobs/\(id)/content", headers: ["Range": "bytes=2-4"])
        #expect(part.status == 206 && part.body == Array(body[2...4]))
    }

    @Test(
        "a body longer than max_bytes, and one that has not come whole, is not kept",
        arguments: ["/400/300001", "/cut"])
    func notKept(path: String) throws {
        let ferry = try FerryProcess.shared.get().ferry
        let origin = try Self.origin()
        defer { origin.stop() }
        let job = try ferry.run(
            #"{"kind":"upload","request":{"url":"\#(origin.url)\#(path)"},"source":{"text":"x"},"#
                + #""accept":{"max_bytes":300000},"retry":{"max_attempts":1}}"#)
        #expect(job["state"]?.string == "failed" && job["error"]?["code"]?.string == "unacceptable_status")
        #expect(job["response"]?["status"]?.integer == 400)
        #expect(job["response"]?["content"] == nil)
        let id = try #require(job["id"]?.string)
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content").status == 409)
    }
}
