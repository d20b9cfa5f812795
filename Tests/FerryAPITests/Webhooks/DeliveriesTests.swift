import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Deliveries")
struct DeliveriesTests {
    @Test("a delivery shows its tries and can be redelivered")
    func deliveries() throws {
        let fixture = Fixture()
        let job = try fixture.submit()
        let id = DeliveryID(high: 3, low: 4)
        let attempt = DeliveryRecord.Try(
            number: 1, startedAt: Timestamp(microseconds: 0), duration: 0.25, status: 500,
            error: "unacceptable_status", responseExcerpt: "oh \"no\"")
        fixture.store.state.withLock {
            $0.deliveries = [
                DeliveryRecord(
                    id: id, event: EventID(high: 5, low: 6), type: "job.failed", tenant: "default",
                    session: "default", job: job, sequence: 7, occurredAt: Timestamp(microseconds: 0),
                    url: "http://b.example/", state: .givenUp, nextTryAt: nil, tries: [attempt])
            ]
        }
        let list = try fixture.send("GET", "/v1/jobs/\(job)/deliveries", key: fixture.viewerKey)
        let shown = try #require(list.json["data"]?.array?.first)
        #expect(shown["state"] == .string("given_up"))
        #expect(shown["tries"]?.array?.first?["answer"] == .string("oh \"no\""))
        #expect(try fixture.send("GET", "/v1/deliveries/\(id)").json == shown)
        #expect(
            try fixture.send("POST", "/v1/deliveries/\(id)/redeliver", key: fixture.viewerKey).status == 403)
        #expect(
            try fixture.send("POST", "/v1/deliveries/\(id)/redeliver").json["state"] == .string("pending"))
    }

    @Test("pages of deliveries have no gaps, newest first")
    func pages() throws {
        let fixture = Fixture()
        let job = try fixture.submit()
        let ids = (1...5).map { DeliveryID(high: 3, low: $0) }
        fixture.store.state.withLock { state in
            state.deliveries = ids.map { id in
                DeliveryRecord(
                    id: id, event: EventID(high: 5, low: 6), type: "job.failed", tenant: "default",
                    session: "default", job: job, sequence: 7, occurredAt: Timestamp(microseconds: 0),
                    url: "http://b.example/", state: .accepted, nextTryAt: nil)
            }
        }
        var seen: [String] = []
        var target: String? = "/v1/jobs/\(job)/deliveries?limit=2"
        while let page = target {
            let response = try fixture.send("GET", page)
            seen += response.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
            #expect((response.header("Link") == nil) == (response.json["next_cursor"] == .null))
            target = response.header("Link").map { String($0.dropFirst().prefix { $0 != ">" }) }
        }
        #expect(seen == ids.reversed().map(\.description))
        for wrong in ["limit=0", "cursor=x", "state=pending"] {
            #expect(try fixture.send("GET", "/v1/jobs/\(job)/deliveries?\(wrong)").status == 400)
        }
    }

    @Test(
        "an unknown delivery is 404",
        arguments: ["/v1/deliveries/dlv_00000000000000000000000000", "/v1/deliveries/x"])
    func unknown(_ path: String) throws {
        #expect(try Fixture().send("GET", path).status == 404)
    }
}
