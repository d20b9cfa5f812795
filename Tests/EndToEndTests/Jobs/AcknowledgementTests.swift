import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Acknowledgement", .onOwnThread)
struct AcknowledgementTests {
    @Test("a result stays until its acknowledgement, also over kill -9; then it is removed with its file")
    func acknowledgedAfterCrash() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_RETENTION": "4"])
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(1_000))
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let session = #"{"acknowledgement":{"reminders":{"initial_delay":1,"multiplier":1.5}}}"#
        #expect(try ferry.call("PUT", "/v1/sessions/careful", session).status == 201)
        let request = #"{"kind":"download","request":{"url":"\#(nginx.url)/file"}"#
        let job = try ferry.run(
            request + #","session":"careful","webhook":{"url":"\#(receiver.url)/hook"}}"#)
        let id = try #require(job["id"]?.string)
        #expect(job["acknowledgement"]?["timeout"]?.double == 1_209_600)
        #expect(job["acknowledgement"]?["by"]?.string == "client" && job["acknowledged_at"] == .null)
        let other = try ferry.run(request + #","session":"careful","acknowledgement":null}"#)
        let otherID = try #require(other["id"]?.string)
        #expect(becomes { try ferry.call("GET", "/v1/jobs/\(otherID)").status == 404 })
        let delivered = deliveredTypes(["job.succeeded", "job.unacknowledged"], by: receiver)
        #expect(
            delivered.first == "job.succeeded" && delivered.contains("job.unacknowledged"), "\(delivered)")
        ferry.kill9()
        // Discards earlier deliveries. A job.succeeded whose acceptance was not recorded may be sent again.
        _ = receiver.deliveries.wait(seconds: 0)
        try ferry.start()
        #expect(deliveredTypes(["job.unacknowledged"], by: receiver).contains("job.unacknowledged"))
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content").body == patternBytes(1_000))
        let waiting = try ferry.json("GET", "/v1/jobs?acknowledged=false")["data"]?.array
        #expect(waiting?.compactMap { $0["id"]?.string } == [id])
        let first = try ferry.json("POST", "/v1/jobs/\(id)/acknowledge", "{}")
        #expect(first["acknowledged_at"]?.string != nil && first["state"]?.string == "succeeded")
        ferry.kill9()
        try ferry.start()
        // The retention of the job may be over by now.
        let again = try ferry.call("POST", "/v1/jobs/\(id)/acknowledge")
        #expect(try again.status == 404 || again.json == first, "\(again.text)")
        #expect(try ferry.json("GET", "/v1/jobs?acknowledged=false")["data"]?.array?.isEmpty == true)
        #expect(becomes { try ferry.call("GET", "/v1/jobs/\(id)").status == 404 })
        let acknowledgedAfterCrash = ferry.directory + "/results"
        #expect(
            becomes {
                names(in: acknowledgedAfterCrash).allSatisfy {
                    names(in: "\(acknowledgedAfterCrash)/\($0)").isEmpty
                }
            })
        #expect(becomes { try types(ferry).contains("job.acknowledged") })
        #expect(try types(ferry).count { $0 == "job.acknowledged" } == 1)
    }

    /// Waits until the receiver has deliveries of all these types, and returns all types in the order of the
    /// events. The end and the first reminder may be sent at once.
    private func deliveredTypes(_ types: Set<String>, by receiver: WebhookReceiver) -> [String] {
        var deliveries: [WebhookReceiver.Delivery] = []
        _ = becomes {
            deliveries += receiver.deliveries.wait(seconds: 1)
            return types.isSubset(of: deliveries.compactMap { $0.json["type"]?.string })
        }
        let sequence = { (one: WebhookReceiver.Delivery) in one.json["data"]?["sequence"]?.integer ?? 0 }
        return deliveries.sorted { sequence($0) < sequence($1) }.compactMap { $0.json["type"]?.string }
    }

    private func types(_ ferry: FerryProcess) throws -> [String] {
        try ferry.json("GET", "/v1/events?session=careful&limit=500")["data"]?.array?.compactMap {
            $0["type"]?.string
        } ?? []
    }

    @Test("acknowledging an unfinished job or one without acknowledgement gets 409; wrong fields get 422")
    func refusals() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let job = #"{"kind":"data","session":"refused","request":{"url":"\#(receiver.url)/"}"#
        let plain = try ferry.run(job + "}")
        let path = "/v1/jobs/\(plain["id"]?.string ?? "")/acknowledge"
        let response = try ferry.call("POST", path, "{}")
        #expect(response.status == 409 && response.text.contains(#""code":"not_awaited""#))
        #expect(try ferry.call("POST", path, #"{"a":1}"#).status == 422)
        let waiting = try ferry.submit(
            job + #","acknowledgement":{},"schedule":{"earliest_begin_at":"2100-01-01T00:00:00Z"}}"#)
        let early = try ferry.call("POST", "/v1/jobs/\(waiting)/acknowledge", "{}")
        #expect(early.status == 409 && early.text.contains(#""state":"waiting""#))
        #expect(
            try ferry.call("POST", "/v1/jobs/job_00000000000000000000000000/acknowledge", "{}").status == 404)
        for wrong in [
            #"{"timeout":0}"#, #"{"by":"me"}"#, #"{"reminders":{"max_count":101}}"#, #"{"x":1}"#,
            #"{"reminders":{"initial_delay":10,"max_delay":5}}"#,
        ] {
            let refused = try ferry.call("POST", "/v1/jobs", job + #","acknowledgement":\#(wrong)}"#)
            #expect(refused.status == 422 && refused.text.contains("#/acknowledgement/"), "\(refused.text)")
        }
        #expect(try ferry.call("GET", "/v1/jobs?acknowledged=true").status == 400)
        let acknowledgedAfterCrash = try ferry.run(job + #","acknowledgement":{}}"#)
        let id = acknowledgedAfterCrash["id"]?.string ?? ""
        let environment = ferry.environment.merging(["FERRY_URL": ferry.url, "FERRY_KEY": adminKey]) { $1 }
        let list = try Program.run(
            [Program.ferry, "jobs", "--unacknowledged", "--session", "refused"], environment: environment)
        #expect(list.output.split(separator: "\n").count == 1 && list.output.hasPrefix(id))
        let done = try Program.run([Program.ferry, "acknowledge", id], environment: environment)
        #expect(done.status == 0 && done.output == "\(id)\tsucceeded\n")
        #expect(try ferry.json("GET", "/v1/jobs/\(id)")["acknowledged_at"]?.string != nil)
    }

    @Test("with by: webhook, a 2xx response to job.succeeded is the acknowledgement")
    func byWebhook() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(receiver.url)/"},"acknowledgement":{"by":"webhook"},"#
                + #""webhook":{"url":"\#(receiver.url)/hook"}}"#)
        let path = "/v1/jobs/\(job["id"]?.string ?? "")"
        #expect(becomes { try ferry.json("GET", path)["acknowledged_at"]?.string != nil })
        let types = try ferry.json("GET", path + "/events")["data"]?.array?.compactMap { $0["type"]?.string }
        #expect(types == ["job.acknowledged", "job.succeeded", "job.started", "job.created"])
    }

    @Test("two nodes send each reminder once")
    func twoNodes() throws {
        let database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
        ]
        let nodes = try [FerryProcess(settings), FerryProcess(settings)]
        defer { for node in nodes { node.remove() } }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let acknowledgement = #"{"reminders":{"max_count":2,"initial_delay":1,"multiplier":1}}"#
        var ids: [String] = []
        for node in nodes + nodes {
            let job = try node.run(
                #"{"kind":"data","session":"both","request":{"url":"\#(receiver.url)/"},"#
                    + #""acknowledgement":\#(acknowledgement)}"#)
            ids.append(job["id"]?.string ?? "")
        }
        func reminders() throws -> [String] {
            try nodes[1].json("GET", "/v1/events?session=both&type=job.unacknowledged&limit=500")["data"]?
                .array?.compactMap { $0["data"]?["job"]?["id"]?.string } ?? []
        }
        #expect(becomes { try reminders().count >= 2 * ids.count })
        for id in ids { #expect(try reminders().count { $0 == id } == 2) }
    }
}
