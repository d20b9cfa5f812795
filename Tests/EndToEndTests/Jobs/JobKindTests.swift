import Curl
import FerryCore
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Requests and results of each kind of job", .onOwnThread)
struct JobKindTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Returns an origin that answers with the method and the body of the request, `/missing` with 404, and
    /// `/see` with a redirect to `/f` (303).
    private func makeOrigin() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, body in
            var head = request.path == "/missing" ? "404 No" : "200 OK"
            if request.path == "/see" { head = "303 See\r\nLocation: /f" }
            let text = Array("\(request.method) ".utf8) + body
            return Array(
                "HTTP/1.1 \(head)\r\nContent-Type: text/plain\r\nContent-Length: \(text.count)\r\n\r\n".utf8)
                + text
        }
    }

    private func content(_ job: JSON) throws -> String {
        let path = try #require(job["result"]?["content_url"]?.string)
        let response = try ferry.call("GET", path)
        #expect(response.status == 200)
        return response.text
    }

    @Test("a data job with a destination stores its body as a file, whatever the status")
    func dataDestination() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        for (path, status) in [("/f", 200), ("/missing", 404)] {
            let file = "kinds/data\(status)"
            let job = try ferry.run(
                #"{"kind":"data","request":{"url":"\#(origin.url)\#(path)","method":"POST","#
                    + #""body":{"text":"abc"}},"destination":{"path":"\#(file)","if_exists":"fail"}}"#)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect(job["response"]?["status"]?.integer == Int64(status))
            #expect(job["result"]?["path"]?.string == file && job["result"]?["body"]?.isNull == true)
            #expect(readFile(ferry.files + "/" + file) == Array("POST abc".utf8))
            #expect(try content(job) == "POST abc")
        }
        let count = origin.requests.count
        let taken = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(origin.url)/f"},"#
                + #""destination":{"path":"kinds/data200","if_exists":"fail"}}"#)
        #expect(taken["error"]?["code"]?.string == "destination_exists", "\(taken)")
        #expect(origin.requests.count == count, "before a request")
        let plain = try ferry.run(#"{"kind":"data","request":{"url":"\#(origin.url)/f"}}"#)
        #expect(plain["result"]?["body"]?.string == "GET " && plain["result"]?["path"]?.isNull == true)
    }

    @Test("a download sends a method and a body; a redirect may lead to a GET")
    func downloadBody() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let job = { (path: String, more: String) in
            #"{"kind":"download","request":{"url":"\#(origin.url)\#(path)","method":"POST","#
                + #""body":{"json":{"a":1}}},"destination":{"path":"kinds/post"}\#(more)}"#
        }
        let posted = try ferry.run(job("/f", ""))
        #expect(posted["state"]?.string == "succeeded", "\(posted)")
        #expect(readFile(ferry.files + "/kinds/post") == Array(#"POST {"a":1}"#.utf8))
        #expect(origin.requests.last?.header("content-type") == "application/json")
        #expect(posted["request"]?["body"]?["json"]?["size"]?.integer == 7)
        let seen = try ferry.run(job("/see", ""))
        #expect(seen["state"]?.string == "succeeded", "\(seen)")
        #expect(readFile(ferry.files + "/kinds/post") == Array("GET ".utf8))
        let again = try ferry.json("POST", "/v1/jobs/\(posted["id"]?.string ?? "")/retry", "{}")
        #expect(try ferry.finished(again["id"]?.string ?? "")["state"]?.string == "succeeded")
        for wrong in [
            job("/f", #","segments":2"#),
            #"{"kind":"download","request":{"url":"\#(origin.url)/f","body":{"text":"a"}}}"#,
            #"{"kind":"download","request":{"url":"\#(origin.url)/f","method":"HEAD"}}"#,
        ] {
            #expect(try ferry.call("POST", "/v1/jobs", wrong).status == 422, "\(wrong)")
        }
    }

    @Test("a POST of a download is not repeated after it may have reached the server, unless allowed")
    func repetition() throws {
        let origin = try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            connection.send("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 100000\r\n\r\n")
            connection.send(patternBytes(50_000))
        }
        defer { origin.stop() }
        for (rule, count) in [("", 1), (#","non_idempotent":true"#, 2)] {
            let before = origin.requests.count
            let job = try ferry.run(
                #"{"kind":"download","request":{"url":"\#(origin.url)/f","method":"POST","#
                    + #""body":{"text":"a"}},"retry":{"max_attempts":2,"initial_delay":0\#(rule)}}"#)
            #expect(job["state"]?.string == "failed", "\(job)")
            let requests = origin.requests.dropFirst(before)
            #expect(requests.count == count, "\(requests)")
            #expect(requests.allSatisfy { $0.header("range") == nil })
        }
    }

    @Test("the body of the response to an upload is kept, short or long", arguments: [0, 3, 2_000_000])
    func uploadResponse(byteCount: Int) throws {
        let answer = patternBytes(byteCount, seed: 93)
        let origin = try ScriptedOrigin.answering { _, _ in
            Array(
                ("HTTP/1.1 201 Made\r\nContent-Type: application/x-answer\r\n"
                    + "Content-Length: \(answer.count)\r\n\r\n").utf8) + answer
        }
        defer { origin.stop() }
        let source = byteCount == 3 ? #"{"text":"abc","form":{}}"# : #"{"text":"abc"}"#
        let job = try ferry.run(
            #"{"kind":"upload","request":{"url":"\#(origin.url)/f","method":"POST"},"source":\#(source),"#
                + #""integrity":{"size":3}}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        #expect(job["result"]?["size"]?.integer == 3)
        #expect(job["result"]?["sha256"]?.string == hexadecimal(Digest.of(Array("abc".utf8))))
        guard byteCount > 0 else {
            #expect(job["result"]?["content_url"]?.isNull == true && job["result"]?["content"] == nil)
            return
        }
        #expect(job["result"]?["content"]?["size"]?.integer == Int64(byteCount))
        #expect(job["result"]?["content"]?["sha256"]?.string == hexadecimal(Digest.of(answer)))
        #expect((job["result"]?["body"]?.isNull == true) == (byteCount > 1_000_000))
        let content = try ferry.call("GET", "/v1/jobs/\(job["id"]?.string ?? "")/content")
        #expect(content.status == 200 && content.body == answer)
        #expect(content.header("content-type") == "application/x-answer")
    }

    @Test("the response to an upload is decoded if the job asks for codings")
    func codedResponse() throws {
        let text = String(repeating: "so it goes. ", count: 1_000)
        let origin = try ScriptedOrigin.answering { request, _ in
            let isAsked = request.header("accept-encoding") == "gzip"
            let bytes = isAsked ? Coded.gzip(Array(text.utf8)) : Array("plain".utf8)
            return Array(
                ("HTTP/1.1 200 OK\r\n" + (isAsked ? "Content-Encoding: gzip\r\n" : "")
                    + "Content-Length: \(bytes.count)\r\n\r\n").utf8) + bytes
        }
        defer { origin.stop() }
        for (choice, kept) in [("gzip", text), ("identity", "plain")] {
            let job = try ferry.run(
                #"{"kind":"upload","request":{"url":"\#(origin.url)/f","accept_encoding":"\#(choice)"},"#
                    + #""source":{"text":"abc"}}"#)
            #expect(job["result"]?["body"]?.string == kept, "\(job)")
            #expect(job["result"]?["content"]?["size"]?.integer == Int64(kept.utf8.count))
        }
    }

    @Test("ferry get sends a method and a body")
    func client() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let run = { (arguments: [String]) in
            try Program.run(
                [Program.ferry, "get", origin.url + "/f"] + arguments,
                environment: ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey])
        }
        let sent = try run(["--method", "POST", "--body", "abc", "-o", "-"])
        #expect(sent.status == 0 && sent.output == "POST abc", "\(sent)")
        #expect(try run(["--body", "abc"]).status == 2)
    }

    @Test("use_new_request changes the method and the body")
    func newRequest() throws {
        let origin = try makeOrigin()
        defer { origin.stop() }
        let cases: [(kind: String, old: String, new: String, sent: String?)] = [
            ("data", "", #""method":"POST","body":{"json":[1]}"#, "POST [1]"),
            ("data", #","method":"POST","body":{"text":"abc"}"#, #""body":{"form":{"a":"b"}}"#, "POST a=b"),
            ("data", #","method":"POST","body":{"text":"abc"}"#, #""method":"GET","body":null"#, "GET "),
            ("data", #","method":"POST","body":{"text":"abc"}"#, #""method":"PUT""#, "PUT abc"),
            ("download", "", #""method":"POST","body":{"text":"x"}"#, "POST x"),
            ("data", #","method":"POST","body":{"text":"abc"}"#, #""method":"GET""#, nil),
            ("data", "", #""body":{"text":"x"}"#, nil),
            ("upload", "", #""body":{"text":"x"}"#, nil),
            ("upload", "", #""method":"POST""#, "POST abc"),
        ]
        for (kind, old, new, sent) in cases {
            let source = kind == "upload" ? #","source":{"text":"abc"}"# : ""
            let id = try ferry.submit(
                #"{"kind":"\#(kind)","request":{"url":"\#(origin.url)/f"\#(old)},"#
                    + #""schedule":{"confirm_before_begin":true}\#(source)}"#)
            #expect(becomes { try ferry.json("GET", "/v1/jobs/\(id)")["question"]?.isNull == false })
            let patch = try ferry.call("PATCH", "/v1/jobs/\(id)", #"{"request":{\#(new)}}"#)
            #expect(patch.status == 422, "only an answer may change it: \(patch.text)")
            let answer = try ferry.call(
                "POST", "/v1/jobs/\(id)/begin", #"{"disposition":"use_new_request","request":{\#(new)}}"#)
            guard let sent else {
                #expect(answer.status == 422, "\(kind) \(new): \(answer.text)")
                _ = try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}")
                continue
            }
            #expect(answer.status == 200, "\(kind) \(new): \(answer.text)")
            let job = try ferry.finished(id)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect(try content(job) == sent, "\(kind) \(new)")
        }
    }
}
