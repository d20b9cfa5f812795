import FerryCore
import Testing

@Suite("Urgency of jobs in a queue")
struct DeadlineTests {
    private struct Job {
        let number: Int
        let createdAt: Double
        let seconds: Double
        let deadline: Double?
        let urgency: Timestamp
    }

    private static let bytesPerSecond = 2_000_000.0
    private static let spec = {
        var spec = JobSpec()
        spec.request = .init(url: "https://a.example/", method: "GET")
        return spec
    }()

    private func job(_ number: Int, at now: Double, seconds: Double, deadline: Double?) -> Job {
        var schedule = JobSpec.Schedule()
        let start = Timestamp(microseconds: 0) + 1e9
        schedule.deadlineAt = deadline.map { start + $0 }
        schedule.expectedBytesToReceive = Int64(seconds * Self.bytesPerSecond)
        var spec = Self.spec
        spec.schedule = schedule
        return Job(
            number: number, createdAt: now, seconds: seconds, deadline: deadline,
            urgency: spec.urgency(createdAt: start + now, bytesPerSecond: Self.bytesPerSecond))
    }

    /// Runs jobs on slots that take the most urgent job so far; returns the time at which each job ended.
    private func ends(of jobs: [Job], slots: Int, by order: (Job) -> Timestamp) -> [Int: Double] {
        var free = [Double](repeating: 0, count: slots)
        var ends: [Int: Double] = [:]
        var left = jobs.sorted { ($0.createdAt, $0.number) < ($1.createdAt, $1.number) }
        while !left.isEmpty {
            let slot = free.indices.min { (free[$0], $0) < (free[$1], $1) } ?? 0
            let now = max(free[slot], left[0].createdAt)
            let there = left.indices.filter { left[$0].createdAt <= now }
            guard let next = there.min(by: { (order(left[$0]), $0) < (order(left[$1]), $1) }) else { break }
            let job = left.remove(at: next)
            free[slot] = now + job.seconds
            ends[job.number] = free[slot]
        }
        return ends
    }

    @Test("deadlines are met although an hour of older jobs waits", arguments: UInt64(1)...10)
    func deadlines(seed: UInt64) {
        var random = Seeded(seed)
        func draw(_ range: ClosedRange<Double>) -> Double {
            range.lowerBound + (range.upperBound - range.lowerBound) * Double(random.next() % 10_000) / 10_000
        }
        // An hour of work for four slots waits at the start, and more jobs are added all the time.
        var jobs = (0..<480).map { job($0, at: 0, seconds: 30, deadline: nil) }
        for number in 480..<700 {
            let now = draw(0...2_400)
            let seconds = draw(1...20)
            // Every third job has a deadline, with some slack for other jobs.
            let slack = draw(5...30) * 60
            jobs.append(
                job(number, at: now, seconds: seconds, deadline: number % 3 == 0 ? now + slack : nil))
        }
        let ends = ends(of: jobs, slots: 4) { $0.urgency }
        #expect(ends.count == jobs.count, "nothing starves")
        for job in jobs {
            if let deadline = job.deadline { #expect(ends[job.number] ?? .infinity <= deadline) }
        }
        // In the order of their begin dates, deadlines are missed.
        let plain = self.ends(of: jobs, slots: 4) { Timestamp(microseconds: 0) + $0.createdAt }
        #expect(jobs.contains { job in job.deadline.map { plain[job.number] ?? 0 > $0 } ?? false })
    }

    @Test(
        "a distant deadline does not change the urgency; a long transfer becomes urgent before a short one"
    )
    func latestStarts() {
        let far = job(0, at: 0, seconds: 10, deadline: 30 * 86_400)
        let plain = job(1, at: 0, seconds: 10, deadline: nil)
        #expect(far.urgency == plain.urgency)
        let long = job(2, at: 0, seconds: 3_600, deadline: 20_000)
        let short = job(3, at: 0, seconds: 10, deadline: 20_000)
        #expect(long.urgency < short.urgency && short.urgency < plain.urgency)
    }
}
