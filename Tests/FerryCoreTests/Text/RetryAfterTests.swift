import FerryCore
import Testing

@Suite("Retry-After and HTTP dates")
struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT.
    static let date = Timestamp(microseconds: 784_111_777_000_000)
    let now = date

    @Test(
        "a number of seconds is rounded up, and the largest of a list counts, up to a day",
        arguments: [
            ("0", 0), ("120", 120), ("1.5", 2), ("0.001", 1), ("7.0", 7), ("5, 10", 10), ("10,5", 10),
            ("-1, 5", 5), ("soon, 3", 3), ("120,", 120), ("\t30 ", 30), ("86401", 86_400),
            ("9999999999", 86_400), (String(repeating: "9", count: 400), 86_400),
            ("Sun, 06 Nov 1994 08:50:37 GMT, 5", 60), ("5, Sun, 06 Nov 1994 08:50:37 GMT", 60),
            ("5, Sun Nov  6 08:50:37 1994", 60), ("Mon, 06 Nov 2094 08:50:37 GMT", 86_400),
        ])
    func numbers(value: String, seconds: Double) {
        #expect(RetryAfter.seconds([value], now: now) == seconds)
    }

    @Test("the largest of several lines counts")
    func lines() {
        #expect(RetryAfter.seconds(["5", "x", "9", "7"], now: now) == 9)
        #expect(RetryAfter.seconds([], now: now) == nil)
    }

    @Test("a date counts from now, and one in the past is 0")
    func dates() {
        #expect(RetryAfter.seconds(["Sun, 06 Nov 1994 08:50:37 GMT"], now: now) == 60)
        #expect(RetryAfter.seconds(["Sun, 06 Nov 1994 08:40:37 GMT"], now: now) == 0)
        #expect(RetryAfter.seconds(["Sun, 06 Nov 1994 08:50:37 GMT"], now: now + 0.5) == 59.5)
    }

    @Test(
        "a value without a number or a date has no seconds",
        arguments: [
            "", "-1", "-1.5", "1.", ".5", "+5", "1e3", "5s", "0x10", "soon", ",", "06 Nov 1994", "NaN", "٣",
            "Sun, 06 Foo 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET",
        ])
    func neither(value: String) { #expect(RetryAfter.seconds([value], now: now) == nil) }

    @Test(
        "the three forms of an HTTP date and their common deviations name the same instant",
        arguments: [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
            "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 UT", "Sun, 06 Nov 1994 08:49:37 Z",
            "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 6 Nov 1994 8:49:37 GMT", "06 Nov 1994 08:49:37 GMT",
            "6 Nov 1994 08:49:37", "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT",
            "06-Nov-94 08:49:37 UTC", "Nov 6 08:49:37 1994", "Sun Nov 6 08:49:37 UTC 1994",
            "Sun Nov 06 08:49:37 1994 GMT", "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 06 Nov 1994 10:49:37 +0200", "Sun, 06 Nov 1994 03:19:37 -0530",
            "sun, 06 nov 1994 08:49:37 gmt", "SUNDAY, 06-NOV-94 08:49:37 GMT", "Sun,06 Nov 1994 08:49:37 GMT",
            "  Sun,  06  Nov  1994  08:49:37  GMT ", "Sunday, 06 November 1994 08:49:37 GMT",
            "Mon, 06 Nov 1994 08:49:37 GMT",
        ])
    func forms(text: String) { #expect(Timestamp(httpDate: text, now: Self.date) == Self.date) }

    @Test(
        "a text that names no instant is no HTTP date",
        arguments: [
            "", "Sun", "Sun,", "Sun, 06 Nov 1994", "1994-11-06T08:49:37Z", "784111777",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1995 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 194 08:49:37 GMT", "Sun, 06 Nov 0000 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 EST",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT", "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Su, 06 Nov 1994 08:49:37 GMT",
            "Sun, -6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 +9900",
            "Sun, 06 Nov 1994 08:49:37 +000",
            "Sun, 06 Nov 1994 -8:49:37 GMT", "Sun, 06 Nov 1994 ٠8:49:37 GMT", "---", "0", "-1",
        ])
    func noDates(text: String) { #expect(Timestamp(httpDate: text, now: Self.date) == nil) }

    @Test(
        "a year of two digits is at most 50 years ahead",
        arguments: [
            ("94", 1994, "1994"), ("44", 1994, "2044"), ("45", 1994, "1945"), ("00", 1999, "2000"),
            ("76", 2026, "2076"), ("77", 2026, "1977"), ("26", 2026, "2026"), ("20", 2080, "2120"),
        ])
    func twoDigits(year: String, now: Int, whole: String) throws {
        let now = try #require(Timestamp(rfc3339: "\(now)-06-01T00:00:00Z"))
        let date = try #require(Timestamp(httpDate: "Monday, 02-Nov-\(year) 10:00:00 GMT", now: now))
        #expect(date.description.hasPrefix("\(whole)-11-02T10:00:00"))
    }

    @Test("the last second of the calendar and a leap second are dates")
    func edges() {
        let leap = Timestamp(httpDate: "Sat, 31 Dec 2016 23:59:60 GMT", now: now)
        #expect(leap == Timestamp(httpDate: "Sun, 01 Jan 2017 00:00:00 GMT", now: now))
        let last = Timestamp(httpDate: "Fri, 31 Dec 9999 23:59:59 GMT", now: now)
        #expect(last == Timestamp.distantFuture)
        #expect(Timestamp(httpDate: "Tue, 29 Feb 2000 00:00:00 GMT", now: now) != nil)
    }

    @Test("a date is a strong validator if the response was made at least a second later, in any form")
    func strength() {
        let sent = "Sun, 06 Nov 1994 08:49:38 GMT"
        let validator = { DateValidator(lastModified: $0, date: $1, now: Self.date) }
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Nov 6 08:49:37 1994",
        ] {
            #expect(validator(text, sent)?.isStrong == true, "\(text)")
            #expect(validator(text, sent)?.modifiedAt == Self.date)
        }
        #expect(validator("Sun, 06 Nov 1994 08:49:38 GMT", sent)?.isStrong == false)
        #expect(validator("Wed, 06 Nov 2094 08:49:37 GMT", sent)?.isStrong == false)
        #expect(validator("Sun, 06 Nov 1994 08:49:37 GMT", nil)?.isStrong == false)
        #expect(validator("Sun, 06 Nov 1994 08:49:37 GMT", "now")?.isStrong == false)
        #expect(validator("yesterday", sent) == nil)
    }
}
