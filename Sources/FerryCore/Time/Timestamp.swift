/// An instant in microseconds since 1970-01-01T00:00:00Z, as PostgreSQL stores it.
public struct Timestamp: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// Microseconds since 1970-01-01T00:00:00Z.
    public let microseconds: Int64

    /// Creates an instant.
    public init(microseconds: Int64) { self.microseconds = microseconds }

    /// 1970-01-01T00:00:00Z, before all instants of Ferry.
    public static let distantPast = Timestamp(microseconds: 0)
    /// 9999-12-31T23:59:59Z, the last second that both PostgreSQL and RFC 3339 can write.
    public static let distantFuture = Timestamp(microseconds: 253_402_300_799_000_000)

    /// Orders instants by time.
    public static func < (a: Self, b: Self) -> Bool { a.microseconds < b.microseconds }
    /// Adds seconds. The result stays in the years 1 to 9999.
    public static func + (a: Self, seconds: Double) -> Self {
        // Clamped, because a delay from outside may be far beyond the calendar.
        let added = Double(a.microseconds) + seconds * 1_000_000
        return Timestamp(microseconds: Int64(min(max(added, -62_135_596_800e6), 253_402_300_799e6)))
    }
    /// Seconds from `b` to `a`.
    public static func - (a: Self, b: Self) -> Double {
        let (difference, overflows) = a.microseconds.subtractingReportingOverflow(b.microseconds)
        // Only far beyond the calendar, where a row or another node can name an instant.
        return (overflows ? Double(a.microseconds) - Double(b.microseconds) : Double(difference)) / 1_000_000
    }

    /// The instant as RFC 3339 in UTC with six decimals: `2026-11-21T22:00:00.000000Z`.
    public var description: String { String(decoding: utf8, as: UTF8.self) }

    /// `description` as bytes.
    public var utf8: [UInt8] {
        let days = CivilCalendar.floorDivide(microseconds, 86_400_000_000)
        let ofDay = microseconds - days * 86_400_000_000
        let (year, month, day) = CivilCalendar.date(days: days)
        let seconds = ofDay / 1_000_000
        var text: [UInt8] = []
        text.reserveCapacity(27)
        append(year, 4, to: &text)
        text.append(UInt8(ascii: "-"))
        append(month, 2, to: &text)
        text.append(UInt8(ascii: "-"))
        append(day, 2, to: &text)
        text.append(UInt8(ascii: "T"))
        append(seconds / 3600, 2, to: &text)
        text.append(UInt8(ascii: ":"))
        append(seconds / 60 % 60, 2, to: &text)
        text.append(UInt8(ascii: ":"))
        append(seconds % 60, 2, to: &text)
        text.append(UInt8(ascii: "."))
        append(ofDay % 1_000_000, 6, to: &text)
        text.append(UInt8(ascii: "Z"))
        return text
    }

    /// Seconds of the years 0001 to 9999 in UTC.
    private static let secondsWithText: Range<Int64> = -62_135_596_800..<253_402_300_800

    /// Reads an RFC 3339 `date-time` (§5.6) with any offset and up to nine decimals, of which six are kept.
    /// `nil` for other texts, and for years outside of 0001 to 9999 in UTC.
    public init?(rfc3339 text: some StringProtocol) {
        let b = Array(text.utf8)
        guard b.count >= 20, b[4] == UInt8(ascii: "-"), b[7] == UInt8(ascii: "-"),
            b[10] | 32 == UInt8(ascii: "t"),
            b[13] == UInt8(ascii: ":"), b[16] == UInt8(ascii: ":"),
            let year = number(b, 0..<4), let month = number(b, 5..<7), let day = number(b, 8..<10),
            let hour = number(b, 11..<13), let minute = number(b, 14..<16), let second = number(b, 17..<19),
            year >= 1, (1...12).contains(month),
            (1...CivilCalendar.dayCount(ofMonth: month, year)).contains(day),
            hour < 24, minute < 60, second < 61
        else { return nil }
        var index = 19
        var fraction: Int64 = 0
        if b[index] == UInt8(ascii: ".") {
            let digits = b[(index + 1)...].prefix { (48...57).contains($0) }
            guard (1...9).contains(digits.count) else { return nil }
            for position in 0..<6 {
                let digit = position < digits.count ? Int64(digits[digits.startIndex + position]) - 48 : 0
                fraction = fraction * 10 + digit
            }
            index += 1 + digits.count
        }
        guard index < b.count, let offset = offsetSeconds(b[index...]) else { return nil }
        let seconds =
            CivilCalendar.days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
        // The offset or a leap second may lead out of the years that have a text.
        guard Self.secondsWithText.contains(seconds) else { return nil }
        self.init(microseconds: seconds * 1_000_000 + fraction)
    }
}

private func append(_ number: Int64, _ width: Int, to text: inout [UInt8]) {
    var divisor: Int64 = 1
    for _ in 1..<width { divisor *= 10 }
    while divisor > 0 {
        text.append(UInt8(truncatingIfNeeded: 48 + number / divisor % 10))
        divisor /= 10
    }
}

private func number(_ bytes: [UInt8], _ range: Range<Int>) -> Int64? {
    var value: Int64 = 0
    for byte in bytes[range] {
        guard (48...57).contains(byte) else { return nil }
        value = value * 10 + Int64(byte - 48)
    }
    return value
}

private func offsetSeconds(_ bytes: ArraySlice<UInt8>) -> Int64? {
    let b = Array(bytes)
    if b.count == 1, b[0] | 32 == UInt8(ascii: "z") { return 0 }
    guard b.count == 6, b[0] == UInt8(ascii: "+") || b[0] == UInt8(ascii: "-"), b[3] == UInt8(ascii: ":"),
        let hours = number(b, 1..<3), let minutes = number(b, 4..<6), hours < 24, minutes < 60
    else { return nil }
    return (b[0] == UInt8(ascii: "-") ? -1 : 1) * (hours * 3600 + minutes * 60)
}
