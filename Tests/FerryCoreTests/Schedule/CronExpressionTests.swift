import FerryCore
import Testing

@Suite("Cron expressions")
struct CronExpressionTests {
    private func instant(_ text: String) throws -> Int64 {
        try #require(Timestamp(rfc3339: text)).microseconds / 1_000_000
    }

    private func text(_ second: Int64?) -> String? {
        second.map { String(Timestamp(microseconds: $0 * 1_000_000).description.prefix(16)) }
    }

    @Test(
        "an expression occurs at its next matching minutes",
        arguments: [
            ("*/15 * * * *", "2026-11-21T22:14:59Z", ["2026-11-21T22:15", "2026-11-21T22:30"]),
            ("*/15 * * * *", "2026-11-21T22:15:00Z", ["2026-11-21T22:30", "2026-11-21T22:45"]),
            ("5,10-12 3 * * *", "2026-12-31T03:11:00Z", ["2026-12-31T03:12", "2027-01-01T03:05"]),
            ("0 0 29 2 *", "2026-01-01T00:00:00Z", ["2028-02-29T00:00", "2032-02-29T00:00"]),
            ("0 0 29 2 *", "2096-03-01T00:00:00Z", ["2104-02-29T00:00", "2108-02-29T00:00"]),
            ("0 6 L * *", "2027-01-31T06:00:00Z", ["2027-02-28T06:00", "2027-03-31T06:00"]),
            ("0 6 L-2 2 *", "2027-01-01T00:00:00Z", ["2027-02-26T06:00", "2028-02-27T06:00"]),
            ("0 6 * * 5#3", "2026-11-01T00:00:00Z", ["2026-11-20T06:00", "2026-12-18T06:00"]),
            ("0 6 * * fril", "2026-11-01T00:00:00Z", ["2026-11-27T06:00", "2026-12-25T06:00"]),
            ("0 6 * * 5#5", "2026-11-01T00:00:00Z", ["2027-01-29T06:00", "2027-04-30T06:00"]),
            ("0 0 * * 7", "2026-11-21T00:00:00Z", ["2026-11-22T00:00", "2026-11-29T00:00"]),
            ("0 0 * * SUN,sat", "2026-11-20T00:00:00Z", ["2026-11-21T00:00", "2026-11-22T00:00"]),
            ("0 0 * * 5-7", "2026-11-19T00:00:00Z", ["2026-11-20T00:00", "2026-11-21T00:00"]),
            ("0 0 1 JAN-MAR/2 *", "2026-11-20T00:00:00Z", ["2027-01-01T00:00", "2027-03-01T00:00"]),
            // Two restricted day fields: either. One with a star: both.
            ("0 0 13 * 5", "2026-11-01T00:00:00Z", ["2026-11-06T00:00", "2026-11-13T00:00"]),
            ("0 0 */10 * 5", "2026-11-01T00:00:00Z", ["2026-12-11T00:00", "2027-01-01T00:00"]),
            ("0 0 L * 1#1", "2026-11-01T00:00:00Z", ["2026-11-02T00:00", "2026-11-30T00:00"]),
            ("@daily", "2026-11-21T00:00:00Z", ["2026-11-22T00:00", "2026-11-23T00:00"]),
            ("@Hourly", "2026-11-21T23:59:59Z", ["2026-11-22T00:00", "2026-11-22T01:00"]),
            ("@weekly", "2026-11-21T00:00:00Z", ["2026-11-22T00:00", "2026-11-29T00:00"]),
            ("@monthly", "2026-11-21T00:00:00Z", ["2026-12-01T00:00", "2027-01-01T00:00"]),
            ("@yearly", "2026-11-21T00:00:00Z", ["2027-01-01T00:00", "2028-01-01T00:00"]),
            ("59 23 31 12 *", "1969-12-31T23:58:00Z", ["1969-12-31T23:59", "1970-12-31T23:59"]),
        ])
    func next(_ cron: String, _ after: String, _ expected: [String]) throws {
        let expression = try CronExpression(cron)
        let first = expression.next(after: try instant(after))
        #expect([text(first), text(first.flatMap { expression.next(after: $0) })] == expected)
    }

    @Test(
        "an invalid expression is rejected with a message about the field",
        arguments: [
            ("", "Five fields"), ("* * * *", "Five fields"), ("* * * * * *", "Five fields"),
            ("60 * * * *", "minute"), ("* 24 * * *", "hour"), ("* * 0 * *", "day of the month"),
            ("* * 32 * *", "day of the month"), ("* * * 13 *", "month"), ("* * * * 8", "day of the week"),
            ("-1 * * * *", "minute"), ("5-1 * * * *", "minute"), ("1/5 * * * *", "minute"),
            ("*/0 * * * *", "minute"), ("*/60 * * * *", "minute"), ("1, * * * *", "minute"),
            ("1-2-3 * * * *", "minute"), ("* * * foo *", "month"), ("* * * * funday", "day of the week"),
            ("* * * * fri-mon", "day of the week"), ("* * ? * *", "day of the month"),
            ("* * L-0 * *", "L-"), ("* * L-31 * *", "L-"), ("* * 15W * *", "day of the month"),
            ("* * * * 5#6", "#"), ("* * * * 5#0", "#"), ("* * * * #3", "day of the week"),
            ("* * * * 8L", "day of the week"), ("@reboot", "Unknown name"), ("1e0 * * * *", "minute"),
            ("+1 * * * *", "minute"), ("0001 * * * *", "minute"), ("٣ * * * *", "minute"),
        ])
    func refused(_ cron: String, _ word: String) throws {
        let error = try #require(throws: CronExpression.Failure.self) { try CronExpression(cron) }
        #expect(error.message.contains(word), "\(error.message)")
    }

    @Test(
        "an expression that never occurs is detected",
        arguments: ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 31 2 *"])
    func impossible(_ cron: String) throws {
        #expect(try !CronExpression(cron).canOccur)
    }

    @Test("29 February on one day of the week occurs")
    func rare() throws {
        let expression = try CronExpression("0 0 29 2 */7")
        let next = expression.next(after: try instant("2072-03-01T00:00:00Z"))
        #expect(text(next) == "2112-02-28T00:00" || text(next)?.contains("-02-29") == true)
    }

    @Test("the next minute of any expression is later and the first that matches")
    func property() throws {
        var random = SeededRandom(seed: 12)
        for _ in 0..<300 {
            let field: (Int, Int) -> String = { low, high in
                let first = Int.random(in: low...high, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0, 1: return "*"
                case 2: return "\(first)"
                case 3: return "\(first)-\(Int.random(in: first...high, using: &random))"
                default: return "*/\(max(1, first))"
                }
            }
            let cron =
                "\(field(0, 59)) \(field(0, 23)) \(field(1, 31)) \(field(1, 12)) \(field(0, 6))"
            let expression = try CronExpression(cron)
            let start = Int64.random(in: 0...4_000_000_000, using: &random)
            guard let next = expression.next(after: start) else { continue }
            #expect(next > start && next % 60 == 0, "\(cron) after \(start)")
            #expect(expression.next(after: next - 1) == next, "\(cron): \(next) fits")
            if next - start < 3_000 * 60 {
                for second in stride(from: start, to: next - 1, by: 60) {
                    #expect(expression.next(after: second) == next, "\(cron): nothing between")
                }
            }
        }
    }
}
