import FerryCore
import Testing

@Suite struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT.
    let now = Timestamp(microseconds: 784_111_777_000_000)

    @Test("a number of seconds is read as it is, up to ten digits")
    func numbers() {
        #expect(RetryAfter.seconds("0", now: now) == 0)
        #expect(RetryAfter.seconds("120", now: now) == 120)
        #expect(RetryAfter.seconds("9999999999", now: now) == 9_999_999_999)
        #expect(RetryAfter.seconds("99999999999", now: now) == 9_999_999_999)
        #expect(RetryAfter.seconds(String(repeating: "9", count: 400), now: now) == 9_999_999_999)
    }

    @Test("a date counts from now, and one in the past is 0")
    func dates() {
        #expect(RetryAfter.seconds("Sun, 06 Nov 1994 08:50:37 GMT", now: now) == 60)
        #expect(RetryAfter.seconds("Sun, 06 Nov 1994 08:40:37 GMT", now: now) == 0)
        #expect(Timestamp(httpDate: "Sun, 06 Nov 1994 08:49:37 GMT") == now)
    }

    @Test(
        "a value that is neither a number nor a date has no seconds",
        arguments: [
            "", "-1", "1.5", "soon", "06 Nov 1994", "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET", "Sunday, 06-Nov-94 08:49:37 GMT",
        ])
    func neither(value: String) {
        #expect(RetryAfter.seconds(value, now: now) == nil)
    }
}
