import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("TLS settings of webhooks against receivers", .onOwnThread)
struct ReceiverTLSTests {
    private let ferry: FerryProcess
    private let database: TestDatabase
    private let authority: TestAuthority

    init() throws {
        (ferry, database) = try FerryProcess.shared.get()
        authority = try TestAuthority.shared.get()
    }

    /// Returns a PEM text as a JSON string.
    private func quoted(_ text: String) -> String { "\"" + text.replacing("\n", with: "\\n") + "\"" }

    /// Returns settings with the receiver's authority and a pinned key.
    private func tls(_ pin: String) -> String {
        #"{"ca":\#(quoted(authority.certificate)),"pins":["\#(pin)"]}"#
    }

    private func create(_ receiver: WebhookReceiver, _ tls: String, _ extra: String = "") throws -> String {
        let endpoint = try ferry.json(
            "POST", "/v1/webhooks", #"{"url":"\#(receiver.url)/hook","tls":\#(tls)\#(extra)}"#)
        return "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
    }

    @Test("an endpoint accepts its own authorities and pins only, also beside others for the same receiver")
    func endpoint() throws {
        let receiver = try WebhookReceiver(as: authority.server)
        defer { receiver.stop() }
        let (right, wrong) = (authority.server.pin, authority.alice.pin)
        let ca = quoted(authority.certificate)
        // A trusted connection that is idle must not serve the settings after it.
        let cases = [
            (tls(right), true), ("null", false), (#"{"ca":\#(quoted(authority.stranger))}"#, false),
            (tls(wrong), false), (#"{"ca":\#(ca)}"#, true), (#"{"pins":["\#(right)"]}"#, false),
            (#"{"ca":\#(ca),"pins":["\#(wrong)","\#(right)"]}"#, true),
        ]
        for (tls, isTrusted) in cases {
            let path = try create(receiver, tls, #","session":"no-jobs""#)
            let ping = try ferry.json("POST", path + "/test", "{}")
            #expect(ping["state"]?.string == (isTrusted ? "accepted" : "given_up"), "\(tls): \(ping)")
            let error = ping["tries"]?.array?.first?["error"]?.string
            #expect(error == (isTrusted ? nil : "certificate_invalid"), "\(tls): \(ping)")
            #expect(try ferry.call("DELETE", path).status == 204)
        }
        #expect(receiver.deliveries.wait(for: 3).count == 3)
    }

    @Test("a wrong pin fails a try, which is repeated; with a PATCH of the pins the pending delivery arrives")
    func patched() throws {
        let origin = try HalfwayOrigin(free: 10)
        defer { origin.stop() }
        let receiver = try WebhookReceiver(as: authority.server)
        defer { receiver.stop() }
        let delays = Array(repeating: "4", count: 30).joined(separator: ",")
        let path = try create(
            receiver, tls(authority.alice.pin),
            #","session":"repinned","events":["job.succeeded"],"retry":{"delays":[\#(delays)]}"#)
        let job = try ferry.run(
            #"{"kind":"data","session":"repinned","request":{"url":"\#(origin.url)/f/1"}}"#)
        let delivery = { [ferry] in try ferry.json("GET", path + "/deliveries")["data"]?.array?.first }
        #expect(
            becomes { try delivery()?["tries"]?.array?.first?["error"]?.string == "certificate_invalid" })
        #expect(try delivery()?["state"] == "pending")
        #expect(try delivery()?["tries"]?.array?.first?["status"] == .null)
        let changed = try ferry.json("PATCH", path, #"{"tls":{"pins":["\#(authority.server.pin)"]}}"#)
        #expect(changed["tls"]?["ca"]?["set"] == .bool(true))
        #expect(changed["tls"]?["pins"]?.array == [.string(authority.server.pin)])
        let arrived = try #require(receiver.deliveries.wait().first)
        #expect(arrived.job?["id"] == job["id"])
        #expect(becomes { try delivery()?["state"] == "accepted" })
        #expect(try delivery()?["tries"]?.array?.last?["status"]?.integer == 204)
    }

    @Test(
        "a job's webhook has its own TLS settings, which session events keep; a wrong pin delays only its job"
    )
    func ofJob() throws {
        let origin = try HalfwayOrigin(free: 10)
        defer { origin.stop() }
        let receiver = try WebhookReceiver(as: authority.server)
        defer { receiver.stop() }
        let body = { (session: String, pin: String, events: String) in
            #"{"kind":"data","session":"\#(session)","request":{"url":"\#(origin.url)/f/1"},"webhook":{"#
                + #""url":"\#(receiver.url)/own","events":[\#(events)],"tls":\#(tls(pin))}}"#
        }
        // Endpoints of other tests would get the events, too, and session.events_finished waits for them.
        let key = try ferry.makeKey(role: "client", tenant: "own-tls")
        // As many failures as open the circuit breaker of a receiver that does not respond.
        for number in 1...6 {
            let wrong = try ferry.run(
                body("untrusting", authority.alice.pin, #""job.succeeded""#), key: key)
            let list = "/v1/jobs/\(wrong["id"]?.string ?? "")/deliveries"
            let delivery = { [ferry] in try ferry.json("GET", list, key: key)["data"]?.array?.first }
            #expect(
                becomes { try delivery()?["tries"]?.array?.first?["error"]?.string == "certificate_invalid" },
                "job \(number)")
            #expect(try delivery()?["state"] == "pending")
        }
        let job = try ferry.run(
            body("trusting", authority.server.pin, #""job.succeeded","session.events_finished""#), key: key)
        #expect(job["webhook"]?["tls"]?["ca"]?["set"] == .bool(true))
        #expect(job["webhook"]?["tls"]?["pins"]?.array == [.string(authority.server.pin)])
        let arrived = receiver.deliveries.wait(for: 2)
        #expect(
            Set(arrived.compactMap { $0.json["type"]?.string })
                == ["job.succeeded", "session.events_finished"])
        #expect(arrived.contains { $0.job?["id"] == job["id"] })
        let dump = try Program.run(
            ["pg_dump", "--dbname", database.url], environment: ["PATH": "/usr/bin:/bin"])
        let line = try #require(authority.certificate.split(separator: "\n").dropFirst().first)
        #expect(!dump.output.contains(line) && !ferry.log.contains(line))
    }

    @Test("authorities that are no certificates are 422 at the creation of an endpoint, its change and a job")
    func unusable() throws {
        let receiver = try WebhookReceiver(as: authority.server)
        defer { receiver.stop() }
        let path = try create(receiver, tls(authority.server.pin), #","session":"no-jobs""#)
        let tls = #""tls":{"ca":\#(quoted(authority.alice.key))}"#
        let url = #""url":"\#(receiver.url)/""#
        let requests = [
            ("POST", "/v1/webhooks", "{\(url),\(tls)}", "#/tls/ca"), ("PATCH", path, "{\(tls)}", "#/tls/ca"),
            (
                "POST", "/v1/jobs", #"{"kind":"data","request":{\#(url)},"webhook":{\#(url),\#(tls)}}"#,
                "#/webhook/tls/ca"
            ),
        ]
        for (method, path, body, pointer) in requests {
            let response = try ferry.call(method, path, body)
            #expect(response.status == 422, "\(response.text)")
            let errors = try response.json["errors"]?.array ?? []
            #expect(errors.compactMap { $0["pointer"]?.string } == [pointer])
            #expect(errors.compactMap { $0["code"]?.string } == ["invalid_value"])
        }
        #expect(try ferry.call("DELETE", path).status == 204)
    }
}
