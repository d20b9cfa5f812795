import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Edits of waiting and running jobs", .onOwnThread)
struct EditTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func patch(_ id: String, _ body: String) throws -> (status: Int, json: JSON) {
        let response = try ferry.call("PATCH", "/v1/jobs/\(id)", body)
        return (response.status, try response.json)
    }

    @Test("a running download continues at the URL and with the credentials that PATCH has set")
    func running() throws {
        let bytes = patternBytes(400_000, seed: 92)
        let (begun, gate) = (Signal<Void>(), Gate())
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let answer = RangeOrigin.answer(to: request, bytes)
                if request.path == "/old" {
                    connection.send(Array(answer.prefix(answer.count / 2)))
                    begun.fire(())
                    _ = gate.pass()
                    return
                }
                guard connection.send(answer) else { return }
            }
        }
        defer {
            gate.open()
            origin.stop()
        }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/old","#
                + #""auth":{"type":"basic","user":"u","password":"old"}},"destination":{"path":"edit/a"},"#
                + #""retry":{"max_attempts":1}}"#)
        _ = begun.wait(for: 1)
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(id)")["state"]?.string == "running" })
        let edited = try patch(
            id,
            #"{"request":{"url":"\#(origin.url)/new","headers":{"X-A":"b"},"#
                + #""auth":{"type":"bearer","token":"fresh"}}}"#)
        #expect(edited.status == 200, "\(edited.json)")
        #expect(edited.json["request"]?["auth"]?["token"]?["set"]?.bool == true)
        #expect(edited.json["request"]?["auth"]?["user"]?.isNull == true)
        #expect(try patch(id, #"{"request":{"timeout_for_request":9}}"#).status == 409)
        gate.open()
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded" && end["attempt"]?.integer == 1, "\(end)")
        #expect(readFile(ferry.files + "/edit/a") == bytes)
        #expect(origin.requests.map(\.path) == ["/old", "/new"])
        let last = try #require(origin.requests.last)
        #expect(last.header("authorization") == "Bearer fresh" && last.header("x-a") == "b")
        #expect(last.header("range") != nil)
        #expect(try sent(id) == ["\(origin.url)/old", "\(origin.url)/new"])
    }

    /// Returns the URLs of all requests of a job.
    private func sent(_ id: String) throws -> [String] {
        let attempts = try ferry.json("GET", "/v1/jobs/\(id)/attempts")["data"]?.array ?? []
        return attempts.flatMap { $0["transactions"]?.array ?? [] }
            .compactMap { $0["request"]?["url"]?.string }
    }

    @Test("attempts show the URL that they requested, also after an edit of the job's URL")
    func earlierURLs() throws {
        let (begun, gate) = (Signal<Void>(), Gate())
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                if request.path == "/last" {
                    begun.fire(())
                    _ = gate.pass()
                }
                let isWrong = request.path == "/broken?q=1"
                connection.send("HTTP/1.1 \(isWrong ? 503 : 200) X\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        defer {
            gate.open()
            origin.stop()
        }
        let waiting = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/broken?q=1"},"#
                + #""retry":{"initial_delay":2,"max_delay":2}}"#)
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(waiting)")["waiting_for"]?.string == "retry" })
        #expect(try patch(waiting, #"{"request":{"url":"\#(origin.url)/right"}}"#).status == 200)
        #expect(try ferry.finished(waiting)["state"]?.string == "succeeded")
        #expect(try sent(waiting) == ["\(origin.url)/broken?q=1", "\(origin.url)/right"])
        let running = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/last"}}"#)
        _ = begun.wait(for: 1)
        #expect(becomes { try sent(running) == ["\(origin.url)/last"] })
        #expect(try patch(running, #"{"request":{"url":"\#(origin.url)/unused"}}"#).status == 200)
        #expect(becomes { try sent(running) == ["\(origin.url)/last"] })
        gate.open()
        #expect(try ferry.finished(running)["request"]?["url"]?.string == "\(origin.url)/unused")
        #expect(try sent(running) == ["\(origin.url)/last"])
    }

    @Test("a job that waits for a retry uses the edited proxy, and one that waits for its host the new URL")
    func waiting() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let isWrong = request.path == "/broken" && request.header("authorization") == nil
            return Array("HTTP/1.1 \(isWrong ? 503 : 200) X\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let failing = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/broken"},"#
                + #""retry":{"initial_delay":2,"max_delay":2}}"#)
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(failing)")["waiting_for"]?.string == "retry" })
        let auth = #"{"request":{"auth":{"type":"basic","user":"u","password":"p"}}}"#
        #expect(try patch(failing, auth).status == 200)
        #expect(try ferry.finished(failing)["state"]?.string == "succeeded")
        let lost = try ferry.submit(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"#
                + #""schedule":{"waits_for_connectivity":true}}"#)
        let isWaiting = becomes {
            try ferry.json("GET", "/v1/jobs/\(lost)")["waiting_for"]?.string == "connectivity"
        }
        #expect(isWaiting)
        #expect(try patch(lost, #"{"request":{"url":"\#(origin.url)/f"}}"#).status == 200)
        #expect(try ferry.finished(lost)["result"]?["body"]?.string == "ok")
    }

    @Test("credentials that a client cannot read are sent neither to another server nor to another proxy")
    func credentials() throws {
        let id = try ferry.submit(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/","#
                + #""auth":{"type":"basic","user":"u","password":"p"}},"#
                + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#)
        let proxy = #""proxy":{"url":"http://127.0.0.1:2"}"#
        let other = #""url":"http://127.0.0.1:3/""#
        let auth = #""auth":{"type":"basic","user":"u","password":"q"}"#
        for request in [proxy, other, #""auth":{"user":"v"},\#(other)"#] {
            let refused = try patch(id, #"{"request":{\#(request)}}"#)
            #expect(refused.status == 422, "\(request): \(refused.json)")
        }
        for request in ["\(proxy),\(auth)", #""proxy":null,\#(other),"auth":null"#] {
            let taken = try patch(id, #"{"request":{\#(request)}}"#)
            #expect(taken.status == 200, "\(request): \(taken.json)")
        }
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}").status == 200)
    }

    @Test("resume_data alone says which URL a download resumes from")
    func resumeData() throws {
        let size = MeteredOrigin.byteCount
        let origin = try MeteredOrigin(upTo: size / 2)
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f?signature=hush"}}"#)
        let hasHalf = becomes {
            let progress = try ferry.json("GET", "/v1/jobs/\(id)")["progress"]
            return progress?["bytes_received"]?.integer == Int64(size / 2)
        }
        #expect(hasHalf)
        _ = try ferry.call("POST", "/v1/jobs/\(id)/cancel", #"{"produce_resume_data":true}"#)
        let data = try #require(try ferry.finished(id)["resume_data"]?.string)
        #expect(!String(decoding: Base64.decode(data) ?? [], as: UTF8.self).contains("hush"))
        origin.allow(upTo: size)
        let end = try ferry.run(#"{"kind":"download","resume_data":"\#(data)"}"#)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(end["request"]?["url"]?.string == origin.url + "/f?signature=hush")
        #expect(end["progress"]?["resumed_at_offset"]?.integer == Int64(size / 2))
        let wrong = try ferry.call("POST", "/v1/jobs", #"{"kind":"download","resume_data":"AAAA"}"#)
        #expect(wrong.status == 422, "\(wrong.text)")
    }
}
