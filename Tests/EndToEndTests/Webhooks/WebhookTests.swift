import Curl
import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Webhook endpoints", .onOwnThread)
struct WebhookTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Creates an endpoint with its own session, because other tests run jobs in the same process.
    private func create(_ receiver: WebhookReceiver, session: String, _ extra: String = "") throws -> JSON {
        try ferry.json(
            "POST", "/v1/webhooks", #"{"url":"\#(receiver.url)/hook","session":"\#(session)"\#(extra)}"#)
    }

    @Test("testing an endpoint sends a ping signed with secret and private key, and shows the try")
    func ping() throws {
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let endpoint = try create(receiver, session: "pinged")
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let delivery = try ferry.json("POST", path + "/test", "{}")
        #expect(delivery["type"]?.string == "webhook.ping" && delivery["state"]?.string == "accepted")
        #expect(delivery["tries"]?.array?.first?["status"]?.integer == 204, "\(delivery)")
        let ping = try #require(receiver.deliveries.wait().first)
        #expect(ping.json["data"]?["webhook"] == endpoint["id"])
        #expect(try ping.isSigned(by: endpoint["secret"]?.string ?? ""))
        #expect(try ping.isSigned(byPublicKey: endpoint["public_key"]?.string ?? ""))
        #expect(try ping.isSigned(by: webhookSecret) == false)
        let list = try ferry.json("GET", path + "/deliveries?state=accepted&type=webhook.ping")
        #expect(list["data"]?.array?.first == delivery)
        #expect(try ferry.call("DELETE", path).status == 204)
        #expect(try ferry.call("POST", path + "/test", "{}").status == 404)
    }

    @Test("after a rotation both secrets sign; after one without overlap only the new one signs")
    func rotation() throws {
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let first = try create(receiver, session: "rotated")
        let path = "/v1/webhooks/\(first["id"]?.string ?? "")"
        let second = try ferry.json("POST", path + "/rotate_secret", "{}")
        _ = try ferry.json("POST", path + "/test", "{}")
        let both = try #require(receiver.deliveries.wait().first)
        for endpoint in [first, second] {
            #expect(try both.isSigned(by: endpoint["secret"]?.string ?? ""))
            #expect(try both.isSigned(byPublicKey: endpoint["public_key"]?.string ?? ""))
        }
        let third = try ferry.json("POST", path + "/rotate_secret", #"{"overlap_seconds":0}"#)
        _ = try ferry.json("POST", path + "/test", "{}")
        let last = try #require(receiver.deliveries.wait().first)
        #expect(try last.isSigned(by: third["secret"]?.string ?? ""))
        #expect(try last.isSigned(by: second["secret"]?.string ?? "") == false)
        // A rotation without overlap also ends the overlap of the first one, because the secret may be
        // compromised.
        #expect(try last.isSigned(by: first["secret"]?.string ?? "") == false)
        #expect(try last.isSigned(byPublicKey: third["public_key"]?.string ?? ""))
        #expect(try last.isSigned(byPublicKey: first["public_key"]?.string ?? "") == false)
    }

    @Test("endpoints and webhooks of jobs get their header fields and thin payloads; a replay may be full")
    func fieldsAndPayload() throws {
        let origin = try HalfwayOrigin(free: 10)
        defer { origin.stop() }
        let (receiver, own) = (try WebhookReceiver(), try WebhookReceiver())
        defer {
            receiver.stop()
            own.stop()
        }
        let content = { (note: String) in #""headers":{"X-Note":"\#(note)"},"payload":"thin""# }
        let endpoint = try create(
            receiver, session: "thin", #","events":["job.succeeded"],"# + content("all"))
        let job = try ferry.run(
            #"{"kind":"data","session":"thin","request":{"url":"\#(origin.url)/f/1"},"metadata":{"a":"b"},"#
                + #""webhook":{"url":"\#(own.url)/h",\#(content("own"))}}"#)
        for (note, receiver) in [("all", receiver), ("own", own)] {
            let delivery = try #require(receiver.deliveries.wait().first)
            #expect(delivery.note == note && delivery.body.count <= 4_096)
            #expect(delivery.job?["id"] == job["id"] && delivery.job?["state"] == "succeeded")
            #expect(delivery.job?["metadata"]?["a"] == "b" && delivery.job?["request"] == nil)
            #expect(delivery.job?["result"]?["sha256"] == job["result"]?["sha256"])
        }
        #expect(job["webhook"]?["headers"]?["X-Note"]?["set"] == .bool(true))
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        #expect(try ferry.json("PATCH", path, #"{"payload":"full"}"#)["payload"] == "full")
        // The delivery is pending until the sender has stored that it was accepted.
        #expect(
            becomes {
                try ferry.json("POST", path + "/replay", #"{"since":"2026-01-01T00:00:00Z"}"#)["redelivered"]
                    == .integer(1)
            })
        let full = try #require(receiver.deliveries.wait().first)
        #expect(full.job?["request"]?["url"]?.string == "\(origin.url)/f/1" && full.note == "all")
    }

    /// Runs `count` jobs of a session one after another and returns their ids.
    private func run(_ count: Int, _ origin: HalfwayOrigin, session: String, _ extra: String = "") throws
        -> [String]
    {
        try (0..<count).map { number in
            let request = #"{"url":"\#(origin.url)/f/\#(number)"}"#
            let job = try ferry.run(
                #"{"kind":"data","session":"\#(session)","request":\#(request)\#(extra)}"#)
            return job["id"]?.string ?? ""
        }
    }

    @Test("an ordered endpoint that refuses every fourth try gets its events in order")
    func ordered() throws {
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let refusals = Counter()
        // Every fourth try is refused.
        let receiver = try WebhookReceiver { _ in refusals.next() % 4 == 3 ? 500 : 204 }
        defer { receiver.stop() }
        let endpoint = try create(
            receiver, session: "in-order",
            #","ordered":true,"events":["job.created","job.succeeded"],"#
                + #""metadata":{"team":"a"},"retry":{"delays":[1,1,1]}"#)
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let ids = try run(4, origin, session: "in-order", #","metadata":{"team":"a","x":"y"}"#)
        _ = try run(1, origin, session: "in-order", #","metadata":{"team":"b"}"#)
        _ = try run(1, origin, session: "elsewhere", #","metadata":{"team":"a"}"#)
        #expect(
            becomes(seconds: 240) {
                try ferry.json("GET", path + "/deliveries?state=accepted")["data"]?.array?.count == 8
            })
        let all = receiver.deliveries.wait(for: 8)
        var delivered: [WebhookReceiver.Delivery] = []
        for delivery in all where delivered.last?.id != delivery.id { delivered.append(delivery) }
        #expect(
            delivered.count == 8 && Set(delivered.map(\.id)).count == 8,
            "an event was delivered before the retry of an earlier one")
        let numbers = delivered.compactMap { $0.json["data"]?["sequence"]?.integer }
        #expect(numbers.count == 8 && numbers == numbers.sorted())
        #expect(Set(delivered.compactMap { $0.job?["id"]?.string }) == Set(ids))
        let types = delivered.compactMap { $0.json["type"]?.string }
        #expect(types.filter { $0 == "job.created" }.count == 4)
        #expect(types.filter { $0 == "job.succeeded" }.count == 4)
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("410 disables an endpoint; enabled again, it gets waiting deliveries, and a replay sends all")
    func disabledAndReplayed() throws {
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let isUp = Atomic(false)
        let receiver = try WebhookReceiver { _ in isUp.load(ordering: .relaxed) ? 204 : 410 }
        defer { receiver.stop() }
        let since = Timestamp(microseconds: Sys.wallMicroseconds()) + -60
        let endpoint = try create(receiver, session: "gone", #","ordered":true,"events":["job.created"]"#)
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let job = #"{"kind":"data","session":"gone","request":{"url":"\#(origin.url)/f/1"}}"#
        // A batch, so that all events have their deliveries together.
        let ids = try ferry.submitBatch(#"{"jobs":[\#(job),\#(job),\#(job)]}"#)
        #expect(becomes { try ferry.json("GET", path)["disabled_reason"]?["code"]?.string == "gone" })
        let count = { (state: String) in
            try ferry.json("GET", path + "/deliveries?state=\(state)")["data"]?.array?.count ?? 0
        }
        #expect(becomes { try count("given_up") == 1 && count("pending") == 2 })
        isUp.store(true, ordering: .relaxed)
        let enabled = try ferry.json("PATCH", path, #"{"enabled":true}"#)
        #expect(enabled["disabled_reason"] == .null && enabled["enabled"]?.bool == true)
        #expect(becomes { try count("accepted") == 2 })
        let failed = try ferry.json("POST", path + "/replay", #"{"since":"\#(since)","only":"failed"}"#)
        #expect(failed["redelivered"]?.integer == 1)
        #expect(becomes { try count("accepted") == 3 })
        let all = try ferry.json("POST", path + "/replay", #"{"since":"\#(since)"}"#)
        #expect(all["redelivered"]?.integer == 3)
        let delivered = receiver.deliveries.wait(for: 7)
        #expect(delivered.count == 7 && Set(delivered.map(\.id)).count == 3)
        #expect(Set(delivered.compactMap { $0.job?["id"]?.string }) == Set(ids))
        #expect(becomes { try count("accepted") == 3 })
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("a replay sends the events of its period; a redelivery goes before waiting ones")
    func timeAndOrder() throws {
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let isUp = Atomic(true)
        let receiver = try WebhookReceiver { _ in isUp.load(ordering: .relaxed) ? 204 : 503 }
        defer { receiver.stop() }
        // A refused delivery waits longer than the test takes.
        let rules = #","ordered":true,"events":["job.created"],"retry":{"delays":[600,600]}"#
        let endpoint = try create(receiver, session: "again", rules)
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let job = #"{"kind":"data","session":"again","request":{"url":"\#(origin.url)/f/1"}}"#
        func accepted() throws -> [JSON] {
            try ferry.json("GET", path + "/deliveries?state=accepted")["data"]?.array ?? []
        }
        for count in 1...2 {
            _ = try ferry.run(job)
            #expect(becomes { try accepted().count == count })
        }
        // Newest first.
        let delivered = try accepted()
        let (from, until) = (
            delivered[1]["occurred_at"]?.string ?? "", delivered[0]["occurred_at"]?.string ?? ""
        )
        #expect(receiver.deliveries.wait(for: 2).count == 2)
        let times = [(#"{"since":"\#(from)","until":"\#(until)"}"#, 1), (#"{"since":"\#(until)"}"#, 0)]
        for (time, index) in times {
            #expect(try ferry.json("POST", path + "/replay", time)["redelivered"]?.integer == 1)
            #expect(receiver.deliveries.wait().map(\.id) == [delivered[index]["event"]?.string])
            #expect(becomes { try accepted().count == 2 })
        }
        isUp.store(false, ordering: .relaxed)
        _ = try ferry.run(job)
        let refused = try #require(receiver.deliveries.wait().first)
        var waiting: JSON?
        let isKnown = becomes {
            waiting = try ferry.json("GET", path + "/deliveries?state=pending")["data"]?.array?.first
            return waiting?["tries"]?.array?.first?["status"]?.integer == 503
        }
        #expect(isKnown && waiting?["event"]?.string == refused.id, "\(waiting ?? .null)")
        isUp.store(true, ordering: .relaxed)
        func sendAgain(_ delivery: JSON?) throws {
            let again = "/v1/deliveries/\(delivery?["id"]?.string ?? "")/redeliver"
            #expect(try ferry.call("POST", again, "{}").status == 200)
        }
        try sendAgain(delivered[1])
        #expect(receiver.deliveries.wait().map(\.id) == [delivered[1]["event"]?.string])
        try sendAgain(waiting)
        #expect(receiver.deliveries.wait().map(\.id) == [refused.id])
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("with 10 of 100 endpoints down, the others get all events, in order if required")
    func manyEndpoints() throws {
        let database = try TestDatabase()
        let own = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { own.remove() }
        let origin = try HalfwayOrigin(free: 1_000)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let gate = Gate()
        let silent = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = gate.pass()
        }
        defer {
            gate.open()
            silent.stop()
        }
        let closed = "http://127.0.0.1:\(try FreePort.find())"
        for number in 0..<100 {
            let url = number < 5 ? silent.url : number < 10 ? closed : receiver.url
            let response = try own.call(
                "POST", "/v1/webhooks",
                #"{"url":"\#(url)/\#(number)","ordered":\#(number % 2 == 0),"events":["job.succeeded"]}"#)
            #expect(response.status == 201)
        }
        let ids = try own.submitBatch(origin.batch(0..<20))
        // Counts each event once: on a busy machine a response may take longer than a try, which is repeated
        // then.
        var delivered: [WebhookReceiver.Delivery] = []
        var known: Set<String> = []
        #expect(
            becomes(seconds: 240) {
                delivered += receiver.deliveries.wait(seconds: 1).filter {
                    known.insert($0.path + $0.id).inserted
                }
                return delivered.count == 1_800
            }, "\(delivered.count)")
        let sequences = Dictionary(grouping: delivered, by: \.path).mapValues { deliveries in
            deliveries.compactMap { $0.json["data"]?["sequence"]?.integer }
        }
        #expect(sequences.count == 90)
        for (path, numbers) in sequences {
            #expect(Set(numbers).count == 20, "\(path)")
            let isOrdered = (Int(path.dropFirst()) ?? 1) % 2 == 0
            if isOrdered { #expect(numbers == numbers.sorted(), "\(path)") }
        }
        #expect(Set(delivered.compactMap { $0.job?["id"]?.string }) == Set(ids))
        let pending = try own.json("GET", "/v1/admin/status")["webhooks"]?["pending"]?.integer ?? 0
        #expect(pending >= 200, "deliveries of the endpoints that are down wait")
    }

    @Test("after kill -9 an ordered endpoint gets all events in order")
    func killed() throws {
        let database = try TestDatabase()
        let own = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { own.remove() }
        let origin = try HalfwayOrigin(free: 1_000)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        _ = try own.json(
            "POST", "/v1/webhooks", #"{"url":"\#(receiver.url)","ordered":true,"events":["job.succeeded"]}"#)
        let ids = try own.submitBatch(origin.batch(0..<200))
        let before = receiver.deliveries.wait(for: 20, seconds: 240)
        own.kill9()
        try own.start()
        var delivered = before
        var eventIDs = Set(before.map(\.id))
        #expect(
            becomes(seconds: 240) {
                for delivery in receiver.deliveries.wait(seconds: 1) {
                    delivered.append(delivery)
                    eventIDs.insert(delivery.id)
                }
                return eventIDs.count == 200
            }, "\(eventIDs.count)")
        var first: [Int64] = []
        var known: Set<String> = []
        for delivery in delivered where known.insert(delivery.id).inserted {
            first.append(delivery.json["data"]?["sequence"]?.integer ?? 0)
        }
        #expect(first == first.sorted(), "first deliveries are in sequence order")
        #expect(Set(delivered.compactMap { $0.job?["id"]?.string }) == Set(ids))
    }

    @Test("testing an endpoint that is down shows one failed try and leaves it enabled")
    func deadReceiver() throws {
        let receiver = try WebhookReceiver()
        let endpoint = try create(receiver, session: "dead")
        receiver.stop()
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let delivery = try ferry.json("POST", path + "/test", "{}")
        #expect(delivery["state"]?.string == "given_up", "\(delivery)")
        #expect(delivery["tries"]?.array?.map { $0["error"]?.string } == ["could_not_connect"])
        let shown = try ferry.json("GET", path)
        #expect(shown["enabled"]?.bool == true && shown["failing_since"] == .null)
    }
}
