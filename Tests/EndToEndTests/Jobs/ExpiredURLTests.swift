import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

private let bytes = patternBytes(400_000, seed: 91)

@Suite("Outdated URLs and credentials", .onOwnThread)
struct ExpiredURLTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Returns an origin: `/new` has the file; other paths answer with this status.
    private func makeOrigin(_ status: Int) throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, _ in
            guard request.path != "/new" else { return RangeOrigin.answer(to: request, bytes) }
            return Array(
                ("HTTP/1.1 \(status) Gone\r\nX-Request-Id: r1\r\nSet-Cookie: sid=hush\r\n"
                    + "Content-Length: 0\r\n\r\n").utf8)
        }
    }

    private func awaitQuestion(_ id: String) throws -> JSON {
        let isAsked = becomes {
            try ferry.json("GET", "/v1/jobs/\(id)")["question"]?["kind"]?.string == "url_expired"
        }
        let job = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(isAsked && job["state"]?.string == "waiting", "\(job)")
        return job
    }

    private func submit(_ kind: String, _ url: String, _ more: String = "") throws -> String {
        let source = kind == "upload" ? #","source":{"text":"abc"}"# : ""
        return try ferry.submit(
            #"{"kind":"\#(kind)","request":{"url":"\#(url)"},"on_url_expired":"ask","#
                + #""retry":{"max_attempts":1}\#(source)\#(more)}"#)
    }

    private static let jobs: [(kind: String, more: String)] = [
        ("download", ""), ("download", #","segments":4"#), ("data", ""), ("upload", ""),
        ("data", #","on_challenge":"ask""#),
    ]

    @Test("each kind of job asks for another URL without using an attempt", arguments: [401, 403, 410])
    func kinds(status: Int) throws {
        let origin = try makeOrigin(status)
        defer { origin.stop() }
        for (index, (kind, more)) in Self.jobs.enumerated() {
            let id = try submit(kind, origin.url + "/old?signature=1", more)
            let job = try awaitQuestion(id)
            #expect(job["waiting_for"]?.string == "url_expired")
            #expect(job["waiting_reason"]?["code"]?.string == "url_expired")
            let response = job["question"]?["response"]
            #expect(response?["status"]?.integer == Int64(status), "\(job)")
            let fields = response?["header_fields"]?.array ?? []
            let value = { (name: String) in fields.first { $0["name"]?.string == name }?["value"] }
            #expect(value("X-Request-Id")?.string == "r1")
            #expect(value("Set-Cookie")?["set"]?.bool == true)
            // The answer, or a change of the job.
            let url = #"{"url":"\#(origin.url)/new"}"#
            let changed =
                index % 2 == 0
                ? try ferry.call("PATCH", "/v1/jobs/\(id)", #"{"request":\#(url)}"#)
                : try ferry.call(
                    "POST", "/v1/jobs/\(id)/url_expired",
                    #"{"disposition":"use_new_request","request":\#(url)}"#)
            #expect(changed.status == 200, "\(changed.text)")
            let end = try ferry.finished(id)
            #expect(end["state"]?.string == "succeeded", "\(end)")
            let attempts = try ferry.json("GET", "/v1/jobs/\(id)/attempts")["data"]?.array ?? []
            #expect(attempts.map { $0["outcome"]?.string } == ["asked", "succeeded"], "\(attempts)")
        }
    }

    @Test("a question that no client answers fails the job; cancel cancels it")
    func unanswered() throws {
        let origin = try makeOrigin(403)
        defer { origin.stop() }
        let url = origin.url + "/old"
        let id = try submit("download", url, #","questions":{"timeout":1}"#)
        let end = try ferry.finished(id)
        #expect(end["error"]?["code"]?.string == "unacceptable_status", "\(end)")
        #expect(end["answered_by"]?["disposition"]?.string == "perform_default_handling")
        #expect(origin.requests.count == 1)
        let other = try submit("data", url)
        _ = try awaitQuestion(other)
        let wrong = try ferry.call(
            "POST", "/v1/jobs/\(other)/url_expired", #"{"disposition":"perform_default_handling"}"#)
        #expect(wrong.status == 422)
        let cancel = try ferry.json("POST", "/v1/jobs/\(other)/url_expired", #"{"disposition":"cancel"}"#)
        #expect(cancel["state"]?.string == "cancelled")
        let plain = try ferry.run(#"{"kind":"download","request":{"url":"\#(url)"}}"#)
        #expect(plain["error"]?["code"]?.string == "unacceptable_status", "\(plain)")
    }

    @Test("a status that the job accepts by name, or that is retried, is not asked about")
    func accepted() throws {
        let origin = try makeOrigin(403)
        defer { origin.stop() }
        let id = try submit("data", origin.url + "/old", #","accept":{"status":["2xx","403"]}"#)
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded" && end["response"]?["status"]?.integer == 403, "\(end)")
        let retried = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(origin.url)/old"},"on_url_expired":"ask","#
                + #""retry":{"max_attempts":1,"statuses":["403"]}}"#)
        #expect(retried["error"]?["code"]?.string == "unacceptable_status", "\(retried)")
    }

    @Test("the bytes that are there are continued at the new URL", arguments: [1, 4])
    func bytesStay(segments: Int) throws {
        let count = Counter()
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let answer = RangeOrigin.answer(to: request, bytes)
                if request.path == "/new" {
                    guard connection.send(answer) else { return }
                } else if count.next() == 0 {
                    connection.send(Array(answer.prefix(answer.count / 2)))
                    return
                } else {
                    guard connection.send("HTTP/1.1 403 Expired\r\nContent-Length: 0\r\n\r\n") else { return }
                }
            }
        }
        defer { origin.stop() }
        let id = try submit(
            "download", origin.url + "/old",
            #","segments":\#(segments),"destination":{"path":"expired/\#(segments)"}"#)
        _ = try awaitQuestion(id)
        let changed = try ferry.call(
            "PATCH", "/v1/jobs/\(id)", #"{"request":{"url":"\#(origin.url)/new"}}"#)
        #expect(changed.status == 200, "\(changed.text)")
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(end["progress"]?["resumed_at_offset"]?.integer ?? 0 > 100_000, "\(end)")
        #expect(readFile(ferry.files + "/expired/\(segments)") == bytes)
    }

    @Test("the questions about a redirect and a challenge show the head of the response")
    func heads() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let head =
                request.path == "/r"
                ? "302 Found\r\nLocation: /f?token=hush" : "401 No\r\nWWW-Authenticate: Basic realm=\"a\""
            return Array("HTTP/1.1 \(head)\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        for (path, kind, status) in [("/r", "redirect", 302), ("/c", "challenge", 401)] {
            let id = try ferry.submit(
                #"{"kind":"data","request":{"url":"\#(origin.url)\#(path)"},"redirects":{"policy":"ask"},"#
                    + #""on_challenge":"ask"}"#)
            let question = { try ferry.json("GET", "/v1/jobs/\(id)")["question"] }
            #expect(becomes { try question()?["kind"]?.string == kind })
            let response = try question()?["response"]
            #expect(response?["status"]?.integer == Int64(status))
            let names = response?["header_fields"]?.array?.map { $0["name"]?.string } ?? []
            #expect(names.contains("Retry-After"))
            #expect(!"\(response ?? .null)".contains("hush"))
        }
    }
}
