import FerryCore
import Testing

@Suite struct RateSharesTests {
    private static let key = RateKey.session(SessionKey(tenant: "a", name: "b"))

    private static func demand(_ count: Int, _ key: RateKey = key) -> RateDemand {
        var demand = RateDemand()
        demand[key] = count
        return demand
    }

    private static func part(_ nodeCount: Int, own: Int, others: Int?, of limit: Int64 = 1_000_000) -> Int64 {
        RateShares(nodeCount: nodeCount, own: demand(own), others: others.map { demand($0) })
            .part(of: limit, for: key)
    }

    @Test("shares are proportional to jobs; a single busy node gets nearly all, an idle one enough to begin")
    func parts() {
        #expect(Self.part(1, own: 0, others: 0) == 1_000_000)
        #expect(Self.part(1, own: 5, others: 0) == 1_000_000)
        #expect(Self.part(2, own: 1, others: 0) == 975_000)
        #expect(Self.part(2, own: 0, others: 1) == 25_000)
        #expect(Self.part(2, own: 3, others: 3) == 500_000)
        #expect(Self.part(4, own: 1, others: 2) == 12_500 + 316_666)
        #expect(Self.part(100, own: 7, others: 0) >= 950_000)
        // No node has jobs, or a node does not report its demand.
        #expect(Self.part(4, own: 0, others: 0) == 250_000)
        #expect(Self.part(4, own: 9, others: nil) == 250_000)
        #expect(Self.part(4, own: 0, others: 9, of: 1) == 1)
    }

    @Test("jobs under one limit do not count for another one")
    func keys() {
        var own = Self.demand(1)
        own[.received] = 2
        var others = Self.demand(3, .host("https://a:443"))
        others[.sent] = 1
        let shares = RateShares(nodeCount: 2, own: own, others: others)
        #expect(shares.part(of: 1_000, for: Self.key) == 975)
        #expect(shares.part(of: 1_000, for: .received) == 975)
        #expect(shares.part(of: 1_000, for: .sent) == 25)
        #expect(shares.part(of: 1_000, for: .host("https://a:443")) == 25)
        #expect(shares.part(of: 1_000, for: .host("https://b:443")) == 500)
    }

    @Test("the shares of all nodes add up to at most the limit")
    func sum() {
        var random = SeededRandom(seed: 26)
        for _ in 0..<2_000 {
            let counts = (0..<Int.random(in: 1...9, using: &random)).map { _ in
                Int.random(in: 0...3, using: &random)
            }
            let limit = Int64.random(in: 1_000...1 << 53 - 1, using: &random)
            let all = counts.reduce(0, +)
            let parts = counts.map { Self.part(counts.count, own: $0, others: all - $0, of: limit) }
            #expect(parts.reduce(0, +) <= limit)
            #expect(all == 0 || Double(parts.reduce(0, +)) > 0.999 * Double(limit) - 9)
        }
    }

    @Test("demand is read back from its JSON, and damaged JSON is rejected")
    func coding() {
        var demand = RateDemand()
        demand[.received] = 3
        demand[.session(SessionKey(tenant: "a", name: "with \"quotes\" and spaces"))] = 1
        demand[.host("https://h:1")] = 0
        #expect(RateDemand(json: demand.json) == demand)
        #expect(demand.jobCounts.count == 2)
        for text in ["", "[]", "{\"received\":-1}", "{\"received\":\"1\"}", "{\"received\":1e99}"] {
            #expect(RateDemand(json: Array(text.utf8)) == nil, "\(text)")
        }
    }
}
