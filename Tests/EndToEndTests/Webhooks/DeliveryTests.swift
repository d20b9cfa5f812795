import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Deliveries", .onOwnThread)
struct DeliveryTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("a delivery is listed with its tries and can be sent again with the same id")
    func redelivery() throws {
        let origin = try HalfwayOrigin(free: 1)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<1, webhook: receiver.url + "/hook"))
        let first = try #require(receiver.deliveries.wait().first)
        // Endpoints of other tests may get the event as well.
        let list = {
            let all = try ferry.json("GET", "/v1/jobs/\(ids[0])/deliveries")["data"]?.array ?? []
            return all.filter { $0["url"]?.string == receiver.url + "/hook" }
        }
        #expect(becomes { try list().first?["state"]?.string == "accepted" })
        let delivery = try #require(list().first)
        #expect(delivery["event"]?.string == first.id && delivery["job"]?.string == ids[0])
        #expect(delivery["url"]?.string == receiver.url + "/hook" && delivery["next_try_at"] == .null)
        #expect(delivery["tries"]?.array?.map { $0["status"]?.integer } == [204], "\(delivery)")
        let path = "/v1/deliveries/\(delivery["id"]?.string ?? "")"
        #expect(try ferry.call("POST", path + "/redeliver", "{}").status == 200)
        let second = try #require(receiver.deliveries.wait().first)
        #expect(second.id == first.id && second.body == first.body)
        #expect(try second.isSigned(by: webhookSecret))
        #expect(becomes { try ferry.json("GET", path)["tries"]?.array?.count == 2 })
        #expect(try ferry.json("GET", path)["state"]?.string == "accepted")
    }

    @Test("410 ends a delivery, and a redirect leaves it pending")
    func refusals() throws {
        let origin = try HalfwayOrigin(free: 2)
        defer { origin.stop() }
        let target = try WebhookReceiver()
        defer { target.stop() }
        let givingUp = try WebhookReceiver { _ in 410 }
        defer { givingUp.stop() }
        let redirecting = try ScriptedOrigin.answering { [url = target.url] _, _ in
            Array("HTTP/1.1 308 X\r\nLocation: \(url)/\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { redirecting.stop() }
        for (receiver, state, status) in [
            (givingUp.url, "given_up", Int64(410)), (redirecting.url, "pending", 308),
        ] {
            let url = receiver + "/hook"
            let id = try ferry.submitBatch(origin.batch(1..<2, webhook: url))[0]
            var delivery: JSON?
            let isTried = becomes {
                // Endpoints of other tests may get the event as well.
                delivery = try ferry.json("GET", "/v1/jobs/\(id)/deliveries")["data"]?.array?
                    .first { $0["url"]?.string == url }
                // A refused delivery is tried again after some seconds.
                return (delivery?["tries"]?.array?.count ?? 0) >= 1
            }
            // State and tries are from the same response.
            #expect(isTried && delivery?["state"]?.string == state, "\(delivery ?? .null)")
            #expect(delivery?["tries"]?.array?.first?["status"]?.integer == status)
        }
        #expect(target.deliveries.wait(seconds: 0).isEmpty)
    }

    @Test("a job's webhook gets only its events, with ascending sequence numbers in the session")
    func events() throws {
        let origin = try HalfwayOrigin(free: 4)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let job = { (event: String) in
            #"{"kind":"data","session":"numbers","request":{"url":"\#(origin.url)/f/1"},"#
                + #""webhook":{"url":"\#(receiver.url)","events":["\#(event)"]}}"#
        }
        let ids = try ["job.succeeded", "job.failed", "job.succeeded"].map { event in
            try ferry.run(job(event))["id"]?.string ?? ""
        }
        let deliveries = receiver.deliveries.wait(for: 2)
        #expect(Set(deliveries.compactMap { $0.job?["id"]?.string }) == [ids[0], ids[2]])
        let numbers = ids.compactMap { id in
            deliveries.first { $0.job?["id"]?.string == id }?.json["data"]?["sequence"]?.integer
        }
        #expect(numbers.count == 2 && numbers[0] < numbers[1])
        #expect(deliveries.allSatisfy { $0.json["data"]?["session"]?.string == "numbers" })
        // Endpoints of other tests get the event as well.
        let others = try ferry.json("GET", "/v1/jobs/\(ids[1])/deliveries")["data"]?.array ?? []
        #expect(others.allSatisfy { $0["url"]?.string != receiver.url })
    }
}
