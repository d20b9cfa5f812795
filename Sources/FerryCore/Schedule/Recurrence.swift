/// A sequence of instants.
public struct Recurrence: Sendable, Equatable {
    /// Rule of the sequence.
    public enum Pattern: Sendable, Equatable {
        /// Instants of the wall clock of a place.
        case cron(CronExpression, TimeZoneRules)
        /// Instants with a fixed distance in microseconds of real time. `includesAnchor`: `true` if the
        /// anchor is the first of them.
        case interval(Int64, anchor: Timestamp, includesAnchor: Bool)
    }

    /// The rule.
    public let pattern: Pattern
    /// First and last possible instant, both inclusive; `nil` for no bound.
    public let startAt: Timestamp?
    public let endAt: Timestamp?

    /// Creates a sequence.
    public init(_ pattern: Pattern, startAt: Timestamp? = nil, endAt: Timestamp? = nil) {
        self.pattern = pattern
        self.startAt = startAt
        self.endAt = endAt
    }

    /// Returns the first instant after another one, or `nil` if there is none.
    public func next(after instant: Timestamp) -> Timestamp? {
        var instant = instant
        if let startAt, instant < startAt { instant = Timestamp(microseconds: startAt.microseconds - 1) }
        guard let next = patternNext(after: instant), endAt.map({ next <= $0 }) ?? true else { return nil }
        return next
    }

    private func patternNext(after instant: Timestamp) -> Timestamp? {
        switch pattern {
        case .cron(let expression, let zone):
            let second = CivilCalendar.floorDivide(instant.microseconds, 1_000_000)
            return zone.next(expression, after: second).map { Timestamp(microseconds: $0 * 1_000_000) }
        case .interval(let length, let anchor, let includesAnchor):
            let passed = CivilCalendar.floorDivide(instant.microseconds - anchor.microseconds, length)
            let number = max(passed + 1, includesAnchor ? 0 : 1)
            return Timestamp(microseconds: anchor.microseconds + number * length)
        }
    }

    /// Returns the last instant at or before `instant`, or `nil` if there is none after `floor`.
    public func latest(through instant: Timestamp, after floor: Timestamp) -> Timestamp? {
        // Searches growing periods, so that neither minutes nor years take many steps.
        var seconds = 3_600.0
        while true {
            let start = max(floor, instant + -seconds)
            var found: Timestamp?
            var cursor = start
            while let next = next(after: cursor), next <= instant { (found, cursor) = (next, next) }
            if found != nil || start <= floor { return found }
            seconds *= 24
        }
    }

    /// Returns the number of instants between two others, both exclusive, at most `max`.
    public func count(after start: Timestamp, before end: Timestamp, max: Int = 100_000) -> Int {
        if case .interval(let length, _, _) = pattern {
            guard let first = next(after: start), first < end else { return 0 }
            let last = endAt.map { min(end, $0 + 0.000_001) } ?? end
            return min(max, Int((last.microseconds - 1 - first.microseconds) / length) + 1)
        }
        var count = 0
        var cursor = start
        while count < max, let next = next(after: cursor), next < end { (count, cursor) = (count + 1, next) }
        return count
    }
}

extension TimeZoneRules {
    /// Returns the first second after `second` at which an expression occurs in this zone, or `nil` if it
    /// never does.
    ///
    /// As in cron: fixed times of a day (`30 2 * * *`) occur once a day; if the clock skips one, it occurs at
    /// the end of the gap, and if the clock shows it twice, the first time. Patterns (`*/15 * * * *`, `0 * *
    /// * *`) occur whenever the wall clock shows them.
    public func next(_ expression: CronExpression, after second: Int64) -> Int64? {
        if expression.isWildcard { return nextShown(expression, after: second) }
        // `instant` is monotonic: the first local time after all that were shown is the first instant as
        // well.
        return expression.next(after: latestLocal(through: second)).map { instant(local: $0) }
    }

    private func nextShown(_ expression: CronExpression, after second: Int64) -> Int64? {
        var start = second
        var offset = offset(at: second)
        var shown = second + offset
        guard var local = expression.next(after: shown) else { return nil }
        while true {
            let instant = local - offset
            guard let next = nextTransition(after: start), instant >= next.at else { return instant }
            (start, offset) = (next.at, next.offset)
            let before = next.at + next.offset - 1
            if before < shown || before >= local {
                guard let again = expression.next(after: before) else { return nil }
                local = again
            }
            shown = before
        }
    }
}
