import FerryCore
import Postgres
import TestSupport
import Testing

@testable import FerryStore

@Suite("The floor of the inbox")
struct InboxFloorTests {
    /// Writers that draw positions and come to their ends in any order, and a relay that takes what it sees.
    private struct World {
        var random: SeededRandom
        var now: Int64 = 0
        private var drawn: Int64 = 0
        private var begun: Int64 = 0
        /// Open transactions, and what each has drawn.
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
                // Rolled back: these never come.
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

        /// The relay sees nothing up to the floor.
        mutating func take(behind floor: Int64) {
            let taken = inbox.filter { $0 > floor }.sorted().prefix(3)
            inbox.subtract(taken)
            unseen.subtract(taken)
        }

        mutating func endAll() {
            for drawn in open.values { inbox.formUnion(drawn) }
            open = [:]
        }
    }

    @Test("nothing is ever below it, and it follows what is taken", arguments: 0..<50 as Range<UInt64>)
    func laws(seed: UInt64) {
        var world = World(seed: seed)
        var floor = InboxLowWatermark()
        floor.connected(1)
        var highest: Int64 = 0
        for _ in 0..<2_000 {
            world.step()
            let look = world.look(floor.question(world.now))
            floor.note(look, at: world.now)
            world.take(behind: floor.position)
            #expect(world.unseen.allSatisfy { $0 > floor.position })
            highest = max(highest, floor.position)
        }
        #expect(highest > 100)
        world.endAll()
        while !world.inbox.isEmpty { world.take(behind: floor.position) }
        #expect(world.unseen.isEmpty)
    }

    @Test("a new connection begins anew, and so does a row that comes back")
    func anew() {
        var floor = InboxLowWatermark()
        floor.connected(1)
        let advance = { (floor: inout InboxLowWatermark) in
            for (second, number) in [(0, nil), (1, 7), (2, nil)] as [(Int64, Int64?)] {
                let now = second * 1_000_000_000
                #expect(floor.question(now).isNumbered == (number != nil))
                floor.note(.init(first: nil, drawn: 100, oldest: 50, number: number), at: now)
            }
        }
        advance(&floor)
        #expect(floor.position == 100)
        // Another server that has forgotten.
        #expect(floor.question(61_000_000_000).position == 0)
        floor.note(.init(first: 40, drawn: 100, oldest: 60), at: 61_000_000_000)
        #expect(floor.position == 39)
        floor.connected(2)
        #expect(floor.position == 0)
    }

    @Test("PostgreSQL's numbers say so: a writer that is open holds it, and its row is found when it commits")
    func database() throws {
        let database = try TestDatabase(template: template)
        var relay = try Connection(url: database.url)
        var writer = try Connection(url: database.url)
        var other = try Connection(url: database.url)
        var now: Int64 = 0
        var floor = InboxLowWatermark()
        floor.connected(1)
        func look() throws {
            now += 1_000_000_000
            let question = floor.question(now)
            floor.note(try EventRelay.look(question, &relay).look, at: now)
        }
        let insert = "INSERT INTO event_inbox (tenant, session, packed) VALUES ('a', 'b', '')"
        try writer.execute(script: "BEGIN; \(insert);")
        try other.execute(script: "\(insert); DELETE FROM event_inbox")
        for _ in 0..<6 { try look() }
        #expect(floor.position == 0)
        try writer.execute(script: "COMMIT")
        for _ in 0..<6 { try look() }
        #expect(floor.position == 0, "its row is there")
        try other.execute(script: "DELETE FROM event_inbox")
        // Writers of other databases hold it as well, for their moments.
        try eventually("it has followed") {
            try look()
            return floor.position == 2
        }
        try other.execute(script: "\(insert)")
        #expect(try EventRelay.look(floor.question(now), &relay).look.first == 3)
        // Somebody who only reads holds nothing.
        try writer.execute(script: "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM event_inbox;")
        try other.execute(script: "DELETE FROM event_inbox")
        try eventually("it has followed") {
            try look()
            return floor.position == 3
        }
    }
}
