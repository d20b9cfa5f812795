import FerryCore
import Testing

@Suite("Discretionary jobs")
struct DiscretionTests {
    private let now = Timestamp(microseconds: 1_795_298_400_000_000)

    private func latest(_ left: Double, _ expected: Int64?, _ rate: Double?) -> Double {
        Discretion.latestStart(from: now, deadline: now + left, expected: expected, bytesPerSecond: rate)
            - now
    }

    @Test("the latest start leaves time for the transfer at half the measured rate and a margin")
    func latestStart() {
        // 1 GB at 5 MB/s, half of the measured rate: 200 s; the margin is five minutes.
        #expect(latest(86_400, 1_000_000_000, 10_000_000) == 86_400 - 200 - 300)
        // The margin of a short time is a tenth of it.
        #expect(latest(100, 10_000_000, 10_000_000) == 100 - 2 - 10)
        // A host without measurements: 1 MiB/s.
        #expect(latest(1_000, 100 << 20, nil) == 1_000 - 100 - 100)
        // An unknown length: an hour, or half of the remaining time.
        #expect(latest(86_400, nil, 10_000_000) == 86_400 - 3_600 - 300)
        #expect(latest(10, nil, nil) == 10 - 5 - 1)
        // A job that cannot end in time starts at once.
        #expect(latest(10, 1 << 40, nil) == 0)
        #expect(latest(-5, nil, nil) == 0)
    }

    @Test("a transfer at the expected rate that starts at its latest start ends before its deadline")
    func inTime() {
        var random = SeededRandom(seed: 5)
        for _ in 0..<10_000 {
            let rate = Double.random(in: 1e3...1e9, using: &random)
            let left = Double.random(in: 1...604_800, using: &random)
            let expected = Int64.random(in: 0...1 << 40, using: &random)
            let isMeasured = Bool.random(using: &random)
            let start = latest(left, expected, isMeasured ? rate : nil)
            #expect(start >= 0 && start < left)
            let assumed = isMeasured ? rate : Discretion.bytesPerSecondUnknown
            if start > 0 { #expect(start + Double(expected) / assumed <= left) }
            // The later the deadline, the later the start.
            #expect(latest(left + 10, expected, isMeasured ? rate : nil) >= start)
        }
    }

    // MARK: Windows

    private func windows(_ json: String) throws -> OffPeakWindows {
        try OffPeakWindows().merging(
            JSONView(parsing: Array(json.utf8)), FieldContext(zones: KnownTimeZones()))
    }

    private func candidates(_ counts: [Int64?]) -> [Discretion.Release.Candidate] {
        counts.enumerated().map { .init(job: JobID(high: 1, low: UInt64($0)), byteCount: $1) }
    }

    private func numbers(_ release: Discretion.Release) -> [UInt64] { release.jobs.map(\.low) }

    @Test("a window opens at each of its times for its duration")
    func opening() throws {
        let night = try windows(#"{"windows":[{"name":"n","cron":"0 22 * * *","duration":28800}]}"#).windows[
            0]
        let at = { (text: String) throws in
            night.opening(at: try #require(Timestamp(rfc3339: text)), KnownTimeZones())
        }
        #expect(try at("2026-11-21T21:59:59Z") == nil)
        #expect(try at("2026-11-21T22:00:00Z")?.closesAt == Timestamp(rfc3339: "2026-11-22T06:00:00Z"))
        #expect(try at("2026-11-22T05:59:59Z")?.opensAt == Timestamp(rfc3339: "2026-11-21T22:00:00Z"))
        #expect(try at("2026-11-22T06:00:00Z") == nil)
        let noon = try #require(Timestamp(rfc3339: "2026-11-21T12:00:00Z"))
        #expect(
            night.nextOpening(after: noon, KnownTimeZones()) == Timestamp(rfc3339: "2026-11-21T22:00:00Z"))
    }

    @Test("without windows all jobs start; else none outside, and inside as many as the budget allows")
    func release() throws {
        let zones = KnownTimeZones()
        let three = candidates([400, nil, 700])
        #expect(numbers(.init(three, OffPeakWindows(), usage: [:], at: now, zones)) == [0, 1, 2])
        let closed = try windows(#"{"windows":[{"name":"c","cron":"0 0 29 2 *","duration":60}]}"#)
        #expect(numbers(.init(three, closed, usage: [:], at: now, zones)).isEmpty)
        let rate = #"{"windows":[{"name":"r","cron":"0 0 29 2 *","duration":60,"discretionary":false}]}"#
        #expect(numbers(.init(three, try windows(rate), usage: [:], at: now, zones)) == [0, 1, 2])
        let open = try windows(
            #"{"windows":[{"name":"o","cron":"* * * * *","duration":3600,"max_bytes":1000}]}"#)
        let first = Discretion.Release(
            candidates([400, 700, 500, 100, nil]), open, usage: [:], at: now, zones)
        #expect(numbers(first) == [0, 2, 3] && first.usage["o"]?.byteCount == 1_000)
        let later = Discretion.Release(candidates([1]), open, usage: first.usage, at: now, zones)
        #expect(numbers(later).isEmpty)
        // The next opening has a new budget, and a single job may exceed it.
        let next = Discretion.Release(candidates([5_000, 1]), open, usage: first.usage, at: now + 60, zones)
        #expect(numbers(next) == [0])
        let stored = Discretion.Release.usage(storedJSON: Discretion.Release.encode(first.usage))
        #expect(stored == first.usage)
    }

    @Test("a sum of expected bytes that overflows uses the whole budget")
    func tooManyBytes() throws {
        let zones = KnownTimeZones()
        let window = #"{"name":"o","cron":"* * * * *","duration":3600"#
        let unbounded = try windows(#"{"windows":["# + window + "}]}")
        let most: Int64 = 2 * (1 << 53 - 1)
        let many = candidates(Array(repeating: most, count: 1_500))
        let all = Discretion.Release(many, unbounded, usage: [:], at: now, zones)
        #expect(all.jobs.count == 1_500 && all.usage["o"]?.byteCount == .max)
        let stored = Discretion.Release.usage(storedJSON: Discretion.Release.encode(all.usage))
        #expect(stored == all.usage)
        let again = Discretion.Release(many, unbounded, usage: stored, at: now, zones)
        #expect(again.jobs.count == 1_500 && again.usage == all.usage)
        // A budget that is set while the window is open counts jobs that started before.
        let bounded = try windows(#"{"windows":["# + window + #","max_bytes":1000}]}"#)
        #expect(numbers(.init(candidates([1]), bounded, usage: stored, at: now, zones)).isEmpty)
        #expect(Discretion.Release.byteCountMax(bounded, usage: stored, at: now, zones) == 0)
    }

    @Test("in a simulated day, no job starts outside a window, is lost, or misses its deadline")
    func simulation() throws {
        let zones = KnownTimeZones()
        let nights = try windows(
            #"{"windows":[{"name":"n","cron":"0 1,3 * * *","duration":3600,"max_bytes":1000000}]}"#)
        var random = SeededRandom(seed: 41)
        var waiting: [(job: Discretion.Release.Candidate, latest: Timestamp, deadline: Timestamp)] = []
        var usage: [String: Discretion.Release.Usage] = [:]
        var startedCount = 0
        for minute in 0..<(2 * 1_440) {
            let instant = now + Double(minute) * 60
            if minute < 1_440 {
                let bytes = Int64.random(in: 1...200_000, using: &random)
                let deadline = instant + Double.random(in: 3_600...86_400, using: &random)
                let latest = Discretion.latestStart(
                    from: instant, deadline: deadline, expected: bytes, bytesPerSecond: 1_000)
                waiting.append(
                    (.init(job: JobID(high: 1, low: UInt64(minute)), byteCount: bytes), latest, deadline))
            }
            // The store starts jobs at their latest start in spite of windows.
            for next in waiting where next.latest <= instant {
                let end = max(instant, next.latest) + Double(next.job.byteCount ?? 0) / 1_000
                #expect(end <= next.deadline, "in time")
                startedCount += 1
            }
            waiting.removeAll { $0.latest <= instant }
            let release = Discretion.Release(
                waiting.prefix(5).map(\.job), nights, usage: usage, at: instant, zones)
            usage = release.usage
            if !release.jobs.isEmpty {
                #expect(nights.windows[0].opening(at: instant, zones) != nil)
                #expect((usage["n"]?.byteCount ?? 0) <= 1_000_000)
            }
            startedCount += release.jobs.count
            waiting.removeAll { release.jobs.contains($0.job.job) }
        }
        #expect(waiting.isEmpty && startedCount == 1_440)
    }

    @Test("all errors of windows are reported with their pointers")
    func wrong() throws {
        let pointers = { (json: String) throws in
            try #require(throws: InvalidFields.self) { try windows(json) }.errors.map(\.pointer)
        }
        #expect(try pointers(#"{"windows":[{}]}"#).count == 3)
        #expect(try pointers(#"{"x":1}"#) == ["#/x"])
        #expect(try pointers(#"{"windows":5}"#) == ["#/windows"])
        let good = #""name":"a","cron":"@daily","duration":60"#
        for (field, pointer) in [
            (#""max_bytes":0"#, "max_bytes"), (#""time_zone":"Nowhere""#, "time_zone"),
            (#""discretionary":1"#, "discretionary"), (#""y":1"#, "y"),
            (#""max_bytes_per_second":-1"#, "max_bytes_per_second"),
        ] {
            #expect(try pointers("{\"windows\":[{\(good),\(field)}]}") == ["#/windows/0/\(pointer)"])
        }
        #expect(try pointers(#"{"windows":[{"name":"a","cron":"x","duration":60}]}"#) == ["#/windows/0/cron"])
        #expect(try pointers("{\"windows\":[{\(good)},{\(good)}]}") == ["#/windows/1/name"])
        let kept = try windows("{\"windows\":[{\(good)}]}")
        #expect(try kept.merging(JSONView(.object([]))) == kept)
        #expect(
            try kept.merging(JSONView(parsing: Array(#"{"windows":null}"#.utf8))).windows.isEmpty)
        #expect(OffPeakWindows(storedJSON: kept.json) == kept)
    }

    @Test("the lowest rate of the open windows applies")
    func rates() throws {
        let two = try windows(
            #"""
            {"windows":[
             {"name":"a","cron":"* * * * *","duration":60,"max_bytes_per_second":500},
             {"name":"b","cron":"* * * * *","duration":60,"max_bytes_per_second":300,"discretionary":false},
             {"name":"c","cron":"0 0 29 2 *","duration":60,"max_bytes_per_second":1}]}
            """#)
        #expect(two.bytesPerSecondMax(at: now, KnownTimeZones()) == 300)
        #expect(OffPeakWindows().bytesPerSecondMax(at: now, KnownTimeZones()) == nil)
        let limits = TransferLimits(bytesReceivedPerSecondMax: 10, bytesPerSecondPerHostMax: 7)
        #expect(limits.replacing(serviceRate: nil) == limits)
        #expect(
            limits.replacing(serviceRate: 300)
                == TransferLimits(
                    bytesReceivedPerSecondMax: 300, bytesSentPerSecondMax: 300, bytesPerSecondPerHostMax: 7))
    }
}
