import FerryCore
import Glibc
import Testing

/// Returns a time zone of this machine.
func zone(_ name: String) throws -> TimeZoneRules {
    let file = try #require(fopen("/usr/share/zoneinfo/\(name)", "r"), "tzdata is not installed")
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = fread(&bytes, 1, bytes.count, file)
    return try #require(TimeZoneRules(tzif: Array(bytes[..<count])), "\(name)")
}

@Suite("Recurrence and time zones")
struct RecurrenceTests {
    private func instant(_ text: String) throws -> Timestamp { try #require(Timestamp(rfc3339: text)) }

    @Test(
        "offsets come from the table, and after its end from the rule",
        arguments: [
            ("Europe/Berlin", "2026-03-29T00:59:59Z", 3_600),
            ("Europe/Berlin", "2026-03-29T01:00:00Z", 7_200),
            ("Europe/Berlin", "2099-10-25T00:59:59Z", 7_200),
            ("Europe/Berlin", "2099-10-25T01:00:00Z", 3_600),
            ("Europe/Berlin", "1945-06-01T00:00:00Z", 10_800),
            ("Europe/Berlin", "1880-01-01T00:00:00Z", 3_208),
            ("America/New_York", "2026-03-08T06:59:59Z", -18_000),
            ("America/New_York", "2026-03-08T07:00:00Z", -14_400),
            ("America/New_York", "2060-11-07T06:00:00Z", -18_000),
            ("Australia/Lord_Howe", "2026-04-04T14:59:59Z", 39_600),
            ("Australia/Lord_Howe", "2026-04-04T15:00:00Z", 37_800),
            ("Australia/Sydney", "2050-01-01T00:00:00Z", 39_600),
            ("Pacific/Apia", "2011-12-30T09:59:59Z", -36_000),
            ("Pacific/Apia", "2011-12-30T10:00:00Z", 50_400),
            ("Asia/Kathmandu", "2040-01-01T00:00:00Z", 20_700), ("Etc/UTC", "2040-01-01T00:00:00Z", 0),
            ("Africa/Casablanca", "2026-01-01T00:00:00Z", 3_600),
            ("America/Sao_Paulo", "2050-12-01T00:00:00Z", -10_800),
        ])
    func offsets(_ name: String, _ text: String, _ expected: Int64) throws {
        #expect(try zone(name).offset(at: instant(text).microseconds / 1_000_000) == expected)
    }

    /// Occurrences after a time, all with the local offset, so that they show the wall clock.
    static let changes: [(zone: String, cron: String, after: String, runs: [String])] = [
        // Clock put forward: 02:30 does not exist and occurs once, at the end of the gap.
        (
            "Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]
        ),
        (
            "Europe/Berlin", "0,20,40 2 * * *", "2026-03-28T12:00:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"]
        ),
        (
            "America/New_York", "15 2,3 * * *", "2026-03-08T00:00:00-05:00",
            ["2026-03-08T03:00:00-04:00", "2026-03-08T03:15:00-04:00", "2026-03-09T02:15:00-04:00"]
        ),
        // Clock put back: 02:30 occurs twice and counts the first time only, also if asked in between.
        (
            "Europe/Berlin", "30 2 * * *", "2026-10-25T00:00:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"]
        ),
        ("Europe/Berlin", "30 2 * * *", "2026-10-25T02:10:00+01:00", ["2026-10-26T02:30:00+01:00"]),
        (
            "America/New_York", "30 1 * * *", "2026-11-01T00:00:00-04:00",
            ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
        ),
        // Patterns follow the wall clock: every real hour.
        (
            "Europe/Berlin", "30 * * * *", "2026-03-29T00:45:00+01:00",
            ["2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T04:30:00+02:00"]
        ),
        (
            "Europe/Berlin", "30 * * * *", "2026-10-25T01:45:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:30:00+01:00"]
        ),
        (
            "America/New_York", "*/30 1 * * *", "2026-11-01T00:00:00-04:00",
            [
                "2026-11-01T01:00:00-04:00", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00",
                "2026-11-01T01:30:00-05:00", "2026-11-02T01:00:00-05:00",
            ]
        ),
        // A pattern inside the gap does not occur that day.
        ("Europe/Berlin", "*/30 2 * * *", "2026-03-28T12:00:00+01:00", ["2026-03-30T02:00:00+02:00"]),
        // A change of half an hour.
        (
            "Australia/Lord_Howe", "15 2 * * *", "2026-10-03T12:00:00+10:30",
            ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]
        ),
        (
            "Australia/Lord_Howe", "45 1 * * *", "2026-04-05T00:00:00+11:00",
            ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"]
        ),
        (
            "Australia/Lord_Howe", "*/15 * * * *", "2026-04-05T01:30:00+11:00",
            [
                "2026-04-05T01:45:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30",
                "2026-04-05T02:00:00+10:30",
            ]
        ),
        // Samoa skipped 30 December 2011.
        (
            "Pacific/Apia", "0 9 * * *", "2011-12-29T00:00:00-10:00",
            ["2011-12-29T09:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"]
        ),
        (
            "Pacific/Apia", "0 0 * * *", "2011-12-29T00:00:00-10:00",
            ["2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"]
        ),
        (
            "Pacific/Apia", "0 * * * *", "2011-12-29T22:30:00-10:00",
            ["2011-12-29T23:00:00-10:00", "2011-12-31T00:00:00+14:00"]
        ),
        // Days are local days.
        (
            "America/New_York", "0 22 L * *", "2026-11-30T00:00:00Z",
            ["2026-11-30T22:00:00-05:00", "2026-12-31T22:00:00-05:00"]
        ),
        // After the end of the table.
        (
            "Europe/Berlin", "30 2 * * *", "2090-03-25T12:00:00+01:00",
            ["2090-03-26T03:00:00+02:00", "2090-03-27T02:30:00+02:00"]
        ),
        ("Europe/Berlin", "0 0 29 2 *", "2096-03-01T00:00:00+01:00", ["2104-02-29T00:00:00+01:00"]),
    ]

    @Test("clock changes are handled as in cron", arguments: changes)
    func change(_ row: (zone: String, cron: String, after: String, runs: [String])) throws {
        let recurrence = Recurrence(.cron(try CronExpression(row.cron), try zone(row.zone)))
        var cursor = try instant(row.after)
        for expected in row.runs {
            let next = try #require(recurrence.next(after: cursor))
            #expect(next == (try instant(expected)), "\(next), not \(expected)")
            cursor = next
        }
    }

    @Test("fixed times occur once a day, and patterns whenever the wall clock shows them")
    func property() throws {
        for name in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"] {
            let rules = try zone(name)
            let daily = Recurrence(.cron(try CronExpression("30 2 * * *"), rules))
            var cursor = try instant("2026-01-01T00:00:00Z")
            let end = try instant("2031-01-01T00:00:00Z")
            #expect((1_825...1_827).contains(daily.count(after: cursor, before: end)), "\(name)")
            let hourly = Recurrence(.cron(try CronExpression("*/30 * * * *"), rules))
            while cursor < end {
                let next = try #require(hourly.next(after: cursor))
                #expect(next - cursor == 1_800, "\(name): \(cursor)")
                cursor = next
            }
        }
    }

    @Test("intervals count from their anchor in real time")
    func intervals() throws {
        let anchor = try instant("2026-01-01T00:00:00Z")
        let plain = Recurrence(.interval(90_000_000, anchor: anchor, includesAnchor: false))
        #expect(plain.next(after: anchor + -1_000) == anchor + 90)
        #expect(plain.next(after: anchor + 90) == anchor + 180)
        let started = Recurrence(
            .interval(90_000_000, anchor: anchor, includesAnchor: true), startAt: anchor, endAt: anchor + 180)
        #expect(started.next(after: anchor + -1_000) == anchor)
        #expect(started.next(after: anchor + 100) == anchor + 180)
        #expect(started.next(after: anchor + 180) == nil)
        #expect(started.count(after: anchor + -1, before: anchor + 9_999) == 3)
        #expect(started.count(after: anchor, before: anchor + 180) == 1)
        #expect(started.latest(through: anchor + 9_999, after: anchor + -1) == anchor + 180)
        #expect(started.latest(through: anchor + 89, after: anchor) == nil)
    }

    @Test("the latest occurrence is found within minutes and years")
    func latest() throws {
        let now = try instant("2026-11-21T12:00:30Z")
        let floor = try instant("2000-01-01T00:00:00Z")
        for (cron, expected) in [
            ("* * * * *", "2026-11-21T12:00:00Z"), ("0 0 1 1 *", "2026-01-01T00:00:00Z"),
            ("0 0 29 2 *", "2024-02-29T00:00:00Z"),
        ] {
            let recurrence = Recurrence(.cron(try CronExpression(cron), .utc))
            #expect(recurrence.latest(through: now, after: floor) == (try instant(expected)))
        }
    }

    @Test("a truncated or changed time zone file is rejected or read without a crash")
    func damaged() throws {
        let file = try #require(fopen("/usr/share/zoneinfo/Europe/Berlin", "r"))
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        bytes = Array(bytes[..<fread(&bytes, 1, bytes.count, file)])
        for count in 0..<bytes.count { #expect(TimeZoneRules(tzif: Array(bytes[..<count])) == nil) }
        var random = SeededRandom(seed: 7)
        for _ in 0..<3_000 {
            var changed = bytes
            for _ in 0..<3 {
                changed[Int.random(in: 0..<changed.count, using: &random)] = UInt8.random(
                    in: 0...255, using: &random)
            }
            _ = TimeZoneRules(tzif: changed)?.offset(at: 1_790_000_000)
        }
    }
}
