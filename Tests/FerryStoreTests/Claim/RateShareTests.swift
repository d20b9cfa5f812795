import FerryCore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Limits that nodes share", .onOwnThread)
struct RateShareTests {
    private static let key = RateKey.session(SessionKey(tenant: "acme", name: "slow"))
    private static let limit: Int64 = 1_000_000

    private static func demand(_ count: Int) -> RateDemand {
        var demand = RateDemand()
        demand[key] = count
        return demand
    }

    /// Follows what a node is told.
    private final class Told {
        let node: TestNode
        private var latest = RateShares()

        init(_ node: TestNode) { self.node = node }

        var part: Int64 {
            if let last = node.runner.limits.take().last { latest = last.1 }
            return latest.part(of: limit, for: key)
        }
        func wants(_ count: Int) { node.runner.demand.withLock { $0 = demand(count) } }
    }

    @Test("two nodes share a limit by their demand, and follow its changes")
    func nodes() throws {
        let database = try TestDatabase(template: template)
        let nodes = try (0..<2).map { _ in Told(try TestNode(database.url, leaseSeconds: 2)) }
        defer { for node in nodes { node.node.store.stop() } }
        let isShared = { (_ parts: [Int64]) in
            eventually("\(parts)") { zip(nodes, parts).allSatisfy { $0.part == $1 } }
        }
        isShared([500_000, 500_000])
        nodes[0].wants(1)
        isShared([975_000, 25_000])
        nodes[1].wants(3)
        isShared([262_500, 737_500])
        nodes[0].wants(0)
        isShared([25_000, 975_000])
        nodes[1].wants(0)
        isShared([500_000, 500_000])
        // One that goes leaves its part at once.
        nodes[0].wants(2)
        isShared([975_000, 25_000])
        nodes[1].node.store.stop()
        eventually("all is the other's") { nodes[0].part == 1_000_000 }
    }

    @Test("beside a node that reports no demand all nodes get equal shares")
    func earlierVersion() throws {
        let database = try TestDatabase(template: template)
        let node = Told(try TestNode(database.url))
        defer { node.node.store.stop() }
        node.wants(1)
        eventually("all is its own") { node.part == 1_000_000 }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker)
                VALUES (gen_random_uuid(), 'old', '0', now(), now() + '1 h', 0, false, true)
                """)
        eventually("half is its own") { node.part == 500_000 }
        try connection.execute(script: "UPDATE nodes SET rate_demand = '{}' WHERE name = 'old'")
        eventually("nearly all is its own") { node.part == 975_000 }
    }

    /// A node as its board knows it.
    private struct Simulated {
        let cache = LimitsCache(fallback: TransferLimits())
        let runner = RecordingRunner()
        var told = RateDemand()
        var part: Int64 = 0

        mutating func beat(_ demand: RateDemand, beside others: [RateDemand], isHeard: Bool = true) {
            let own = cache.beginPublishing(demand)
            if isHeard {
                told = demand
                cache.endPublishing(
                    demand, own: own, others: others.map(\.json), nodeCount: others.count + 1)
            }
            cache.apply(nil, reading: cache.beginReading(), to: runner)
            part = runner.limits.take().last?.1.part(of: limit, for: key) ?? 0
        }
    }

    @Test("while every node beats, the sum of the shares never exceeds the limit")
    func sum() {
        var random = SeededRandom(seed: 5)
        for count in 1...6 {
            var nodes = (0..<count).map { _ in Simulated() }
            let beat = { (nodes: inout [Simulated], index: Int, demand: RateDemand) in
                let others = nodes.indices.filter { $0 != index }.map { nodes[$0].told }
                nodes[index].beat(demand, beside: others)
            }
            for index in nodes.indices { beat(&nodes, index, RateDemand()) }
            for _ in 0..<200 {
                for index in nodes.indices {
                    let jobs = Bool.random(using: &random) ? 0 : Int.random(in: 0...9, using: &random)
                    beat(&nodes, index, Self.demand(jobs))
                    let sum = nodes.map(\.part).reduce(0, +)
                    #expect(sum <= Self.limit, "\(nodes.map(\.part))")
                }
            }
            // As soon as nothing changes any more nothing is left over.
            for _ in 0..<3 { for index in nodes.indices { beat(&nodes, index, Self.demand(index + 1)) } }
            let sum = nodes.map(\.part).reduce(0, +)
            #expect(sum > Self.limit - 10, "\(nodes.map(\.part))")
        }
    }

    @Test("demand that other nodes may not have read is not counted")
    func unheard() {
        var (node, other) = (Simulated(), Simulated())
        for _ in 0..<2 {
            node.beat(Self.demand(2), beside: [other.told])
            other.beat(Self.demand(2), beside: [node.told])
        }
        #expect(node.part == 500_000)
        // The database has taken it, and the answer was lost; or it has not.
        node.beat(Self.demand(1), beside: [other.told], isHeard: false)
        node.beat(Self.demand(6), beside: [other.told])
        #expect(node.part == 25_000 + 316_666)
        node.beat(Self.demand(6), beside: [other.told])
        #expect(node.part == 25_000 + 712_500)
    }
}
