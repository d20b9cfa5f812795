extension Timestamp {
    /// Reads the date of an `Expires` attribute, which servers write in many forms (RFC 6265bis §5.1.1): the
    /// first words of the text that look like a time, a day, a month and a year count, in any order. Zones
    /// are ignored. `nil` if one of them is missing or there is no such date.
    init?(cookieDate text: some Collection<UInt8>) {
        var date = CookieDate()
        for word in text.split(whereSeparator: isDelimiter) { date.take(Array(word)) }
        guard let time = date.time, let day = date.day, let month = date.month, var year = date.year else {
            return nil
        }
        if (70...99).contains(year) { year += 1900 } else if year < 70 { year += 2000 }
        guard year >= 1601, (1...CivilCalendar.dayCount(ofMonth: month, year)).contains(day),
            time.hour <= 23, time.minute <= 59, time.second <= 59
        else { return nil }
        let seconds =
            CivilCalendar.days(year, month, day) * 86_400 + time.hour * 3_600 + time.minute * 60 + time.second
        self.init(microseconds: seconds * 1_000_000)
    }
}

/// The parts of a date that were found so far.
private struct CookieDate {
    var time: (hour: Int64, minute: Int64, second: Int64)?
    var day: Int64?
    var month: Int64?
    var year: Int64?

    /// Takes a word as the first part that it may be and that is still missing.
    mutating func take(_ word: [UInt8]) {
        if time == nil, let read = Self.time(word[...]) {
            time = read
        } else if day == nil, let (number, _) = digits(word[...], 1...2) {
            day = number
        } else if month == nil, let read = Self.month(word) {
            month = read
        } else if year == nil, let (number, _) = digits(word[...], 2...4) {
            year = number
        }
    }

    /// Reads three numbers with colons between them.
    private static func time(_ word: ArraySlice<UInt8>) -> (hour: Int64, minute: Int64, second: Int64)? {
        guard let (hour, afterHour) = digits(word, 1...2), afterHour.first == UInt8(ascii: ":"),
            let (minute, afterMinute) = digits(afterHour.dropFirst(), 1...2),
            afterMinute.first == UInt8(ascii: ":"),
            let (second, _) = digits(afterMinute.dropFirst(), 1...2)
        else { return nil }
        return (hour, minute, second)
    }

    private static func month(_ word: [UInt8]) -> Int64? {
        let letters = word.prefix(3).map { $0 | 0x20 }
        return months.firstIndex { $0.elementsEqual(letters) }.map { Int64($0) + 1 }
    }

    private static let months = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ].map { Array($0.utf8) }
}

/// Reads a number of so many digits that ends the word or is followed by another character.
private func digits(
    _ word: ArraySlice<UInt8>, _ counts: ClosedRange<Int>
) -> (number: Int64, rest: ArraySlice<UInt8>)? {
    let digits = word.prefix { (0x30...0x39).contains($0) }
    guard counts.contains(digits.count) else { return nil }
    return (digits.reduce(0) { $0 * 10 + Int64($1 - 0x30) }, word.dropFirst(digits.count))
}

/// Returns `true` for a `delimiter` of a cookie date.
private func isDelimiter(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
    default: false
    }
}
