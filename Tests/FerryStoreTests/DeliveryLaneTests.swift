import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import Testing

@Suite("Claims of many lanes")
struct DeliveryLaneTests {
    private let database: TestDatabase
    private let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    private func claim(_ rooms: DeliveryRooms) throws -> ClaimedDeliveries {
        let found = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(rooms, leaseSeconds: 600) { found.send($0) }
        return try #require(found.wait(milliseconds: 60_000).first)
    }

    @Test(
        "claims that cannot take everything serve one lane after another, whatever their number",
        arguments: [5, 1_100])
    func turns(laneCount: Int) throws {
        defer { node.store.stop() }
        try addDeliveries(laneCount * 8, receiverCount: laneCount, database.url)
        let total = laneCount / 5 * 2
        var served: Set<LaneID> = []
        for _ in 0..<5 {
            let found = try claim(DeliveryRooms(total: total, other: 2)).due
            #expect(found.count == total)
            served.formUnion(found.map(\.lane))
        }
        #expect(served.count == laneCount)
    }

    @Test("a round through more lanes than one claim looks at comes to its end, wherever it began")
    func manyLanes() throws {
        defer { node.store.stop() }
        let laneCount = 12_000
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                    session, url, job_json)
                SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), i, now(),
                    now() + CASE WHEN i % 3 = 0 THEN '0 s' ELSE '1 hour' END::interval,
                    'job.succeeded', 'acme', 'default', 'https://' || i || '.example/', '{}'
                FROM generate_series(1, \(laneCount)) i
                """)
        // Full: the next one begins in the middle.
        #expect(try claim(DeliveryRooms(total: 1_000, other: 1)).due.count == 1_000)
        var (count, rounds) = (0, 0)
        while rounds < 10 {
            let found = try claim(DeliveryRooms(total: 2_000, other: 1))
            (count, rounds) = (count + found.due.count, rounds + 1)
            if !found.isMore { break }
        }
        #expect(count == 3_000 && rounds < 10)
        #expect(try claim(DeliveryRooms(total: 2_000, other: 1)).isMore)
        #expect(try !claim(DeliveryRooms(total: 2_000, other: 1)).isMore, "nothing is due any more")
    }
}
