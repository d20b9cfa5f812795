import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Acknowledgement that endpoints ask for", .onOwnThread)
struct EndpointAcknowledgementTests {
    private func types(_ deliveries: [WebhookReceiver.Delivery]) -> [String] {
        deliveries.compactMap { $0.json["type"]?.string }
    }

    private func list(_ ferry: FerryProcess, _ query: String = "") throws -> [String] {
        try ferry.json("GET", "/v1/jobs?acknowledged=false\(query)")["data"]?.array?.compactMap {
            $0["id"]?.string
        } ?? []
    }

    @Test("a result stays over a retention of a second and kill -9 until a client acknowledges it")
    func kept() throws {
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
        let held = try ferry.run(job + "}")
        let id = try #require(held["id"]?.string)
        ferry.kill9()
        try ferry.start()
        let declined = try ferry.run(job + #","acknowledgement":false}"#)["id"]?.string ?? ""
        #expect(becomes { try ferry.call("GET", "/v1/jobs/\(declined)").status == 404 })
        #expect(try list(ferry) == [id])
        let shown = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(shown["acknowledgement"]?["endpoint"]?.string == endpointID)
        #expect(shown["acknowledgement"]?["by"]?.string == "client" && shown["acknowledged_at"] == .null)
        // The reminders come to it although its events do not name them.
        var told: [WebhookReceiver.Delivery] = []
        let areReminded = becomes(seconds: 60) {
            told += receiver.deliveries.wait(seconds: 1).filter {
                $0.path == "/hook" && $0.job?["id"]?.string == id
            }
            let types = types(told)
            return types.contains("job.succeeded") && types.count { $0 == "job.unacknowledged" } >= 2
        }
        #expect(areReminded)
        // After the crash the end and the first reminder may have been on their way at once.
        told.sort {
            ($0.json["data"]?["sequence"]?.integer ?? 0) < ($1.json["data"]?["sequence"]?.integer ?? 0)
        }
        #expect(types(told).first == "job.succeeded")
        #expect(told.first?.job?["acknowledgement"]?["endpoint"]?.string == endpointID)
        #expect(Set(types(told)) == ["job.succeeded", "job.unacknowledged"])
        // Neither a change nor the end of the endpoint lets go what it holds.
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

    @Test("with by: webhook only the acceptance of the endpoint that asks counts, over kill -9")
    func byWebhook() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let isReady = Gate()
        let slow = try WebhookReceiver { _ in isReady.pass(seconds: 0) ? 204 : 503 }
        defer { slow.stop() }
        let other = try WebhookReceiver()
        defer { other.stop() }
        // Enough of them that nothing is given up before the receiver is ready.
        let delays = "1,1,1,2,4" + String(repeating: ",8", count: 25)
        let asks = #""retry":{"delays":[\#(delays)]},"acknowledgement":{"by":"webhook","#
        let made = try ferry.json(
            "POST", "/v1/webhooks",
            #"{"url":"\#(slow.url)/hook",\#(asks)"reminders":{"max_count":0}}}"#)
        #expect(made["id"]?.string != nil, "\(made)")
        // The older one counts.
        let younger = try ferry.json(
            "POST", "/v1/webhooks", #"{"url":"\#(other.url)/hook",\#(asks)"timeout":9}}"#)
        #expect(younger["id"]?.string != nil, "\(younger)")
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(other.url)/"},"webhook":{"url":"\#(other.url)/own"}}"#)
        let path = "/v1/jobs/\(job["id"]?.string ?? "")"
        var paths: Set<String> = []
        let haveHeard = becomes {
            paths.formUnion(other.deliveries.wait(seconds: 1).map(\.path))
            return paths.isSuperset(of: ["/own", "/hook"])
        }
        #expect(haveHeard, "\(paths)")
        #expect(slow.deliveries.wait(for: 3).count >= 3)
        #expect(try ferry.json("GET", path)["acknowledged_at"] == .null)
        #expect(try ferry.json("GET", path)["acknowledgement"]?["endpoint"] == made["id"])
        ferry.kill9()
        isReady.open()
        try ferry.start()
        #expect(becomes { try ferry.json("GET", path)["acknowledged_at"]?.string != nil })
    }

    @Test("who is not told of the end asks for nothing, and what the job or its session says goes before")
    func exceptions() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let wrong = try ferry.call(
            "POST", "/v1/webhooks", #"{"url":"\#(receiver.url)/","acknowledgement":{"by":"me"}}"#)
        #expect(wrong.status == 422 && wrong.text.contains("#/acknowledgement/by"))
        let environment = ferry.environment.merging(["FERRY_URL": ferry.url, "FERRY_KEY": adminKey]) { $1 }
        let made = try Program.run(
            [
                Program.ferry, "webhooks", "create", receiver.url + "/hook", "--event", "job.succeeded",
                "--metadata", "of=exceptions", "--acknowledgement", "client", "--acknowledgement-timeout",
                "1000", "--json",
            ], environment: environment)
        let endpoint = try JSON.parse(Array(made.output.utf8))
        #expect(made.status == 0 && endpoint["acknowledgement"]?["timeout"]?.double == 1_000, "\(made)")
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let quiet = #"{"sends_launch_events":false}"#
        #expect(try ferry.call("PUT", "/v1/sessions/unheard", quiet).status == 201)
        func held(_ path: String, _ extra: String, session: String = "exceptions") throws -> JSON? {
            let job = try ferry.run(
                #"{"kind":"data","session":"\#(session)","request":{"url":"\#(receiver.url)\#(path)"}"#
                    + extra + "}")
            return job["acknowledgement"]
        }
        let mine = #","metadata":{"of":"exceptions","and":"more"}"#
        #expect(try held("/", mine)?["endpoint"] == endpoint["id"])
        #expect(try held("/", mine + #","acknowledgement":false"#) == .bool(false))
        #expect(try held("/", mine + #","acknowledgement":{"timeout":7}"#)?["timeout"]?.double == 7)
        #expect(try held("/", "") == .null)
        #expect(try held("/", mine, session: "unheard") == .null)
        // It is told of success alone.
        #expect(try held("/", mine + #","accept":{"status":["404"]}"#) == .null)
        #expect(try ferry.call("PATCH", path, #"{"enabled":false}"#).status == 200)
        #expect(try held("/", mine) == .null)
        let patched = try ferry.json("PATCH", path, #"{"acknowledgement":{"by":"webhook"}}"#)
        #expect(patched["acknowledgement"]?["by"]?.string == "webhook")
        #expect(patched["acknowledgement"]?["timeout"]?.double == 1_000)
        #expect(try ferry.call("DELETE", path).status == 204)
    }
}
