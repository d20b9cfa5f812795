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

    /// Others run jobs at the same service: each endpoint has a session of its own.
    private func create(_ receiver: WebhookReceiver, session: String, _ extra: String = "") throws -> JSON {
        try ferry.json(
            "POST", "/v1/webhooks", #"{"url":"\#(receiver.url)/hook","session":"\#(session)"\#(extra)}"#)
    }

    @Test("a test sends a request that both of the endpoint's keys have signed, and shows what came back")
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

    @Test("after a rotation both secrets sign, and after one without an overlap only the new one")
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
        // The day that the first rotation has promised it is over as well: somebody may know it.
        #expect(try last.isSigned(by: first["secret"]?.string ?? "") == false)
        #expect(try last.isSigned(byPublicKey: third["public_key"]?.string ?? ""))
        #expect(try last.isSigned(byPublicKey: first["public_key"]?.string ?? "") == false)
    }

    /// Runs `count` jobs of a session one after another; their identifiers.
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

    @Test("an ordered endpoint gets what it has asked for, each event once and in order, while it falters")
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
        var told: [WebhookReceiver.Delivery] = []
        for delivery in all where told.last?.id != delivery.id { told.append(delivery) }
        #expect(told.count == 8 && Set(told.map(\.id)).count == 8, "nothing overtakes what is tried again")
        let numbers = told.compactMap { $0.json["data"]?["sequence"]?.integer }
        #expect(numbers.count == 8 && numbers == numbers.sorted())
        #expect(Set(told.compactMap { $0.job?["id"]?.string }) == Set(ids))
        let types = told.compactMap { $0.json["type"]?.string }
        #expect(types.filter { $0 == "job.created" }.count == 4)
        #expect(types.filter { $0 == "job.succeeded" }.count == 4)
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("410 disables an endpoint with its reason; enabled again it gets what has waited, and a replay all")
    func disabledAndReplayed() throws {
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let isBack = Atomic(false)
        let receiver = try WebhookReceiver { _ in isBack.load(ordering: .relaxed) ? 204 : 410 }
        defer { receiver.stop() }
        let since = Timestamp(microseconds: Sys.wallMicroseconds()) + -60
        let endpoint = try create(receiver, session: "gone", #","ordered":true,"events":["job.created"]"#)
        let path = "/v1/webhooks/\(endpoint["id"]?.string ?? "")"
        let job = #"{"kind":"data","session":"gone","request":{"url":"\#(origin.url)/f/1"}}"#
        // Their events have their deliveries together.
        let ids = try ferry.submitBatch(#"{"jobs":[\#(job),\#(job),\#(job)]}"#)
        #expect(becomes { try ferry.json("GET", path)["disabled_reason"]?["code"]?.string == "gone" })
        let count = { (state: String) in
            try ferry.json("GET", path + "/deliveries?state=\(state)")["data"]?.array?.count ?? 0
        }
        #expect(becomes { try count("given_up") == 1 && count("pending") == 2 })
        isBack.store(true, ordering: .relaxed)
        let enabled = try ferry.json("PATCH", path, #"{"enabled":true}"#)
        #expect(enabled["disabled_reason"] == .null && enabled["enabled"]?.bool == true)
        #expect(becomes { try count("accepted") == 2 })
        let failed = try ferry.json("POST", path + "/replay", #"{"since":"\#(since)","only":"failed"}"#)
        #expect(failed["redelivered"]?.integer == 1)
        #expect(becomes { try count("accepted") == 3 })
        let all = try ferry.json("POST", path + "/replay", #"{"since":"\#(since)"}"#)
        #expect(all["redelivered"]?.integer == 3)
        let told = receiver.deliveries.wait(for: 7)
        #expect(told.count == 7 && Set(told.map(\.id)).count == 3)
        #expect(Set(told.compactMap { $0.job?["id"]?.string }) == Set(ids))
        #expect(becomes { try count("accepted") == 3 })
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("a replay takes the events of its time; sent again by hand, an earlier one goes before what waits")
    func timeAndOrder() throws {
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let isBack = Atomic(true)
        let receiver = try WebhookReceiver { _ in isBack.load(ordering: .relaxed) ? 204 : 503 }
        defer { receiver.stop() }
        // What is refused waits for longer than the test takes.
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
        // The newest first.
        let told = try accepted()
        let (from, until) = (told[1]["occurred_at"]?.string ?? "", told[0]["occurred_at"]?.string ?? "")
        #expect(receiver.deliveries.wait(for: 2).count == 2)
        let times = [(#"{"since":"\#(from)","until":"\#(until)"}"#, 1), (#"{"since":"\#(until)"}"#, 0)]
        for (time, index) in times {
            #expect(try ferry.json("POST", path + "/replay", time)["redelivered"]?.integer == 1)
            #expect(receiver.deliveries.wait().map(\.id) == [told[index]["event"]?.string])
            #expect(becomes { try accepted().count == 2 })
        }
        isBack.store(false, ordering: .relaxed)
        _ = try ferry.run(job)
        let refused = try #require(receiver.deliveries.wait().first)
        var waiting: JSON?
        let isKnown = becomes {
            waiting = try ferry.json("GET", path + "/deliveries?state=pending")["data"]?.array?.first
            return waiting?["tries"]?.array?.first?["status"]?.integer == 503
        }
        #expect(isKnown && waiting?["event"]?.string == refused.id, "\(waiting ?? .null)")
        isBack.store(true, ordering: .relaxed)
        func sendAgain(_ delivery: JSON?) throws {
            let again = "/v1/deliveries/\(delivery?["id"]?.string ?? "")/redeliver"
            #expect(try ferry.call("POST", again, "{}").status == 200)
        }
        try sendAgain(told[1])
        #expect(receiver.deliveries.wait().map(\.id) == [told[1]["event"]?.string])
        try sendAgain(waiting)
        #expect(receiver.deliveries.wait().map(\.id) == [refused.id])
        #expect(try ferry.call("DELETE", path).status == 204)
    }

    @Test("of a hundred endpoints ten are dead; the others get everything, in order where they want it")
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
            let answer = try own.call(
                "POST", "/v1/webhooks",
                #"{"url":"\#(url)/\#(number)","ordered":\#(number % 2 == 0),"events":["job.succeeded"]}"#)
            #expect(answer.status == 201)
        }
        let ids = try own.submitBatch(origin.batch(0..<20))
        // Each once, repetitions aside: on a busy machine an answer may take longer than a try.
        var told: [WebhookReceiver.Delivery] = []
        var known: Set<String> = []
        #expect(
            becomes(seconds: 240) {
                told += receiver.deliveries.wait(seconds: 1).filter { known.insert($0.path + $0.id).inserted }
                return told.count == 1_800
            }, "\(told.count)")
        let sequences = Dictionary(grouping: told, by: \.path).mapValues { deliveries in
            deliveries.compactMap { $0.json["data"]?["sequence"]?.integer }
        }
        #expect(sequences.count == 90)
        for (path, numbers) in sequences {
            #expect(Set(numbers).count == 20, "\(path)")
            let isOrdered = (Int(path.dropFirst()) ?? 1) % 2 == 0
            if isOrdered { #expect(numbers == numbers.sorted(), "\(path)") }
        }
        #expect(Set(told.compactMap { $0.job?["id"]?.string }) == Set(ids))
        let pending = try own.json("GET", "/v1/admin/status")["webhooks"]?["pending"]?.integer ?? 0
        #expect(pending >= 200, "what the dead ones miss waits")
    }

    @Test("after kill -9 an ordered endpoint misses nothing, and nothing comes before what came first")
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
        var told = before
        var seen = Set(before.map(\.id))
        #expect(
            becomes(seconds: 240) {
                for delivery in receiver.deliveries.wait(seconds: 1) {
                    told.append(delivery)
                    seen.insert(delivery.id)
                }
                return seen.count == 200
            }, "\(seen.count)")
        var first: [Int64] = []
        var known: Set<String> = []
        for delivery in told where known.insert(delivery.id).inserted {
            first.append(delivery.json["data"]?["sequence"]?.integer ?? 0)
        }
        #expect(first == first.sorted(), "in the order of their numbers, repetitions aside")
        #expect(Set(told.compactMap { $0.job?["id"]?.string }) == Set(ids))
    }

    @Test("a test of a receiver that is not there shows why, once, and does not disable the endpoint")
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
