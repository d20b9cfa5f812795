import FerryCore
import Testing

@Suite("Schedule decisions")
struct ScheduleDecisionTests {
    private let noon: Timestamp
    private let id = ScheduleID(high: 0x0199, low: 7)

    init() throws { noon = try #require(Timestamp(rfc3339: "2026-11-21T12:00:00Z")) }

    private func spec(
        missed: ScheduleSpec.Missed = .runOnce, overlap: ScheduleSpec.Overlap = .allow, jitter: Double = 0,
        endAt: Timestamp? = nil
    ) throws -> ScheduleSpec {
        var json = #"{"cron":"0 * * * *","time_zone":"UTC","missed":"\#(missed.rawValue)""#
        json += #","overlap":"\#(overlap.rawValue)","jitter":\#(jitter),"enabled":true"#
        if let endAt { json += #","end_at":"\#(endAt)""# }
        return try ScheduleSpec(storedJSON: Array((json + "}").utf8))
    }

    /// Returns the decision about an hourly schedule `seconds` after its occurrence at noon. `after`: the due
    /// occurrence is this many seconds after noon instead, where the schedule has none.
    private func turn(
        _ spec: ScheduleSpec, late: Double, after: Double = 0, isHeld: Bool = false,
        hasUnfinished: Bool = false
    ) throws -> ScheduleDecision {
        let recurrence = try #require(spec.recurrence(KnownTimeZones(), createdAt: noon))
        return ScheduleDecision(
            .init(
                id: id, spec: spec, recurrence: recurrence, scheduledAt: noon + after, isHeld: isHeld,
                hasUnfinished: hasUnfinished, now: noon + late))
    }

    @Test(
        "an occurrence on time is submitted under every missed policy",
        arguments: ScheduleSpec.Missed.allCases)
    func onTime(_ missed: ScheduleSpec.Missed) throws {
        for late in [0, 0.01, 59] {
            let turn = try turn(spec(missed: missed), late: late)
            #expect(turn.submits == noon && turn.next == noon + 3_600 && turn.nextRunAt == noon + 3_600)
            #expect(turn.missedCount == 0 && turn.skippedCount == 0 && !turn.isHeld)
        }
    }

    @Test("of five due occurrences with one on time, the missed policy decides")
    func missed() throws {
        let late = 4 * 3_600 + 30.0
        let skip = try turn(spec(missed: .skip), late: late)
        #expect(skip.submits == noon + 4 * 3_600 && skip.missedCount == 4 && skip.next == noon + 5 * 3_600)
        let once = try turn(spec(missed: .runOnce), late: late)
        #expect(once.submits == noon + 4 * 3_600 && once.missedCount == 4)
        let all = try turn(spec(missed: .runAll), late: late)
        #expect(all.submits == noon && all.missedCount == 0 && all.next == noon + 3_600)
    }

    @Test("if all due occurrences are late, the missed policy decides")
    func missedAll() throws {
        let late = 4 * 3_600 + 1_800.0
        let skip = try turn(spec(missed: .skip), late: late)
        #expect(skip.submits == nil && skip.missedCount == 5 && skip.next == noon + 5 * 3_600)
        let once = try turn(spec(missed: .runOnce), late: late)
        #expect(once.submits == noon + 4 * 3_600 && once.missedCount == 4 && once.next == noon + 5 * 3_600)
    }

    @Test("run_all submits all missed occurrences of the last day in order")
    func runAll() throws {
        let spec = try spec(missed: .runAll)
        let recurrence = try #require(spec.recurrence(KnownTimeZones(), createdAt: noon))
        var submitted: [Timestamp] = []
        var missed = 0
        let now = noon + 3 * 86_400 + 10
        var due = noon
        for _ in 0..<30 {
            let turn = ScheduleDecision(
                .init(
                    id: id, spec: spec, recurrence: recurrence, scheduledAt: due, isHeld: false,
                    hasUnfinished: false, now: now))
            missed += turn.missedCount
            guard let occurrence = turn.submits, let next = turn.next else { break }
            submitted.append(occurrence)
            due = next
        }
        #expect(submitted.first == noon + 2 * 86_400 + 3_600 && submitted.last == noon + 3 * 86_400)
        #expect(submitted.count == 24 && missed == 49 && due == noon + 3 * 86_400 + 3_600)
    }

    @Test("no occurrence follows the last one")
    func ends() throws {
        let turn = try turn(spec(endAt: noon + 60), late: 1)
        #expect(turn.submits == noon && turn.next == nil && turn.nextRunAt == nil)
        let late = try self.turn(spec(missed: .skip, endAt: noon + 60), late: 7_200)
        #expect(late.submits == nil && late.next == nil && late.missedCount == 1)
    }

    @Test("an unfinished earlier job leads to the action of the overlap policy")
    func overlap() throws {
        let allow = try turn(spec(overlap: .allow), late: 1, hasUnfinished: true)
        #expect(allow.submits == noon && !allow.cancelsPrevious)
        let skip = try turn(spec(overlap: .skip), late: 1, hasUnfinished: true)
        #expect(skip.submits == nil && skip.skippedCount == 1 && skip.next == noon + 3_600)
        for overlap in [ScheduleSpec.Overlap.cancelPrevious, .queue] {
            let held = try turn(spec(overlap: overlap), late: 1, hasUnfinished: true)
            #expect(held.submits == nil && held.isHeld && held.next == noon)
            #expect(held.cancelsPrevious == (overlap == .cancelPrevious))
            let wait = try #require(held.nextRunAt) - (noon + 1)
            #expect(wait > 0 && wait <= 2)
            let free = try turn(spec(overlap: overlap), late: 1, hasUnfinished: false)
            #expect(free.submits == noon)
        }
    }

    @Test("waiting occurrences are not missed: a queue keeps its order, cancel_previous takes the latest")
    func held() throws {
        let late = 3 * 3_600 + 1_800.0
        let queue = try turn(spec(missed: .skip, overlap: .queue), late: late, isHeld: true)
        #expect(queue.submits == noon && queue.next == noon + 3_600 && queue.isHeld)
        #expect(queue.missedCount == 0 && queue.skippedCount == 0)
        let old = try turn(spec(overlap: .queue), late: 86_400 + 10, isHeld: true)
        #expect(old.submits == noon + 3_600 && old.skippedCount == 1)
        let latest = try turn(spec(overlap: .cancelPrevious), late: late, isHeld: true)
        #expect(latest.submits == noon + 3 * 3_600 && latest.skippedCount == 3 && !latest.isHeld)
        let last = try turn(spec(overlap: .queue), late: 600, isHeld: true)
        #expect(last.submits == noon && !last.isHeld, "the next occurrence is not missed")
        let freed = try turn(spec(missed: .skip), late: late, isHeld: true, hasUnfinished: true)
        #expect(freed.submits == noon && freed.next == noon + 3_600 && freed.isHeld)
        #expect(freed.missedCount == 0 && freed.skippedCount == 0, "no occurrence waits any more")
    }

    /// Runs a schedule with an interval of 1 s, `overlap: queue` and jobs of `jobSeconds`, from `behind`
    /// seconds after its due occurrence for `seconds`. Returns the occurrences that were submitted, the
    /// number of decisions, and whether the schedule is behind at the end.
    private func queue(
        behind: Double, jobSeconds: Double, seconds: Double
    ) throws -> (submitted: [Timestamp], decisionCount: Int, isBehind: Bool) {
        let json = #"{"interval":1.0,"time_zone":"UTC","missed":"run_all","overlap":"queue","enabled":true}"#
        let spec = try ScheduleSpec(storedJSON: Array(json.utf8))
        let recurrence = try #require(spec.recurrence(KnownTimeZones(), createdAt: noon))
        var due = noon + 1
        var now = due + behind
        let end = now + seconds
        var isHeld = false
        var lastRunAt: Timestamp?
        var submitted: [Timestamp] = []
        var decisionCount = 0
        while now < end {
            let turn = ScheduleDecision(
                .init(
                    id: id, spec: spec, recurrence: recurrence, scheduledAt: due, isHeld: isHeld,
                    hasUnfinished: lastRunAt.map { now < $0 + jobSeconds } ?? false, lastRunAt: lastRunAt,
                    now: now))
            decisionCount += 1
            if let occurrence = turn.submits {
                submitted.append(occurrence)
                lastRunAt = now
            }
            #expect(turn.skippedCount == 0 && turn.missedCount == 0)
            due = try #require(turn.next)
            isHeld = turn.isHeld
            now = max(now + 0.001, try #require(turn.nextRunAt))
        }
        return (submitted, decisionCount, now > due + 1)
    }

    @Test(
        "a queue that fell behind catches up if its jobs are shorter than its interval",
        arguments: [0.01, 0.2, 0.5, 0.8])
    func catchesUp(jobSeconds: Double) throws {
        let run = try queue(behind: 30, jobSeconds: jobSeconds, seconds: 600)
        #expect(!run.isBehind)
        let expected = (0..<run.submitted.count).map { noon + 1 + Double($0) }
        #expect(run.submitted == expected, "each once, in order")
        #expect(run.submitted.count >= 600)
    }

    @Test("a long job of a queue needs few decisions")
    func fewDecisions() throws {
        let run = try queue(behind: 0, jobSeconds: 3_000, seconds: 600)
        #expect(run.submitted.count == 1)
        #expect(run.decisionCount < 400)
    }

    @Test("a waiting occurrence is dropped after a day, also if it is the last one")
    func heldLast() throws {
        let day = 86_400.0
        let spec = try spec(overlap: .queue, endAt: noon)
        let waiting = try turn(spec, late: day, isHeld: true, hasUnfinished: true)
        #expect(waiting.isHeld && waiting.next == noon && waiting.skippedCount == 0)
        for hasUnfinished in [true, false] {
            let over = try turn(spec, late: day + 1, isHeld: true, hasUnfinished: hasUnfinished)
            #expect(over.submits == nil && over.next == nil && over.nextRunAt == nil && !over.isHeld)
            #expect(over.skippedCount == 1 && over.missedCount == 0)
        }
        let several = try turn(
            self.spec(overlap: .queue, endAt: noon + 7_200), late: 5 * day, isHeld: true)
        #expect(several.submits == nil && several.next == nil && several.skippedCount == 3)
        // The new rules have no occurrence ten minutes after noon.
        let none = try turn(
            self.spec(overlap: .queue, endAt: noon + 900), late: 5 * day, after: 600, isHeld: true)
        #expect(none.submits == nil && none.next == nil && none.skippedCount == 1)
        let others = try turn(self.spec(overlap: .queue), late: day + 900, after: 600, isHeld: true)
        #expect(others.submits == noon + 3_600 && others.skippedCount == 1)
    }

    @Test(
        "a due occurrence that changed rules no longer contain does not end the schedule",
        arguments: ScheduleSpec.Missed.allCases)
    func noOccurrence(_ missed: ScheduleSpec.Missed) throws {
        let isMadeUpFor = missed != .skip
        for isHeld in [false, true] {
            // The next occurrence of the new rules is in the future.
            let turn = try turn(spec(missed: missed), late: 1_800, after: 600, isHeld: isHeld)
            #expect(turn.submits == (isMadeUpFor || isHeld ? noon + 600 : nil))
            #expect(turn.next == noon + 3_600 && turn.nextRunAt == noon + 3_600 && !turn.isHeld)
            #expect(turn.missedCount == 0 && turn.skippedCount == 0)
        }
        let onTime = try turn(spec(missed: missed), late: 601, after: 600)
        #expect(onTime.submits == noon + 600 && onTime.next == noon + 3_600)
        let late = try turn(spec(missed: missed), late: 2 * 3_600 + 1_800, after: 600)
        let next: Double = missed == .runAll ? 3_600 : 3 * 3_600
        #expect(late.next == noon + next)
        let replaced = try turn(
            spec(missed: missed, overlap: .cancelPrevious), late: 1_800, after: 600, isHeld: true)
        #expect(replaced.submits == noon + 600 && replaced.next == noon + 3_600)
    }

    @Test("jitter delays a run by a fixed time per occurrence and spreads occurrences")
    func jitter() throws {
        let spec = try spec(jitter: 600)
        let delays = (0..<500).map { spec.delay(id, noon + Double($0) * 3_600) }
        #expect(delays == (0..<500).map { spec.delay(id, noon + Double($0) * 3_600) })
        #expect(delays.allSatisfy { (0..<600).contains($0) })
        #expect((250.0...350).contains(delays.reduce(0, +) / 500))
        let delay = spec.delay(id, noon)
        let early = try turn(spec, late: delay - 0.001)
        #expect(early.submits == nil && early.next == noon && early.nextRunAt == noon + delay)
        let due = try turn(spec, late: delay)
        #expect(due.submits == noon && due.nextRunAt == noon + 3_600 + spec.delay(id, noon + 3_600))
    }
}
