import FerryEngine
import TestSupport
import Testing

@Suite struct SegmentPlanTests {
    private static func begin(_ plan: inout SegmentPlan, _ part: Int, least: Int64 = 1 << 20) -> Range<Int64>?
    {
        plan.begin(part) { _ in least }
    }

    @Test("free connections halve the largest rest, until the halves would be too small")
    func halving() {
        var plan = SegmentPlan(total: 8 << 20)
        #expect(Self.begin(&plan, 0) == 0..<8 << 20)
        #expect(Self.begin(&plan, 1) == 4 << 20..<8 << 20)
        #expect(Self.begin(&plan, 2) == 2 << 20..<4 << 20)
        #expect(Self.begin(&plan, 3) == 6 << 20..<8 << 20)
        #expect((4..<8).compactMap { Self.begin(&plan, $0) }.count == 4)
        #expect(Self.begin(&plan, 8) == nil)
        #expect(plan.runningCount == 8 && !plan.hasFree)
    }

    @Test("a part that loses its tail takes no byte beyond its new end")
    func cut() {
        var plan = SegmentPlan(total: 4 << 20)
        _ = Self.begin(&plan, 0)
        #expect(plan.advance(0, by: 1_000_000) == 1_000_000)
        let stolen = Self.begin(&plan, 1)
        #expect(plan.rest(of: 0).map { $0.upperBound } == stolen?.lowerBound)
        let rest = Int(plan.rest(of: 0)?.count ?? 0)
        #expect(plan.advance(0, by: rest + 5) == rest)
        #expect(plan.rest(of: 0) == nil && plan.advance(0, by: 5) == 0)
        #expect(plan.prefix == stolen?.lowerBound && !plan.isComplete)
    }

    @Test("the rest of a failed part goes to the part before it, as far as its response reaches")
    func absorbed() {
        var plan = SegmentPlan(total: 4 << 20)
        _ = Self.begin(&plan, 0)
        plan.answered(0, until: 4 << 20)
        _ = Self.begin(&plan, 1)
        plan.end(1)
        #expect(plan.rest(of: 0) == 0..<4 << 20 && !plan.hasFree)
        // Asked for its own half only.
        plan.answered(0, until: 2 << 20)
        #expect(plan.rest(of: 0) == 0..<2 << 20 && plan.hasFree)
        #expect(Self.begin(&plan, 2) == 2 << 20..<4 << 20)
    }

    @Test("bytes of an earlier attempt are not requested again")
    func resumed() {
        var plan = SegmentPlan(total: 100, done: [0..<10, 50..<60])
        #expect(plan.doneByteCount == 20 && plan.prefix == 10)
        #expect(Self.begin(&plan, 0) == 10..<50)
        #expect(Self.begin(&plan, 1) == 60..<100)
        #expect(plan.advance(0, by: 100) == 40 && plan.prefix == 60)
        #expect(plan.advance(1, by: 40) == 40)
        #expect(plan.isComplete && plan.doneRanges == [0..<100])
        #expect(SegmentPlan(total: 10, done: [0..<10]).isComplete)
        #expect(SegmentPlan(total: 0).isComplete)
    }

    @Test("a file of unknown length is one part that ends with its response")
    func unknownLength() {
        var plan = SegmentPlan(total: nil)
        #expect(Self.begin(&plan, 0)?.lowerBound == 0)
        #expect(Self.begin(&plan, 1) == nil)
        #expect(plan.advance(0, by: 77) == 77 && !plan.isComplete)
        plan.finish()
        #expect(plan.isComplete && plan.total == 77 && plan.prefix == 77)
    }

    @Test("under random events no byte is lost or taken twice, and the end is reached", arguments: 0..<60)
    func random(seed: Int) {
        var random = SeededRandom(seed: UInt64(seed))
        let total = Int64.random(in: 1...2_000, using: &random)
        var plan = SegmentPlan(total: total)
        var taken = [Bool](repeating: false, count: Int(total))
        var (next, steps) = (0, 0)
        var running: Set<Int> = []
        while !plan.isComplete, steps < 20_000 {
            steps += 1
            let part = running.sorted().randomElement(using: &random)
            switch (Int.random(in: 0..<10, using: &random), part) {
            case (0...2, _), (_, nil):
                if running.count < 8, plan.begin(next, halfMin: { _ in 16 }) != nil { running.insert(next) }
                next += 1
            case (3, let part?):
                plan.end(part)
                #expect(plan.rest(of: part) == nil)
            case (4, let part?):
                guard let rest = plan.rest(of: part) else { break }
                plan.answered(part, until: rest.lowerBound + Int64.random(in: 0...2_000, using: &random))
            case (_, let part?):
                let start = plan.rest(of: part)?.lowerBound
                let count = plan.advance(part, by: Int.random(in: 1...300, using: &random))
                for offset in 0..<count {
                    let place = Int(start ?? 0) + offset
                    if taken[place] { Issue.record("byte \(place) came twice, seed \(seed)") }
                    taken[place] = true
                }
            }
            running = running.filter { plan.rest(of: $0) != nil }
            check(plan, running, taken, seed)
        }
        #expect(plan.isComplete && plan.doneRanges == [0..<total] && plan.prefix == total)
        #expect(taken.allSatisfy { $0 })
    }

    /// The done ranges are the taken bytes, and no two parts want the same.
    private func check(_ plan: SegmentPlan, _ running: Set<Int>, _ taken: [Bool], _ seed: Int) {
        var claimed = [Int](repeating: 0, count: taken.count)
        for range in plan.doneRanges { for place in range { claimed[Int(place)] += 1 } }
        let done = claimed
        for part in running {
            for place in plan.rest(of: part) ?? 0..<0 { claimed[Int(place)] += 1 }
        }
        if claimed.contains(where: { $0 > 1 }) || done.map({ $0 > 0 }) != taken
            || plan.doneByteCount != Int64(taken.count { $0 }) || plan.runningCount != running.count
            || plan.hasFree != claimed.contains(0)
        {
            Issue.record("the plan lost or doubled bytes, seed \(seed): \(plan)")
        }
    }
}
