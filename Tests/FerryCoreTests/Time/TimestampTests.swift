import FerryCore
import Testing

@Suite("Timestamps")
struct TimestampTests {
    @Test("an instant is read back from its text", arguments: UInt64(0)..<200)
    func roundTrip(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let instant = Timestamp(
            microseconds: Int64.random(in: -62_135_596_800_000_000...253_402_300_799_999_999, using: &random))
        #expect(Timestamp(rfc3339: instant.description) == instant)
        #expect(instant.description.utf8.count == 27)
    }

    @Test(
        "offsets, fractions and leap days are read",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01T01:00:00+01:00", 0), ("1969-12-31T23:30:00-00:30", 0),
            ("2000-02-29T00:00:00Z", 951_782_400_000_000),
            ("2026-11-21T22:00:00.1234567Z", 1_795_298_400_123_456),
            ("1970-01-01t00:00:00.5z", 500_000), ("0001-01-01T00:00:00Z", -62_135_596_800_000_000),
            ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999_999),
            ("9999-12-31T23:59:60+00:01", 253_402_300_740_000_000),
        ] as [(String, Int64)])
    func known(_ text: String, _ microseconds: Int64) {
        #expect(Timestamp(rfc3339: text)?.microseconds == microseconds)
    }

    @Test(
        "a text that is no RFC 3339 time is rejected",
        arguments: [
            "", "2026-11-21", "2026-11-21T22:00:00", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z",
            "2026-11-21T24:00:00Z", "2026-11-21T22:60:00Z", "2026-11-21T22:00:00.Z",
            "2026-11-21T22:00:00+25:00",
            "0000-01-01T00:00:00Z", "2026-11-21 22:00:00Z", "2026-11-21T22:00:00Zx", "２026-11-21T22:00:00Z",
            "2026-11-21T22:00:00.1234567890Z", "-026-11-21T22:00:00Z",
            // Years 0 and 10000 in UTC.
            "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "9999-12-31T23:59:60Z",
        ])
    func refused(_ text: String) {
        #expect(Timestamp(rfc3339: text) == nil)
    }

    @Test("a delay beyond the calendar is clamped")
    func clamp() {
        #expect((Timestamp(microseconds: 0) + 1e300).description == "9999-12-31T23:59:59.000000Z")
        #expect((Timestamp(microseconds: 0) + -1e300).description == "0001-01-01T00:00:00.000000Z")
    }

    @Test("a time far in the future is kept")
    func far() throws {
        let late = try #require(Timestamp(rfc3339: "3000-01-01T00:00:00Z"))
        #expect(late + 0 == late && (late + 60).description == "3000-01-01T00:01:00.000000Z")
    }
}
