import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Low watermark of the inbox", .onOwnThread)
struct InboxLowWatermarkTests {
    /// Transactions that draw positions and end in any order, and a relay that takes the rows it sees.
    private struct World {
        var random: SeededRandom
        var now: Int64 = 0
        private var drawn: Int64 = 0
        private var begun: Int64 = 0
        /// Open transactions and their positions.
        private var open: [Int64: [Int64]] = [:]
        private(set) var inbox: Set<Int64> = []
        private(set) var unseen: Set<Int64> = []

        init(seed: UInt64) { random = SeededRandom(seed: seed) }

        mutating func step() {
            now += Int64.random(in: 1...200_000_000, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                begun += 1
                drawn += 1
                open[begun] = [drawn]
                unseen.insert(drawn)
            case 2:
                guard let some = open.keys.sorted().randomElement(using: &random) else { return }
                drawn += 1
                open[some, default: []].append(drawn)
                unseen.insert(drawn)
            case 3:
                guard let some = open.keys.sorted().randomElement(using: &random) else { return }
                inbox.formUnion(open.removeValue(forKey: some) ?? [])
            default:
                guard let some = open.keys.sorted().randomElement(using: &random) else { return }
                // Rolled back: these rows never come.
                unseen.subtract(open.removeValue(forKey: some) ?? [])
            }
        }

        mutating func look(_ question: InboxLowWatermark.Question) -> InboxLowWatermark.Look {
            var number: Int64?
            let oldest = open.keys.min() ?? begun + 1
            if question.isNumbered {
                begun += 1
                number = begun
            }
            return .init(
                first: inbox.filter { $0 > question.position }.min(), drawn: drawn, oldest: oldest,
                number: number)
        }

        /// The relay reads only rows above the low watermark.
        mutating func take(behind lowWatermark: Int64) {
            let taken = inbox.filter { $0 > lowWatermark }.sorted().prefix(3)
            inbox.subtract(taken)
            unseen.subtract(taken)
        }

        mutating func endAll() {
            for drawn in open.values { inbox.formUnion(drawn) }
            open = [:]
        }
    }

    @Test(
        "no row is ever below the low watermark, and it follows the taken rows",
        arguments: 0..<50 as Range<UInt64>)
    func laws(seed: UInt64) {
        var world = World(seed: seed)
        var lowWatermark = InboxLowWatermark()
        lowWatermark.connected(1)
        var highest: Int64 = 0
        for _ in 0..<2_000 {
            world.step()
            let look = world.look(lowWatermark.question(world.now))
            lowWatermark.note(look, at: world.now)
            world.take(behind: lowWatermark.position)
            #expect(world.unseen.allSatisfy { $0 > lowWatermark.position })
            highest = max(highest, lowWatermark.position)
        }
        #expect(highest > 100)
        world.endAll()
        while !world.inbox.isEmpty { world.take(behind: lowWatermark.position) }
        #expect(world.unseen.isEmpty)
    }

    @Test("a new connection resets the low watermark, and an earlier row lowers it")
    func reset() {
        var lowWatermark = InboxLowWatermark()
        lowWatermark.connected(1)
        let advance = { (lowWatermark: inout InboxLowWatermark) in
            for (second, number) in [(0, nil), (1, 7), (2, nil)] as [(Int64, Int64?)] {
                let now = second * 1_000_000_000
                #expect(lowWatermark.question(now).isNumbered == (number != nil))
                lowWatermark.note(.init(first: nil, drawn: 100, oldest: 50, number: number), at: now)
            }
        }
        advance(&lowWatermark)
        #expect(lowWatermark.position == 100)
        // An older copy of the database.
        #expect(lowWatermark.question(61_000_000_000).position == 0)
        lowWatermark.note(.init(first: 40, drawn: 100, oldest: 60), at: 61_000_000_000)
        #expect(lowWatermark.position == 39)
        lowWatermark.connected(2)
        #expect(lowWatermark.position == 0)
    }

    @Test("in PostgreSQL an open writer holds the low watermark until its row is committed and taken")
    func database() throws {
        let database = try TestDatabase(template: template)
        var relay = try Connection(url: database.url)
        var writer = try Connection(url: database.url)
        var other = try Connection(url: database.url)
        var now: Int64 = 0
        var lowWatermark = InboxLowWatermark()
        lowWatermark.connected(1)
        func look() throws {
            now += 1_000_000_000
            let question = lowWatermark.question(now)
            lowWatermark.note(try EventRelay.look(question, &relay).look, at: now)
        }
        let insert = "INSERT INTO event_inbox (tenant, session, packed) VALUES ('a', 'b', '')"
        try writer.execute(script: "BEGIN; \(insert);")
        try other.execute(script: "\(insert); DELETE FROM event_inbox")
        for _ in 0..<6 { try look() }
        #expect(lowWatermark.position == 0)
        try writer.execute(script: "COMMIT")
        for _ in 0..<6 { try look() }
        #expect(lowWatermark.position == 0, "its row is in the inbox")
        try other.execute(script: "DELETE FROM event_inbox")
        // Open writers of other databases also hold the low watermark.
        try eventually("the low watermark has risen") {
            try look()
            return lowWatermark.position == 2
        }
        try other.execute(script: "\(insert)")
        #expect(try EventRelay.look(lowWatermark.question(now), &relay).look.first == 3)
        // A transaction that only reads does not hold it.
        try writer.execute(script: "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM event_inbox;")
        try other.execute(script: "DELETE FROM event_inbox")
        try eventually("the low watermark has risen") {
            try look()
            return lowWatermark.position == 3
        }
    }
}
