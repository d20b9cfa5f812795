import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

/// Secrets of responses and URLs: which roles see them, and how they are stored.
@Suite("Secrets in responses", .onOwnThread)
struct ResponseSecretTests {
    /// Text that occurs in every secret value and nowhere else.
    private static let mark = "hush"
    private static let set = JSON.object([.init("set", .bool(true))])

    private struct Setup {
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

        /// Returns the rows of all tables and the paths of all files of Ferry that contain `text`.
        func occurrences(_ text: String) throws -> [String] {
            let hex = hexadecimal(Array(text.utf8))
            var found: [String] = []
            let dump = try Program.run(
                ["psql", "-XAt", database.url],
                input: #"""
                    SELECT format('SELECT %L || t::text FROM %I.%I AS t', tablename, schemaname, tablename)
                    FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema') \gexec
                    """#)
            #expect(dump.status == 0 && dump.output.contains("finished_jobs"), "\(dump.messages)")
            found += dump.output.split(separator: "\n").filter { $0.contains(text) || $0.contains(hex) }
                .map(String.init)
            let files = try Program.run(["grep", "-rl", text, ferry.directory])
            return found + files.output.split(separator: "\n").map(String.init)
        }
    }

    private static func text(_ response: BufferedRequest.Response) -> String {
        String(decoding: response.body, as: UTF8.self)
    }

    @Test("clients and admins see secret values of responses and URLs; viewers see only that they are set")
    func roles() throws {
        let setup = try Setup()
        defer { setup.stop() }
        let job = try setup.ferry.run(setup.body(), key: setup.client)
        let id = try #require(job["id"]?.string)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        let end = "\(setup.origin.url)/end?X-Amz-Signature="
        for key in [setup.client, adminKey] {
            for path in ["/v1/jobs/\(id)", "/v1/jobs?limit=1", "/v1/sessions/default/jobs?limit=1"] {
                let found = try setup.ferry.json("GET", path, key: key)
                let job = found["data"]?.array?.first ?? found
                #expect(job["request"]?["url"]?.string == "\(setup.origin.url)/start?sig=hush-own")
                #expect(job["request"]?["headers"]?["X-Unheard-Of"]?.string == "hush-sent")
                let response = try #require(job["response"])
                #expect(response["url"]?.string == end + "hush-place&n=1")
                #expect(response["headers"]?["Set-Cookie"] == nil)
                #expect(Self.line("Set-Cookie", response) == "a=hush-cookie")
                #expect(Self.line("Location", response) == "/hush-location")
                #expect(response["headers"]?["X-Session-Token"]?.string == "hush-token")
                #expect(response["headers"]?["Location"]?.string == "/hush-location")
                #expect(response["sealed"] == nil)
            }
            let urls = try Self.urls(setup.ferry.json("GET", "/v1/jobs/\(id)/attempts", key: key))
            #expect(urls == ["\(setup.origin.url)/start?sig=hush-own", end + "hush-place&n=1"])
        }
        for path in [
            "/v1/jobs/\(id)", "/v1/jobs", "/v1/sessions/default/jobs", "/v1/jobs/\(id)/attempts",
            "/v1/events", "/v1/jobs/\(id)/events", "/v1/jobs/\(id)/deliveries",
        ] {
            let list = try setup.ferry.call("GET", path, key: setup.viewer)
            #expect(list.status == 200 && !Self.text(list).contains(Self.mark), "\(path)")
        }
        let viewerJob = try setup.ferry.json("GET", "/v1/jobs/\(id)", key: setup.viewer)
        #expect(viewerJob["request"]?["url"]?.string == "\(setup.origin.url)/start?sig=***")
        #expect(viewerJob["request"]?["headers"]?["X-Unheard-Of"] == Self.set)
        #expect(viewerJob["request"]?["headers"]?["Accept"]?.string == "*/*")
        let response = try #require(viewerJob["response"])
        #expect(response["url"]?.string == end + "***&n=***" && response["sealed"] == nil)
        for name in ["X-Session-Token", "X-Unheard-Of", "Location"] {
            #expect(response["headers"]?[name] == Self.set, "\(name)")
            #expect(Self.line(name, response) == Self.set, "\(name)")
        }
        #expect(Self.line("Set-Cookie", response) == Self.set)
        #expect(response["headers"]?["ETag"]?.string == "\"tag\"")
        let urls = try Self.urls(setup.ferry.json("GET", "/v1/jobs/\(id)/attempts", key: setup.viewer))
        #expect(urls == ["\(setup.origin.url)/start?sig=***", end + "***&n=***"])
    }

    /// Returns the value of a response's header field in `header_fields`.
    private static func line(_ name: String, _ response: JSON) -> JSON? {
        response["header_fields"]?.array?.first { $0["name"]?.string == name }?["value"]
    }

    private static func urls(_ attempts: JSON) -> [String] {
        (attempts["data"]?.array?.first?["transactions"]?.array ?? []).compactMap {
            $0["request"]?["url"]?.string
        }
    }

    @Test("events and webhooks contain no secret values of responses and URLs")
    func events() throws {
        let setup = try Setup()
        defer { setup.stop() }
        let listener = try EventListener(setup.ferry, "/v1/events")
        defer { listener.stop() }
        // The stream has the events from its head on.
        #expect(listener.head.wait().first?.contains(" 200 ") == true)
        let job = try setup.ferry.run(setup.body())
        let id = try #require(job["id"]?.string)
        let events = listener.events(3)
        #expect(events.last?.event == "job.succeeded")
        for event in events { #expect(!"\(event.data)".contains(Self.mark)) }
        let response = events.last?.data["data"]?["job"]?["response"]
        #expect(response.flatMap { Self.line("Set-Cookie", $0) } == Self.set)
        let deliveries = setup.receiver.deliveries.wait(for: 2)
        #expect(deliveries.count == 2)
        for delivery in deliveries {
            #expect(!String(decoding: delivery.body, as: UTF8.self).contains(Self.mark))
        }
        let listed = try setup.ferry.call("GET", "/v1/jobs/\(id)/events")
        #expect(!Self.text(listed).contains(Self.mark))
    }

    @Test("secret values of responses and URLs are not readable in database, files or log")
    func storage() throws {
        let setup = try Setup()
        defer { setup.stop() }
        let listed = try setup.ferry.call(
            "PUT", "/v1/sessions/s", #"{"http_additional_headers":{"X-Unheard-Of":"hush-session"}}"#)
        #expect(listed.status == 201)
        let schedule = #"{"interval":3600,"job":\#(setup.body())}"#
        _ = try setup.ferry.call("POST", "/v1/schedules", schedule)
        for more in ["", #","session":"s""#] {
            let job = try setup.ferry.run(setup.body(more))
            #expect(job["state"]?.string == "succeeded", "\(job)")
        }
        // A job that waits for an answer to a redirect with a signed URL.
        let redirected = try setup.ferry.submit(setup.body(#","redirects":{"policy":"ask"}"#))
        var target: String?
        let isAsked = becomes {
            target = try setup.ferry.json("GET", "/v1/jobs/\(redirected)")["question"]?["redirect"]?["url"]?
                .string
            return target != nil
        }
        #expect(isAsked && target == "\(setup.origin.url)/end?X-Amz-Signature=hush-place&n=1")
        #expect(try setup.occurrences(Self.mark) == [])
        let response = try setup.ferry.call(
            "POST", "/v1/jobs/\(redirected)/redirect", #"{"disposition":"follow"}"#)
        #expect(response.status == 200, "\(response.text)")
        let job = try setup.ferry.finished(redirected)
        #expect(job["response"]?["status"]?.integer == 200, "\(job)")
        #expect(setup.origin.requests.last?.path == "/end?X-Amz-Signature=hush-place&n=1")
        let patched = try setup.ferry.submit(
            setup.body(#","schedule":{"earliest_begin_at":"2100-01-01T00:00:00Z"}"#))
        let edit = try setup.ferry.call(
            "PATCH", "/v1/jobs/\(patched)", #"{"request":{"url":"\#(setup.origin.url)/end?k=hush-new"}}"#)
        #expect(edit.status == 200, "\(edit.text)")
        let edited = try edit.json
        #expect(edited["request"]?["url"]?.string == "\(setup.origin.url)/end?k=hush-new")
        #expect(try setup.occurrences(Self.mark) == [])
        // A retry and a restart use the stored secrets.
        let again = try setup.ferry.json(
            "POST", "/v1/jobs/\(redirected)/retry", "{}", headers: ["Prefer": "wait=60"])
        #expect(again["request"]?["url"]?.string == "\(setup.origin.url)/start?sig=hush-own")
        setup.ferry.kill9()
        try setup.ferry.start()
        let found = try setup.ferry.json("GET", "/v1/jobs/\(patched)")
        #expect(found["request"]?["url"]?.string == "\(setup.origin.url)/end?k=hush-new")
        #expect(try setup.occurrences(Self.mark) == [])
    }
}
