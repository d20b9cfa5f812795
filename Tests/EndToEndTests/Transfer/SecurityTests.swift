import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Roles, tenants, secrets, paths and egress", .onOwnThread)
struct SecurityTests {
    private let ferry: FerryProcess
    private let database: TestDatabase

    init() throws { (ferry, database) = try FerryProcess.shared.get() }

    @Test("each role has its permissions; a revoked, wrong or missing key gets 401")
    func roles() throws {
        let body =
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"retry":{"max_attempts":1},"#
            + #""schedule":{"waits_for_connectivity":false}}"#
        let expected: [(key: String, submit: Int, list: Int, status: Int)] = [
            ("", 401, 401, 401), ("fk_wrong", 401, 401, 401),
            (try ferry.makeKey(role: "viewer", tenant: "roles"), 403, 200, 403),
            (try ferry.makeKey(role: "client", tenant: "roles"), 201, 200, 403),
            (try ferry.makeKey(role: "admin", tenant: "roles"), 201, 200, 200),
        ]
        for (key, submit, list, status) in expected {
            let submitted = try ferry.call("POST", "/v1/jobs", body, key: key)
            #expect(submitted.status == submit)
            #expect(submitted.status < 400 || submitted.header("content-type") == "application/problem+json")
            #expect(try ferry.call("GET", "/v1/jobs", key: key).status == list)
            #expect(try ferry.call("GET", "/v1/admin/status", key: key).status == status)
            #expect(try ferry.call("GET", "/livez", key: key).status == 200)
            #expect(try ferry.call("GET", "/openapi.json", key: key).status == 200)
        }
        #expect(
            try ferry.call("GET", "/v1/jobs", key: "").header("www-authenticate")?.hasPrefix("Bearer") == true
        )
        let created = try ferry.json("POST", "/v1/admin/keys", #"{"name":"short-lived","role":"viewer"}"#)
        let key = try #require(created["key"]?.string)
        #expect(try ferry.call("GET", "/v1/jobs", key: key).status == 200)
        let path = "/v1/admin/keys/\(created["id"]?.string ?? "")"
        #expect(try ferry.call("DELETE", path).status == 204)
        #expect(try ferry.call("GET", "/v1/jobs", key: key).status == 401)
        #expect(try !ferry.call("GET", "/v1/admin/keys").text.contains(key))
    }

    @Test("objects of another tenant are 404, and its files have another root")
    func tenants() throws {
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let (a, b) = (
            try ferry.makeKey(role: "client", tenant: "tenant-a"),
            try ferry.makeKey(role: "client", tenant: "tenant-b")
        )
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"mine"},"#
                + #""webhook":{"url":"\#(receiver.url)"}}"#, key: a)
        let id = try #require(job["id"]?.string)
        #expect(job["state"]?.string == "succeeded" && job["tenant"]?.string == "tenant-a", "\(job)")
        #expect(!names(in: ferry.files).contains("mine"))
        #expect(receiver.deliveries.wait().count == 1)
        let deliveries = try ferry.json("GET", "/v1/jobs/\(id)/deliveries", key: a)
        let delivery = try #require(deliveries["data"]?.array?.first?["id"]?.string)
        for (method, path) in [
            ("GET", "/v1/jobs/\(id)"), ("GET", "/v1/jobs/\(id)/content"), ("POST", "/v1/jobs/\(id)/cancel"),
            ("POST", "/v1/jobs/\(id)/retry"), ("DELETE", "/v1/jobs/\(id)"),
            ("GET", "/v1/deliveries/\(delivery)"), ("POST", "/v1/deliveries/\(delivery)/redeliver"),
        ] {
            let response = try ferry.call(method, path, method == "POST" ? "{}" : nil, key: b)
            #expect(response.status == 404, "\(method) \(path)")
        }
        #expect(try ferry.json("GET", "/v1/jobs", key: b)["data"]?.array?.isEmpty == true)
        let upload = try ferry.run(
            #"{"kind":"upload","request":{"url":"\#(nginx.url)/put/x"},"source":{"path":"mine"}}"#, key: b)
        #expect(upload["error"]?["code"]?.string == "source_not_found", "\(upload)")
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content", key: a).body == [1, 2, 3])
    }

    @Test("secrets are sent to the origin, and appear in no response, webhook, log, list or database")
    func secrets() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let signing = "whsec_" + Base64.encode(Array("a-signing-secret-of-one-job".utf8))
        let headers = [
            ("Authorization", "Bearer open-sesame-83421"), ("Cookie", "session=crumbs-83421"),
            ("X-Api-Key", "metal-83421"),
        ]
        let texts = headers.map { #""\#($0.0)":"\#($0.1)""# }.joined(separator: ",")
        let submitted = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(origin.url)/","headers":{\#(texts)}},"#
                + #""webhook":{"url":"\#(receiver.url)","secret":"\#(signing)"}}"#)
        #expect(submitted.status == 201, "\(submitted.text)")
        let id = try submitted.json["id"]?.string ?? ""
        let job = try ferry.call("GET", "/v1/jobs/\(id)", headers: ["Prefer": "wait=60"])
        let request = try #require(origin.requests.first)
        for (name, value) in headers { #expect(request.header(name) == value, "\(name) did not arrive") }
        #expect(try job.json["request"]?["headers"]?["Authorization"]?["set"]?.bool == true)
        let delivery = try #require(receiver.deliveries.wait().first)
        #expect(try delivery.isSigned(by: signing))
        let dump = try Program.run(
            ["pg_dump", "--dbname", database.url], environment: ["PATH": "/usr/bin:/bin"])
        #expect(dump.status == 0 && dump.output.contains("COPY public.finished_jobs"), "\(dump.messages)")
        let places = [
            ("the response to POST", submitted.text), ("the job", job.text),
            ("the webhook", String(decoding: delivery.body, as: UTF8.self)),
            ("the list", try ferry.call("GET", "/v1/jobs?limit=500").text),
            ("the deliveries", try ferry.call("GET", "/v1/jobs/\(id)/deliveries").text),
            ("the log", ferry.log), ("the database", dump.output),
        ]
        for secret in ["open-sesame-83421", "crumbs-83421", "metal-83421", "a-signing-secret-of-one-job"] {
            let forms = [secret, hexadecimal(Array(secret.utf8)), Base64.encode(Array(secret.utf8))]
            for (place, text) in places {
                #expect(!forms.contains { text.contains($0) }, "\(secret) is in \(place)")
            }
        }
        for (place, text) in places { #expect(!text.contains(adminKey), "the admin key is in \(place)") }
    }

    @Test("a path cannot leave the storage root by its text or by a symbolic link")
    func paths() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let outside = try TemporaryDirectory.make("outside")
        defer { TemporaryDirectory.remove(outside) }
        try writeFile(outside + "/secret", Array("not yours".utf8))
        let root = ferry.files + "/links"
        mkdir(root, 0o755)
        symlink(outside, root + "/away")
        symlink(outside + "/secret", root + "/file")
        symlink("../../../..", root + "/up")
        for path in ["../x", "a/../../x", "/etc/x", "a//b", "./x", "a/..", ".ferry-x", "a\\u0000b", ""] {
            for part in [
                #""kind":"download","destination":{"path":"\#(path)"}"#,
                #""kind":"upload","source":{"path":"\#(path)"}"#,
            ] {
                let response = try ferry.call(
                    "POST", "/v1/jobs", #"{"request":{"url":"\#(nginx.url)/file"},\#(part)}"#)
                #expect(response.status == 422, "\(part)")
                let pointer = try response.json["errors"]?.array?.first?["pointer"]?.string ?? ""
                #expect(["#/destination/path", "#/source/path"].contains(pointer))
            }
        }
        for path in ["links/away/x", "links/up/x"] {
            let job = try ferry.run(
                #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"#
                    + #""destination":{"path":"\#(path)"}}"#)
            #expect(job["error"]?["code"]?.string == "destination_invalid", "\(job)")
        }
        for path in ["links/file", "links/away/secret"] {
            let job = try ferry.run(
                #"{"kind":"upload","request":{"url":"\#(nginx.url)/put/x"},"source":{"path":"\#(path)"}}"#)
            #expect(job["error"]?["code"]?.string == "source_not_found", "\(job)")
        }
        // A download may replace the link, but not the link's target.
        let replaced = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"links/file"}}"#
        )
        #expect(replaced["state"]?.string == "succeeded")
        #expect(readFile(outside + "/secret") == Array("not yours".utf8))
        #expect(names(in: outside) == ["secret"])
    }

    @Test("transfers, webhooks and redirects to addresses that are not allowed are blocked")
    func egress() throws {
        for url in [
            "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/",
            "http://0.0.0.0/",
            "http://[::ffff:10.0.0.1]/", "http://2130706433.1/", ferry.url + "/v1/jobs", "file:///etc/passwd",
        ] {
            for body in [
                #"{"kind":"data","request":{"url":"\#(url)"}}"#,
                #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"webhook":{"url":"\#(url)"}}"#,
            ] {
                #expect(try ferry.call("POST", "/v1/jobs", body).status == 422, "\(body)")
            }
        }
        for location in [
            "http://10.0.0.1/", "http://[::1]:9/", ferry.url + "/v1/jobs", "http://169.254.169.254/",
        ] {
            let origin = try ScriptedOrigin.answering { _, _ in
                Array("HTTP/1.1 307 X\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            defer { origin.stop() }
            let job = try ferry.run(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
            #expect(job["state"]?.string == "failed", "\(job)")
            #expect(job["error"]?["code"]?.string == "blocked_address", "\(job)")
            #expect(job["attempt"]?.integer == 1, "a blocked job is not retried")
        }
    }
}
