extension Timestamp {
    /// The instant as an HTTP date (RFC 9110 §5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`.
    public var httpDate: String {
        let seconds = CivilCalendar.floorDivide(microseconds, 1_000_000)
        let days = CivilCalendar.floorDivide(seconds, 86_400)
        let ofDay = seconds - days * 86_400
        let (year, month, day) = CivilCalendar.date(days: days)
        func padded(_ number: Int64, _ count: Int = 2) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, count - digits.utf8.count)) + digits
        }
        let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        let date = "\(padded(day)) \(months[Int(month) - 1]) \(padded(year, 4))"
        let time = [ofDay / 3_600, ofDay / 60 % 60, ofDay % 60].map { padded($0) }.joined(separator: ":")
        return "\(weekdays[Int(CivilCalendar.weekday(days: days))]), \(date) \(time) GMT"
    }

    /// Reads an HTTP date in each of the three forms that a recipient must accept (RFC 9110 §5.6.7), and
    /// with common deviations: `UTC` or a numeric offset for `GMT`, no zone, no weekday, a day or hour of one
    /// digit, dashes with a year of four digits, any case. `nil` for other texts.
    ///
    /// `now` decides about years of two digits: one that is more than 50 years ahead is in the past.
    public init?(httpDate text: String, now: Timestamp) {
        var words = text.utf8.split { $0 == 0x20 || $0 == 0x09 || $0 == UInt8(ascii: ",") }
            .map { String($0)?.lowercased() ?? "" }
        if let first = words.first, place(of: first, in: weekdays) != nil { words.removeFirst() }
        if let first = words.first, first.contains("-") {
            // `06-Nov-94` (RFC 850).
            let parts = first.split(separator: "-", omittingEmptySubsequences: false)
            words.replaceSubrange(0..<1, with: parts.map(String.init))
        } else if words.count >= 4, place(of: words[0], in: months) != nil {
            // `Nov  6 08:49:37 1994` (asctime), and with a zone before the year (`date`) or behind it.
            words.swapAt(0, 1)
            if let year = words.lastIndex(where: { number($0, 4...4) != nil }) {
                words.insert(words.remove(at: year), at: 2)
            }
        }
        guard (4...5).contains(words.count), let month = place(of: words[1], in: months),
            let time = secondOfDay(words[3]), let zone = offset(words.count == 5 ? words[4] : "gmt"),
            let day = number(words[0], 1...2), var year = number(words[2], 2...4), words[2].count != 3
        else { return nil }
        if words[2].count == 2 {
            let thisYear = CivilCalendar.date(
                days: CivilCalendar.floorDivide(now.microseconds, 86_400_000_000)
            ).year
            year += CivilCalendar.floorDivide(thisYear, 100) * 100
            // The last year with these digits that is at most 50 years ahead.
            if year > thisYear + 50 { year -= 100 } else if year + 100 <= thisYear + 50 { year += 100 }
        }
        guard year >= 1, (1...CivilCalendar.dayCount(ofMonth: month, year)).contains(day) else { return nil }
        self =
            Timestamp(microseconds: 0)
            + Double(CivilCalendar.days(year, month, day) * 86_400 + time - zone)
    }
}

private let weekdays = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"]
private let months = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
    "november", "december",
]

/// Returns the place of the name that the word abbreviates with three letters or more; the first is 1.
private func place(of word: String, in names: [String]) -> Int64? {
    guard word.utf8.count >= 3 else { return nil }
    return names.firstIndex { $0.hasPrefix(word) }.map { Int64($0) + 1 }
}

/// Returns a number of that many digits.
private func number(_ text: some StringProtocol, _ digitCounts: ClosedRange<Int>) -> Int64? {
    guard digitCounts.contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else {
        return nil
    }
    return Int64(text)
}

/// Reads `08:49:37`. A leap second is the second after it.
private func secondOfDay(_ text: String) -> Int64? {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 3, let hour = number(parts[0], 1...2), let minute = number(parts[1], 2...2),
        let second = number(parts[2], 2...2), hour < 24, minute < 60, second <= 60
    else { return nil }
    return hour * 3_600 + minute * 60 + second
}

/// Returns the seconds that a zone is ahead of UTC.
private func offset(_ zone: String) -> Int64? {
    if ["gmt", "utc", "ut", "z"].contains(zone) { return 0 }
    guard let sign = zone.utf8.first, sign == UInt8(ascii: "+") || sign == UInt8(ascii: "-"),
        let digits = number(zone.dropFirst(), 4...4), digits % 100 < 60, digits < 2_400
    else { return nil }
    return (sign == UInt8(ascii: "-") ? -1 : 1) * (digits / 100 * 3_600 + digits % 100 * 60)
}

/// A `Last-Modified` field with what the response says about its strength.
public struct DateValidator: Sendable, Equatable {
    /// The instant.
    public let modifiedAt: Timestamp
    /// `true` if the file cannot have changed within the second that the date names: the response was made at
    /// least one second later, by its own `Date` (RFC 9110 §8.8.2.2). Without `Date`, or with a date in its
    /// future, it is weak.
    public let isStrong: Bool

    /// Reads the values of the two fields. `nil` if `lastModified` is no date.
    public init?(lastModified: String, date: String?, now: Timestamp) {
        guard let modifiedAt = Timestamp(httpDate: lastModified, now: now) else { return nil }
        self.modifiedAt = modifiedAt
        let sentAt = date.flatMap { Timestamp(httpDate: $0, now: now) }
        isStrong = sentAt.map { $0 - modifiedAt >= 1 } ?? false
    }
}
