import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Deliveries")
struct DeliveriesTests {
    @Test("a delivery is shown with every try, and can be sent again")
    func deliveries() throws {
        let fixture = Fixture()
        let job = try fixture.submit()
        let id = DeliveryID(high: 3, low: 4)
        let attempt = DeliveryRecord.Try(
            number: 1, startedAt: Timestamp(microseconds: 0), duration: 0.25, status: 500,
            error: "unacceptable_status",
            answer: "oh \"no\"")
        fixture.store.state.withLock {
            $0.deliveries = [
                DeliveryRecord(
                    id: id, event: EventID(high: 5, low: 6), type: .jobFailed, job: job, session: "default",
                    sequence: 7,
                    url: "http://b.example/", state: .givenUp, occurredAt: Timestamp(microseconds: 0),
                    nextTryAt: nil,
                    tries: [attempt])
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

    @Test(
        "what does not exist is 404",
        arguments: ["/v1/deliveries/dlv_00000000000000000000000000", "/v1/deliveries/x"])
    func unknown(_ path: String) throws {
        #expect(try Fixture().send("GET", path).status == 404)
    }
}
