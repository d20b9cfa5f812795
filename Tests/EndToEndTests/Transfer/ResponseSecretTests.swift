import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

/// Secrets of responses and URLs: who sees them, and where they are stored.
@Suite("Secrets in responses", .onOwnThread)
struct ResponseSecretTests {
    /// Occurs in every secret value, and nowhere else.
    private static let mark = "hush"
    private static let set = JSON.object([.init("set", .bool(true))])

    private struct Bench {
        let database: TestDatabase
        let ferry: FerryProcess
        let origin: ScriptedOrigin
        let receiver: WebhookReceiver
        let viewer: String
        let client: String

        init() throws {
            database = try TestDatabase()
            ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
            origin = try ScriptedOrigin { connection in
                while let request = connection.readRequest() {
                    if request.path.hasPrefix("/start") {
                        connection.send(
                            "HTTP/1.1 302 Found\r\nLocation: /end?X-Amz-Signature=hush-place&n=1\r\n"
                                + "Set-Cookie: first=hush-first\r\nContent-Length: 0\r\n\r\n")
                    } else {
                        connection.send(
                            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: a=hush-cookie\r\n"
                                + "X-Session-Token: hush-token\r\nX-Unheard-Of: hush-field\r\n"
                                + "Location: /hush-location\r\nETag: \"tag\"\r\nContent-Length: 2\r\n\r\nok")
                    }
                }
            }
            receiver = try WebhookReceiver()
            viewer = try ferry.makeKey(role: "viewer", tenant: "default")
            client = try ferry.makeKey(role: "client", tenant: "default")
        }

        func stop() {
            receiver.stop()
            origin.stop()
            ferry.remove()
        }

        func body(_ more: String = "") -> String {
            #"{"kind":"data","request":{"url":"\#(origin.url)/start?sig=hush-own","#
                + #""headers":{"X-Unheard-Of":"hush-sent","Accept":"*/*"}},"#
                + #""webhook":{"url":"\#(receiver.url)/hook","events":["job.created","job.succeeded","#
                + #""job.redirect"]}\#(more)}"#
        }

        /// Every row of every table as text, and every file that Ferry has.
        func isAnywhere(_ text: String) throws -> [String] {
            let hex = hexadecimal(Array(text.utf8))
            var places: [String] = []
            let dump = try Program.run(
                ["psql", "-XAt", database.url],
                input: #"""
                    SELECT format('SELECT %L || t::text FROM %I.%I AS t', tablename, schemaname, tablename)
                    FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') \gexec
                    """#)
            #expect(dump.status == 0 && dump.output.contains("finished_jobs"), "\(dump.messages)")
            places += dump.output.split(separator: "\n").filter { $0.contains(text) || $0.contains(hex) }
                .map(String.init)
            let found = try Program.run(["grep", "-rl", text, ferry.directory])
            return places + found.output.split(separator: "\n").map(String.init)
        }
    }

    private static func text(_ answer: BufferedRequest.Response) -> String {
        String(decoding: answer.body, as: UTF8.self)
    }

    @Test("clients and admins see the values, viewers see that there are some")
    func roles() throws {
        let bench = try Bench()
        defer { bench.stop() }
        let job = try bench.ferry.run(bench.body(), key: bench.client)
        let id = try #require(job["id"]?.string)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        let end = "\(bench.origin.url)/end?X-Amz-Signature="
        for key in [bench.client, adminKey] {
            for path in ["/v1/jobs/\(id)", "/v1/jobs?limit=1", "/v1/sessions/default/jobs?limit=1"] {
                let found = try bench.ferry.json("GET", path, key: key)
                let job = found["data"]?.array?.first ?? found
                #expect(job["request"]?["url"]?.string == "\(bench.origin.url)/start?sig=hush-own")
                #expect(job["request"]?["headers"]?["X-Unheard-Of"]?.string == "hush-sent")
                let response = try #require(job["response"])
                #expect(response["url"]?.string == end + "hush-place&n=1")
                #expect(response["headers"]?["Set-Cookie"]?.string == "a=hush-cookie")
                #expect(response["headers"]?["X-Session-Token"]?.string == "hush-token")
                #expect(response["headers"]?["Location"]?.string == "/hush-location")
                #expect(response["sealed"] == nil)
            }
            let urls = try Self.urls(bench.ferry.json("GET", "/v1/jobs/\(id)/attempts", key: key))
            #expect(urls == ["\(bench.origin.url)/start?sig=hush-own", end + "hush-place&n=1"])
        }
        for path in [
            "/v1/jobs/\(id)", "/v1/jobs", "/v1/sessions/default/jobs", "/v1/jobs/\(id)/attempts",
            "/v1/events", "/v1/jobs/\(id)/events", "/v1/jobs/\(id)/deliveries",
        ] {
            let answer = try bench.ferry.call("GET", path, key: bench.viewer)
            #expect(answer.status == 200 && !Self.text(answer).contains(Self.mark), "\(path)")
        }
        let seen = try bench.ferry.json("GET", "/v1/jobs/\(id)", key: bench.viewer)
        #expect(seen["request"]?["url"]?.string == "\(bench.origin.url)/start?sig=***")
        #expect(seen["request"]?["headers"]?["X-Unheard-Of"] == Self.set)
        #expect(seen["request"]?["headers"]?["Accept"]?.string == "*/*")
        let response = try #require(seen["response"])
        #expect(response["url"]?.string == end + "***&n=***" && response["sealed"] == nil)
        for name in ["Set-Cookie", "X-Session-Token", "X-Unheard-Of", "Location"] {
            #expect(response["headers"]?[name] == Self.set, "\(name)")
        }
        #expect(response["headers"]?["ETag"]?.string == "\"tag\"")
        let urls = try Self.urls(bench.ferry.json("GET", "/v1/jobs/\(id)/attempts", key: bench.viewer))
        #expect(urls == ["\(bench.origin.url)/start?sig=***", end + "***&n=***"])
    }

    private static func urls(_ attempts: JSON) -> [String] {
        (attempts["data"]?.array?.first?["transactions"]?.array ?? []).compactMap {
            $0["request"]?["url"]?.string
        }
    }

    @Test("events and webhooks carry no value, whoever listens")
    func events() throws {
        let bench = try Bench()
        defer { bench.stop() }
        let listener = try EventListener(bench.ferry, "/v1/events")
        defer { listener.stop() }
        let job = try bench.ferry.run(bench.body())
        let id = try #require(job["id"]?.string)
        let events = listener.events(3)
        #expect(events.last?.event == "job.succeeded")
        for event in events { #expect(!"\(event.data)".contains(Self.mark)) }
        let response = events.last?.data["data"]?["job"]?["response"]
        #expect(response?["headers"]?["Set-Cookie"] == Self.set)
        let deliveries = bench.receiver.deliveries.wait(for: 2)
        #expect(deliveries.count == 2)
        for delivery in deliveries {
            #expect(!String(decoding: delivery.body, as: UTF8.self).contains(Self.mark))
        }
        let listed = try bench.ferry.call("GET", "/v1/jobs/\(id)/events")
        #expect(!Self.text(listed).contains(Self.mark))
    }

    @Test("nothing of it is readable in the database, in the data directory, or in the log")
    func storage() throws {
        let bench = try Bench()
        defer { bench.stop() }
        let listed = try bench.ferry.call(
            "PUT", "/v1/sessions/s", #"{"http_additional_headers":{"X-Unheard-Of":"hush-session"}}"#)
        #expect(listed.status == 201)
        let schedule = #"{"interval":3600,"job":\#(bench.body())}"#
        _ = try bench.ferry.call("POST", "/v1/schedules", schedule)
        for more in ["", #","session":"s""#] {
            let job = try bench.ferry.run(bench.body(more))
            #expect(job["state"]?.string == "succeeded", "\(job)")
        }
        // One that waits for an answer about a signed URL, and goes on from there.
        let asked = try bench.ferry.submit(bench.body(#","redirects":{"policy":"ask"}"#))
        var place: String?
        let isAsked = becomes {
            place = try bench.ferry.json("GET", "/v1/jobs/\(asked)")["question"]?["redirect"]?["url"]?.string
            return place != nil
        }
        #expect(isAsked && place == "\(bench.origin.url)/end?X-Amz-Signature=hush-place&n=1")
        #expect(try bench.isAnywhere(Self.mark) == [])
        let answer = try bench.ferry.call(
            "POST", "/v1/jobs/\(asked)/redirect", #"{"disposition":"follow"}"#)
        #expect(answer.status == 200, "\(answer.text)")
        let job = try bench.ferry.finished(asked)
        #expect(job["response"]?["status"]?.integer == 200, "\(job)")
        #expect(bench.origin.requests.last?.path == "/end?X-Amz-Signature=hush-place&n=1")
        let patched = try bench.ferry.submit(
            bench.body(#","schedule":{"earliest_begin_at":"2100-01-01T00:00:00Z"}"#))
        let edit = try bench.ferry.call(
            "PATCH", "/v1/jobs/\(patched)", #"{"request":{"url":"\#(bench.origin.url)/end?k=hush-new"}}"#)
        #expect(edit.status == 200, "\(edit.text)")
        let edited = try edit.json
        #expect(edited["request"]?["url"]?.string == "\(bench.origin.url)/end?k=hush-new")
        #expect(try bench.isAnywhere(Self.mark) == [])
        // What was stored is used again.
        let again = try bench.ferry.json(
            "POST", "/v1/jobs/\(asked)/retry", "{}", headers: ["Prefer": "wait=60"])
        #expect(again["request"]?["url"]?.string == "\(bench.origin.url)/start?sig=hush-own")
        bench.ferry.kill9()
        try bench.ferry.start()
        let found = try bench.ferry.json("GET", "/v1/jobs/\(patched)")
        #expect(found["request"]?["url"]?.string == "\(bench.origin.url)/end?k=hush-new")
        #expect(try bench.isAnywhere(Self.mark) == [])
    }
}
