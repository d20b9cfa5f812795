/// A cron expression: five fields (minute, hour, day of the month, month, day of the week) as in crontab(5),
/// or a name such as `@daily`. Also `L` for the last day of a month, `L-2` for the second day before it, `5L`
/// and `5#3` for the last and the third Friday.
///
/// If both day fields are restricted, a day that matches either one counts. A field that begins with `*` does
/// not restrict (crontab(5)).
public struct CronExpression: Sendable, Equatable {
    /// The expression as given.
    public let text: String
    fileprivate var minutes: UInt64 = 0
    fileprivate var hours: UInt64 = 0
    fileprivate var days: UInt64 = 0
    /// Bit n: the nth day before the last one of the month.
    fileprivate var daysBeforeLast: UInt64 = 0
    fileprivate var months: UInt64 = 0
    fileprivate var weekdays: UInt64 = 0
    /// Bit n of entry k - 1: the kth such weekday of the month; of entry 5: the last one.
    fileprivate var numberedWeekdays: [UInt64] = [0, 0, 0, 0, 0, 0]
    fileprivate var isAnyDay = false
    fileprivate var isAnyWeekday = false
    /// `true` if the minute or the hour begins with `*`: then the expression follows the displayed wall
    /// clock, instead of fixed times of a day.
    public fileprivate(set) var isWildcard = false

    /// Reason for which a text is no expression.
    public struct Failure: Error, Sendable, Equatable {
        /// A sentence for the client.
        public let message: String
    }

    /// Value of an expression that is not read yet; it never occurs.
    static let unknown = CronExpression()

    private init() { text = "" }

    /// Years after which an expression that has not occurred never does: 29 February on one day of the week.
    private static let horizonYears: Int64 = 48

    /// `true` if a day matches; none matches 30 February.
    public var canOccur: Bool { next(after: 0) != nil }

    private func fits(_ year: Int64, _ month: Int64, _ day: Int64) -> Bool {
        let isDay =
            days & 1 << UInt64(day) != 0
            || daysBeforeLast & 1 << UInt64(CivilCalendar.dayCount(ofMonth: month, year) - day) != 0
        let isWeekday = isWeekday(year, month, day)
        // A field that does not restrict matches every day, so "and" leaves the other one.
        return isAnyDay || isAnyWeekday ? isDay && isWeekday : isDay || isWeekday
    }

    private func isWeekday(_ year: Int64, _ month: Int64, _ day: Int64) -> Bool {
        let bit: UInt64 = 1 << UInt64(CivilCalendar.weekday(days: CivilCalendar.days(year, month, day)))
        if weekdays & bit != 0 { return true }
        if numberedWeekdays[Int((day - 1) / 7)] & bit != 0 { return true }
        return numberedWeekdays[5] & bit != 0 && day + 7 > CivilCalendar.dayCount(ofMonth: month, year)
    }

    /// Returns the first matching minute after `second`, for a wall clock that is never put forward or back;
    /// `nil` if there is none.
    public func next(after second: Int64) -> Int64? {
        let minute = CivilCalendar.floorDivide(second, 60) + 1
        var days = CivilCalendar.floorDivide(minute, 1_440)
        var ofDay = minute - days * 1_440
        var (year, month, day) = CivilCalendar.date(days: days)
        let lastYear = year + Self.horizonYears
        while year <= lastYear {
            let dayCount = CivilCalendar.dayCount(ofMonth: month, year)
            if months & 1 << UInt64(month) == 0 {
                days += dayCount - day + 1
                (day, ofDay) = (dayCount + 1, 0)
            } else {
                if fits(year, month, day), let found = firstMinute(from: ofDay) {
                    return (days * 1_440 + found) * 60
                }
                (days, day, ofDay) = (days + 1, day + 1, 0)
            }
            if day > dayCount {
                (day, month) = (1, month + 1)
                if month > 12 { (month, year) = (1, year + 1) }
            }
        }
        return nil
    }

    /// Returns the first matching minute of a matching day.
    private func firstMinute(from ofDay: Int64) -> Int64? {
        var minute = ofDay % 60
        for hour in (ofDay / 60)..<24 {
            if hours & 1 << UInt64(hour) != 0 {
                let left = minutes >> UInt64(minute)
                if left != 0 { return hour * 60 + minute + Int64(left.trailingZeroBitCount) }
            }
            minute = 0
        }
        return nil
    }
}

// MARK: Parsing

extension CronExpression {
    private static let names = [
        "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
    ]

    /// Parses a text.
    public init(_ text: String) throws(Failure) {
        self.text = text
        let spelled: String
        if text.hasPrefix("@") {
            guard let known = Self.names[text.lowercased()] else {
                throw Failure(
                    message:
                        "Unknown name \"\(text)\". Use one of: "
                        + "\(Self.names.keys.sorted().joined(separator: ", "))."
                )
            }
            spelled = known
        } else {
            spelled = text
        }
        let fields = spelled.split { $0 == " " || $0 == "\t" }.map(String.init)
        guard fields.count == 5 else {
            throw Failure(
                message: "Five fields are expected (minute, hour, day, month, day of the week), "
                    + "these are \(fields.count).")
        }
        minutes = try CronField.minute.bits(fields[0])
        hours = try CronField.hour.bits(fields[1])
        months = try CronField.month.bits(fields[3])
        try readDays(fields[2])
        try readWeekdays(fields[4])
        isAnyDay = fields[2].hasPrefix("*")
        isAnyWeekday = fields[4].hasPrefix("*")
        isWildcard = fields[0].hasPrefix("*") || fields[1].hasPrefix("*")
    }

    private mutating func readDays(_ field: String) throws(Failure) {
        for part in field.split(separator: ",", omittingEmptySubsequences: false) {
            let upper = part.uppercased()
            if upper == "L" {
                daysBeforeLast |= 1
            } else if upper.hasPrefix("L-") {
                guard let count = CronField.number(upper.dropFirst(2)), (1...30).contains(count) else {
                    throw Failure(message: "\"\(part)\": L- is followed by 1 to 30 days.")
                }
                daysBeforeLast |= 1 << UInt64(count)
            } else {
                days |= try CronField.day.bits(String(part))
            }
        }
    }

    private mutating func readWeekdays(_ field: String) throws(Failure) {
        for part in field.split(separator: ",", omittingEmptySubsequences: false) {
            let pieces = part.split(separator: "#", omittingEmptySubsequences: false)
            if pieces.count == 2 {
                guard let number = CronField.number(pieces[1]), (1...5).contains(number) else {
                    throw Failure(message: "\"\(part)\": # is followed by 1 to 5.")
                }
                numberedWeekdays[number - 1] |= try weekday(pieces[0])
            } else if part.utf8.count > 1, part.uppercased().hasSuffix("L") {
                numberedWeekdays[5] |= try weekday(part.dropLast())
            } else {
                weekdays |= Self.folded(try CronField.weekday.bits(String(part)))
            }
        }
    }

    private func weekday(_ text: Substring) throws(Failure) -> UInt64 {
        1 << UInt64(try CronField.weekday.value(text) % 7)
    }

    /// Maps 7 to 0, since both mean Sunday.
    private static func folded(_ bits: UInt64) -> UInt64 { (bits | bits >> 7) & 0x7F }
}

/// A field: the range of its numbers, and its names.
private struct CronField {
    let title: String
    let range: ClosedRange<Int>
    var names: [String] = []

    static let minute = CronField(title: "minute", range: 0...59)
    static let hour = CronField(title: "hour", range: 0...23)
    static let day = CronField(title: "day of the month", range: 1...31)
    static let month = CronField(
        title: "month", range: 1...12,
        names: [
            "", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ])
    static let weekday = CronField(
        title: "day of the week", range: 0...7, names: ["sun", "mon", "tue", "wed", "thu", "fri", "sat"])

    func bits(_ field: String) throws(CronExpression.Failure) -> UInt64 {
        var bits: UInt64 = 0
        for part in field.split(separator: ",", omittingEmptySubsequences: false) {
            let pieces = part.split(separator: "/", omittingEmptySubsequences: false)
            let bounds = try bounds(pieces[0])
            var step = 1
            if pieces.count > 1 {
                guard pieces.count == 2, let number = Self.number(pieces[1]), number >= 1,
                    number <= range.upperBound
                else { throw failure(part, "a step is a number from 1 to \(range.upperBound)") }
                guard pieces[0] == "*" || pieces[0].contains("-") else {
                    throw failure(part, "a step follows * or a range")
                }
                step = number
            }
            for value in stride(from: bounds.lowerBound, through: bounds.upperBound, by: step) {
                bits |= 1 << UInt64(value)
            }
        }
        return bits
    }

    private func bounds(_ text: Substring) throws(CronExpression.Failure) -> ClosedRange<Int> {
        // 7 is a second number of Sunday, not an eighth day.
        if text == "*" { return range.lowerBound...(range.upperBound == 7 ? 6 : range.upperBound) }
        let ends = text.split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count <= 2 else { throw failure(text, "a range has two ends") }
        let first = try value(ends[0])
        guard ends.count == 2 else { return first...first }
        let last = try value(ends[1])
        guard first <= last else { throw failure(text, "a range goes upwards; name the rest after a comma") }
        return first...last
    }

    func value(_ text: Substring) throws(CronExpression.Failure) -> Int {
        if let index = names.firstIndex(of: text.lowercased()), !text.isEmpty { return index }
        guard let number = Self.number(text), range.contains(number) else {
            let names = names.isEmpty ? "" : " or a name of three letters"
            throw failure(
                text, "this is a number from \(range.lowerBound) to \(range.upperBound)\(names)")
        }
        return number
    }

    /// Reads one to three digits.
    static func number(_ text: Substring) -> Int? {
        guard (1...3).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }) else {
            return nil
        }
        return Int(text)
    }

    private func failure(_ part: Substring, _ what: String) -> CronExpression.Failure {
        CronExpression.Failure(message: "The \(title), \"\(part)\": \(what).")
    }
}
