/// The rule that a time zone follows after its last listed transition: the footer of a TZif file (RFC 9636
/// §3.3), a POSIX `TZ` value with the extended hours of version 3.
struct PosixTimeZone: Sendable, Equatable {
    struct Daylight: Sendable, Equatable {
        var offset: Int64
        var start: Rule
        var end: Rule
    }

    /// A moment of each year by the wall clock before the change.
    struct Rule: Sendable, Equatable {
        enum Day: Sendable, Equatable {
            /// 1 to 365; 29 February is never counted.
            case julian(Int64)
            /// 0 to 365.
            case ordinal(Int64)
            /// The `week`th such weekday of a month; 5 is the last one, day 0 is Sunday.
            case weekday(month: Int64, week: Int64, day: Int64)
        }
        var day: Day
        /// Seconds after midnight, from -167 h to 167 h.
        var time: Int64
    }

    /// Seconds east of Greenwich.
    var standardOffset: Int64
    var daylight: Daylight?

    /// Reads a `TZ` value; `nil` if it is invalid or has daylight time without rules.
    init?(_ text: some Sequence<UInt8>) {
        var reader = PosixReader(bytes: Array(text)[...])
        guard reader.name(), let west = reader.time(hoursMax: 24) else { return nil }
        standardOffset = -west
        if reader.isAtEnd { return }
        guard reader.name() else { return nil }
        var offset = standardOffset + 3_600
        if !reader.isAt(",") {
            guard let west = reader.time(hoursMax: 24) else { return nil }
            offset = -west
        }
        guard let start = reader.rule(), let end = reader.rule(), reader.isAtEnd else { return nil }
        daylight = Daylight(offset: offset, start: start, end: end)
    }

    /// Returns the transitions of a year in order.
    func transitions(_ year: Int64) -> [TimeZoneRules.Transition] {
        guard let daylight else { return [] }
        let start = TimeZoneRules.Transition(
            at: daylight.start.second(year) - standardOffset, offset: daylight.offset)
        let end = TimeZoneRules.Transition(
            at: daylight.end.second(year) - daylight.offset, offset: standardOffset)
        // Permanent daylight time ends and starts at the same moment.
        return end.at <= start.at ? [end, start] : [start, end]
    }

    func offset(at second: Int64) -> Int64 {
        guard daylight != nil else { return standardOffset }
        let year = Self.year(of: second)
        var offset = standardOffset
        for year in (year - 1)...(year + 1) {
            for transition in transitions(year) where transition.at <= second { offset = transition.offset }
        }
        return offset
    }

    func nextTransition(after second: Int64) -> TimeZoneRules.Transition? {
        guard daylight != nil else { return nil }
        let year = Self.year(of: second)
        for year in (year - 1)...(year + 2) {
            if let next = transitions(year).first(where: { $0.at > second }) { return next }
        }
        return nil
    }

    private static func year(of second: Int64) -> Int64 {
        CivilCalendar.date(days: CivilCalendar.floorDivide(second, 86_400)).year
    }
}

extension PosixTimeZone.Rule {
    /// Returns the moment in a year in seconds of the wall clock, as if it were UTC.
    fileprivate func second(_ year: Int64) -> Int64 {
        let newYear = CivilCalendar.days(year, 1, 1)
        let days: Int64
        switch day {
        case .julian(let number):
            days = newYear + number - 1 + (CivilCalendar.isLeap(year) && number >= 60 ? 1 : 0)
        case .ordinal(let number): days = newYear + number
        case .weekday(let month, let week, let weekday):
            let first = CivilCalendar.days(year, month, 1)
            var day = (weekday - CivilCalendar.weekday(days: first) + 7) % 7 + (week - 1) * 7
            while day >= CivilCalendar.dayCount(ofMonth: month, year) { day -= 7 }
            days = first + day
        }
        return days * 86_400 + time
    }
}

/// Parser of the parts of a `TZ` value.
private struct PosixReader {
    var bytes: ArraySlice<UInt8>

    var isAtEnd: Bool { bytes.isEmpty }

    func isAt(_ character: Unicode.Scalar) -> Bool { bytes.first == UInt8(ascii: character) }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard isAt(character) else { return false }
        bytes.removeFirst()
        return true
    }

    /// Reads letters, or any text between `<` and `>`.
    mutating func name() -> Bool {
        if take("<") {
            guard let end = bytes.firstIndex(of: UInt8(ascii: ">")) else { return false }
            bytes = bytes[(end + 1)...]
            return true
        }
        let rest = bytes.drop { (65...90).contains($0 & 0xDF) }
        defer { bytes = rest }
        return bytes.count - rest.count >= 3
    }

    mutating func number(_ range: ClosedRange<Int64>) -> Int64? {
        let digits = bytes.prefix { (48...57).contains($0) }
        guard (1...3).contains(digits.count) else { return nil }
        bytes = bytes.dropFirst(digits.count)
        let value = digits.reduce(Int64(0)) { $0 * 10 + Int64($1 - 48) }
        return range.contains(value) ? value : nil
    }

    /// Reads `[+-]hh[:mm[:ss]]` in seconds.
    mutating func time(hoursMax: Int64) -> Int64? {
        let isNegative = take("-")
        if !isNegative { _ = take("+") }
        guard var seconds = number(0...hoursMax) else { return nil }
        seconds *= 3_600
        if take(":") {
            guard let minutes = number(0...59) else { return nil }
            seconds += minutes * 60
            if take(":") {
                guard let rest = number(0...59) else { return nil }
                seconds += rest
            }
        }
        return isNegative ? -seconds : seconds
    }

    /// Reads `,date[/time]`; the default time is 02:00.
    mutating func rule() -> PosixTimeZone.Rule? {
        guard take(","), let day = day() else { return nil }
        guard take("/") else { return PosixTimeZone.Rule(day: day, time: 7_200) }
        return time(hoursMax: 167).map { PosixTimeZone.Rule(day: day, time: $0) }
    }

    private mutating func day() -> PosixTimeZone.Rule.Day? {
        if take("J") { return number(1...365).map { .julian($0) } }
        guard take("M") else { return number(0...365).map { .ordinal($0) } }
        guard let month = number(1...12), take("."), let week = number(1...5), take("."),
            let day = number(0...6)
        else { return nil }
        return .weekday(month: month, week: week, day: day)
    }
}
