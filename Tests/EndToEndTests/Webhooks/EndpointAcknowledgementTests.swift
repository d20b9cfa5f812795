import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Acknowledgement required by endpoints", .onOwnThread)
struct EndpointAcknowledgementTests {
    private func types(_ deliveries: [WebhookReceiver.Delivery]) -> [String] {
        deliveries.compactMap { $0.json["type"]?.string }
    }

    private func list(_ ferry: FerryProcess, _ query: String = "") throws -> [String] {
        try ferry.json("GET", "/v1/jobs?acknowledged=false\(query)")["data"]?.array?.compactMap {
            $0["id"]?.string
        } ?? []
    }

    @Test("an endpoint's acknowledgement keeps a result beyond its retention until it is acknowledged")
    func byClient() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_RETENTION": "1"])
        defer { ferry.remove() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let job = #"{"kind":"data","session":"asked","request":{"url":"\#(receiver.url)/page"}"#
        let endpoint = try ferry.json(
            "POST", "/v1/webhooks",
            #"{"url":"\#(receiver.url)/hook","session":"asked","events":["job.succeeded"],"#
                + #""acknowledgement":{"reminders":{"initial_delay":1,"multiplier":1.5}}}"#)
        let endpointID = try #require(endpoint["id"]?.string)
        #expect(endpoint["acknowledgement"]?["timeout"]?.double == 1_209_600)
        #expect(endpoint["acknowledgement"]?["endpoint"] == nil)
        let awaited = try ferry.run(job + "}")
        let id = try #require(awaited["id"]?.string)
        ferry.kill9()
        try ferry.start()
        let declined = try ferry.run(job + #","acknowledgement":false}"#)["id"]?.string ?? ""
        #expect(becomes { try ferry.call("GET", "/v1/jobs/\(declined)").status == 404 })
        #expect(try list(ferry) == [id])
        let shown = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(shown["acknowledgement"]?["endpoint"]?.string == endpointID)
        #expect(shown["acknowledgement"]?["by"]?.string == "client" && shown["acknowledged_at"] == .null)
        // The endpoint gets reminders although its `events` do not name them.
        var deliveries: [WebhookReceiver.Delivery] = []
        let areReminded = becomes(seconds: 60) {
            deliveries += receiver.deliveries.wait(seconds: 1).filter {
                $0.path == "/hook" && $0.job?["id"]?.string == id
            }
            let types = types(deliveries)
            return types.contains("job.succeeded") && types.count { $0 == "job.unacknowledged" } >= 2
        }
        #expect(areReminded)
        // After the crash the sender may send the end and the first reminder at once.
        deliveries.sort {
            ($0.json["data"]?["sequence"]?.integer ?? 0) < ($1.json["data"]?["sequence"]?.integer ?? 0)
        }
        #expect(types(deliveries).first == "job.succeeded")
        #expect(deliveries.first?.job?["acknowledgement"]?["endpoint"]?.string == endpointID)
        #expect(Set(types(deliveries)) == ["job.succeeded", "job.unacknowledged"])
        // Changing or deleting the endpoint does not release jobs that it holds.
        let path = "/v1/webhooks/\(endpointID)"
        let changed = try ferry.json("PATCH", path, #"{"acknowledgement":null}"#)
        #expect(changed["acknowledgement"] == .null)
        #expect(try ferry.call("DELETE", path).status == 204)
        let free = try ferry.run(job + "}")["id"]?.string ?? ""
        #expect(becomes { try ferry.call("GET", "/v1/jobs/\(free)").status == 404 })
        let repeated = try ferry.json("POST", "/v1/jobs/\(id)/retry", "{}")
        #expect(repeated["acknowledgement"] == .null && repeated["id"]?.string != nil)
        let done = try ferry.json("POST", "/v1/jobs/\(id)/acknowledge", "{}")
        #expect(done["acknowledged_at"]?.string != nil)
        #expect(becomes { try ferry.call("GET", "/v1/jobs/\(id)").status == 404 })
    }

    @Test("with by: webhook, only a 2xx of the requiring endpoint acknowledges, also after kill -9")
    func byWebhook() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let isReady = Gate()
        let slow = try WebhookReceiver { _ in isReady.pass(seconds: 0) ? 204 : 503 }
        defer { slow.stop() }
        let other = try WebhookReceiver()
        defer { other.stop() }
        // Enough tries that no delivery is given up before the receiver is ready.
        let delays = "1,1,1,2,4" + String(repeating: ",8", count: 25)
        let rules = #""retry":{"delays":[\#(delays)]},"acknowledgement":{"by":"webhook","#
        let older = try ferry.json(
            "POST", "/v1/webhooks",
            #"{"url":"\#(slow.url)/hook",\#(rules)"reminders":{"max_count":0}}}"#)
        #expect(older["id"]?.string != nil, "\(older)")
        // The older endpoint decides.
        let younger = try ferry.json(
            "POST", "/v1/webhooks", #"{"url":"\#(other.url)/hook",\#(rules)"timeout":9}}"#)
        #expect(younger["id"]?.string != nil, "\(younger)")
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(other.url)/"},"webhook":{"url":"\#(other.url)/own"}}"#)
        let path = "/v1/jobs/\(job["id"]?.string ?? "")"
        var paths: Set<String> = []
        let areDelivered = becomes {
            paths.formUnion(other.deliveries.wait(seconds: 1).map(\.path))
            return paths.isSuperset(of: ["/own", "/hook"])
        }
        #expect(areDelivered, "\(paths)")
        #expect(slow.deliveries.wait(for: 3).count >= 3)
        #expect(try ferry.json("GET", path)["acknowledged_at"] == .null)
        #expect(try ferry.json("GET", path)["acknowledgement"]?["endpoint"] == older["id"])
        ferry.kill9()
        isReady.open()
        try ferry.start()
        #expect(becomes { try ferry.json("GET", path)["acknowledged_at"]?.string != nil })
    }

    @Test("endpoints without the job's end require no acknowledgement; job and session have priority")
    func exceptions() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let wrong = try ferry.call(
            "POST", "/v1/webhooks", #"{"url":"\#(receiver.url)/","acknowledgement":{"by":"me"}}"#)
        #expect(wrong.status == 422 && wrong.text.contains("#/acknowledgement/by"))
        let environment = ferry.environment.merging(["FERRY_URL": ferry.url, "FERRY_KEY": adminKey]) { $1 }
        let output = try Program.run(
            [
                Program.ferry, "webhooks", "create", receiver.url + "/hook", "--event", "job.succeeded",
                "--metadata", "of=exceptions", "--acknowledgement", "client", "--acknowledgement-timeout",
                "1000", "--json",
            ], environment: environment)
        let endpoint = try JSON.parse(Array(output.output.utf8))
        #expect(output.status == 0 && endpoint["acknowledgement"]?["timeout"]?.double == 1_000, "\(output)")
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let quiet = #"{"sends_launch_events":false}"#
        #expect(try ferry.call("PUT", "/v1/sessions/unheard", quiet).status == 201)
        func acknowledgement(_ path: String, _ extra: String, session: String = "exceptions") throws -> JSON?
        {
            let job = try ferry.run(
                #"{"kind":"data","session":"\#(session)","request":{"url":"\#(receiver.url)\#(path)"}"#
                    + extra + "}")
            return job["acknowledgement"]
        }
        let mine = #","metadata":{"of":"exceptions","and":"more"}"#
        #expect(try acknowledgement("/", mine)?["endpoint"] == endpoint["id"])
        #expect(try acknowledgement("/", mine + #","acknowledgement":false"#) == .bool(false))
        #expect(
            try acknowledgement("/", mine + #","acknowledgement":{"timeout":7}"#)?["timeout"]?.double == 7)
        #expect(try acknowledgement("/", "") == .null)
        #expect(try acknowledgement("/", mine, session: "unheard") == .null)
        // The endpoint gets only job.succeeded.
        #expect(try acknowledgement("/", mine + #","accept":{"status":["404"]}"#) == .null)
        #expect(try ferry.call("PATCH", path, #"{"enabled":false}"#).status == 200)
        #expect(try acknowledgement("/", mine) == .null)
        let patched = try ferry.json("PATCH", path, #"{"acknowledgement":{"by":"webhook"}}"#)
        #expect(patched["acknowledgement"]?["by"]?.string == "webhook")
        #expect(patched["acknowledgement"]?["timeout"]?.double == 1_000)
        #expect(try ferry.call("DELETE", path).status == 204)
    }
}
