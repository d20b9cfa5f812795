import Curl
import FerryCore
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Request bodies and results", .onOwnThread)
struct BodyTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Runs `body` with an origin that responds with the digest of each request body, and with a signal that
    /// fires with each body.
    private func withOrigin(_ body: (ScriptedOrigin, Signal<[UInt8]>) throws -> Void) throws {
        let bodies = Signal<[UInt8]>()
        let origin = try ScriptedOrigin.answering { request, body in
            bodies.fire(body)
            let text = hexadecimal(Digest.of(body))
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
        defer { origin.stop() }
        try body(origin, bodies)
    }

    @Test("an upload sends the result of another job of its tenant: file, managed file or body")
    func resultOfAJob() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(400_000)
        try nginx.serve("large.bin", bytes)
        try nginx.serve("small", [1, 2, 3])
        try withOrigin { origin, bodies in
            let url = #""request":{"url":"\#(nginx.url)/"#
            let file = try ferry.run(
                #"{"kind":"download",\#(url)large.bin"},"destination":{"path":"sent/on.bin"}}"#)
            let managed = try ferry.run(#"{"kind":"download",\#(url)large.bin"}}"#)
            let long = try ferry.run(#"{"kind":"data",\#(url)large.bin"}}"#)
            let body = try ferry.run(#"{"kind":"data",\#(url)small"}}"#)
            for (job, expected) in [(file, bytes), (managed, bytes), (long, bytes), (body, [1, 2, 3])] {
                let id = try #require(job["id"]?.string)
                let upload = try ferry.run(
                    #"{"kind":"upload","request":{"url":"\#(origin.url)/"},"source":{"job":"\#(id)"}}"#)
                #expect(upload["state"]?.string == "succeeded", "\(upload)")
                #expect(upload["source"]?["job"]?.string == id)
                #expect(upload["result"]?["sha256"] == job["result"]?["sha256"])
                #expect(bodies.wait().first == expected)
            }
            let id = try #require(managed["id"]?.string)
            let source = #""request":{"url":"\#(origin.url)/"},"source":{"job":"\#(id)"}}"#
            let key = try ferry.makeKey(role: "client", tenant: "somebody-else")
            let foreign = try ferry.call("POST", "/v1/jobs", #"{"kind":"upload",\#(source)"#, key: key)
            #expect(foreign.status == 422, "\(foreign.text)")
            let waiting = try ferry.submit(
                #"{"kind":"upload","schedule":{"confirm_before_begin":true},\#(source)"#)
            #expect(try ferry.call("DELETE", "/v1/jobs/\(id)").status == 204)
            let isBegun = becomes {
                let answer = #"{"disposition":"continue_loading"}"#
                return try ferry.call("POST", "/v1/jobs/\(waiting)/begin", answer).status == 200
            }
            #expect(isBegun)
            let missing = try ferry.finished(waiting)
            #expect(missing["error"]?["code"]?.string == "source_not_found", "\(missing)")
        }
    }

    @Test("the last part of a multipart/x-mixed-replace response is the result, with its own type")
    func replacedParts() throws {
        let text =
            "--b\r\nContent-Type: text/plain\r\n\r\nold\r\n--b\r\nContent-Type: image/gif\r\n\r\nnew\r\n--b--"
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=b\r\n\r\n")
            connection.send(text)
        }
        defer { origin.stop() }
        let job = try ferry.run(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
        #expect(job["result"]?["body"] == .string("new"), "\(job)")
        #expect(job["result"]?["parts"]?["count"] == .integer(2))
        let id = try #require(job["id"]?.string)
        let content = try ferry.call("GET", "/v1/jobs/\(id)/content")
        #expect(content.body == Array("new".utf8) && content.header("content-type") == "image/gif")
    }

    @Test("a body above the inline limit is stored as a file and returned as content")
    func longBody() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(Limits.inlineBodyByteCountMax + 1)
        try nginx.serve("long", bytes)
        let job = try ferry.run(#"{"kind":"data","request":{"url":"\#(nginx.url)/long"}}"#)
        #expect(job["state"]?.string == "succeeded" && job["result"]?["body"]?.isNull == true, "\(job)")
        #expect(job["result"]?["path"]?.isNull == true)
        #expect(job["result"]?["size"]?.integer == Int64(bytes.count))
        let id = job["id"]?.string ?? ""
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content").body == bytes)
        #expect(try ferry.call("DELETE", "/v1/jobs/\(id)").status == 204)
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content").status == 404)
    }

    @Test("a multipart body sends fields, files and other jobs' results; the job shows no bytes of them")
    func multipart() throws {
        try withOrigin { origin, bodies in
            try writeFile(ferry.files + "/form.csv", Array("a,b\n".utf8))
            let other = try ferry.run(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
            _ = bodies.wait()
            let job = try ferry.run(
                #"{"kind":"data","request":{"url":"\#(origin.url)/form","method":"POST","#
                    + #""body":{"multipart":[{"name":"größe","text":"hush-hush"},"#
                    + #"{"name":"f","path":"form.csv","content_type":"text/csv"},"#
                    + #"{"name":"b","base64":"AAEC"},{"name":"j","job":"\#(other["id"]?.string ?? "")"}]}}}"#)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect(!"\(job)".contains("hush-hush"))
            #expect(job["request"]?["body"]?["multipart"]?.array?.count == 4)
            let request = try #require(origin.requests.last)
            let body = try #require(bodies.wait().first)
            #expect(request.header("content-length") == "\(body.count)")
            let text = String(decoding: body, as: UTF8.self)
            for part in [
                "name=\"größe\"\r\n\r\nhush-hush\r\n",
                "name=\"f\"; filename=\"form.csv\"\r\nContent-Type: text/csv\r\n\r\na,b\n\r\n",
                "name=\"b\"\r\nContent-Type: application/octet-stream\r\n\r\n\u{0}\u{1}\u{2}\r\n",
                hexadecimal(Digest.of([])),
            ] {
                #expect(text.contains(part), "\(text)")
            }
            let again = try ferry.json("POST", "/v1/jobs/\(job["id"]?.string ?? "")/retry", "{}")
            _ = try ferry.finished(again["id"]?.string ?? "")
            let second = try #require(bodies.wait().first)
            #expect(second.count == body.count && second != body)
        }
    }

    @Test("an upload in a form has the file's digest and size, and a 307 gets the whole form again")
    func uploadForm() throws {
        let bodies = Signal<[UInt8]>()
        let origin = try ScriptedOrigin.answering { request, body in
            bodies.fire(body)
            let head = request.path == "/end" ? "201 Created" : "307 x\r\nLocation: end"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        let bytes = patternBytes(1_200_000)
        try writeFile(ferry.files + "/large form.bin", bytes)
        let job = try ferry.run(
            #"{"kind":"upload","request":{"url":"\#(origin.url)/","method":"POST"},"source":{"#
                + #""path":"large form.bin","form":{"field":"photo","fields":{"title":"Häfen"}}}}"#)
        #expect(job["state"]?.string == "succeeded" && job["response"]?["status"]?.integer == 201, "\(job)")
        #expect(job["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
        #expect(job["result"]?["size"]?.integer == 1_200_000)
        let received = bodies.wait(for: 2)
        #expect(received.count == 2 && received[0] == received[1])
        let text = String(decoding: received[1].prefix(1_000), as: UTF8.self)
        #expect(text.contains("name=\"title\"\r\n\r\nHäfen\r\n"))
        #expect(text.contains("name=\"photo\"; filename=\"large form.bin\"\r\n"))
        #expect(received[1].firstRange(of: bytes) != nil)
    }

    @Test("a destination directory gets a file with the sanitized name that the server suggests")
    func suggestedName() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let name = String(request.path.dropFirst())
            let header = name == "plain.txt" ? "" : "Content-Disposition: attachment; \(name)\r\n"
            return Array("HTTP/1.1 200 OK\r\n\(header)Content-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        for (path, expected) in [
            ("plain.txt", "plain.txt"), ("plain.txt", "plain-1.txt"),
            ("filename=../../etc", "etc"), ("filename=.ferry-x", "ferry-x"),
            ("filename*=utf-8''a%C3%A4.b", "aä.b"),
        ] {
            let job = try ferry.run(
                #"{"kind":"download","request":{"url":"\#(origin.url)/\#(path)"},"#
                    + #""destination":{"path":"inbox/"}}"#)
            #expect(job["result"]?["path"]?.string == "inbox/" + expected, "\(job)")
            #expect(job["destination"]?["if_exists"]?.string == "rename")
        }
    }

    @Test("a response that violates accept.status, content_type or max_bytes fails the job")
    func acceptance() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let head =
                switch request.path {
                case "/png": "200 OK\r\nContent-Type: image/png; q=1\r\nContent-Length: 3\r\n\r\nabc"
                case "/none": "200 OK\r\nContent-Length: 3\r\n\r\nabc"
                case "/gone": "410 Gone\r\nContent-Length: 3\r\n\r\nabc"
                case "/away": "302 Found\r\nLocation: /png\r\nContent-Length: 3\r\n\r\nabc"
                default: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
                }
            return Array("HTTP/1.1 \(head)".utf8)
        }
        defer { origin.stop() }
        for (path, more, code) in [
            ("png", #""accept":{"content_type":["image/*"]}"#, nil),
            ("png", #""accept":{"content_type":["text/plain"]}"#, "unacceptable_content_type"),
            ("none", #""accept":{"content_type":["text/plain"]}"#, "unacceptable_content_type"),
            ("none", #""accept":{"content_type":["*/*"],"max_bytes":3}"#, nil),
            ("none", #""accept":{"max_bytes":2}"#, "response_too_large"),
            ("chunks", #""accept":{"max_bytes":6}"#, nil),
            ("chunks", #""accept":{"max_bytes":5}"#, "response_too_large"),
            ("gone", #""accept":{}"#, "unacceptable_status"), ("gone", #""accept":{"status":["4xx"]}"#, nil),
            ("png", #""accept":{"status":["404","204"]}"#, "unacceptable_status"),
            ("away", #""redirects":{"policy":"reject"}"#, "unacceptable_status"),
            ("away", #""redirects":{"policy":"reject"},"accept":{"status":["302"]}"#, nil),
        ] as [(String, String, String?)] {
            let job = try ferry.run(
                #"{"kind":"download","request":{"url":"\#(origin.url)/\#(path)"},\#(more)}"#)
            #expect(job["error"]?["code"]?.string == code, "\(path) \(more): \(job)")
            #expect(job["state"]?.string == (code == nil ? "succeeded" : "failed"))
            #expect(job["response"]?["status"]?.integer != nil)
        }
    }
}
