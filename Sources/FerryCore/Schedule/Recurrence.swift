/// The instants at which something is to happen again and again.
package struct Recurrence: Sendable, Equatable {
    package enum Pattern: Sendable, Equatable {
        /// By the wall clock of a place.
        case cron(CronExpression, TimeZoneRules)
        /// Every so many microseconds of real time. `includesAnchor`: the first time at the anchor itself.
        case interval(Int64, anchor: Timestamp, includesAnchor: Bool)
    }

    package let pattern: Pattern
    /// Nothing before the one or after the other; both count themselves.
    package let startAt: Timestamp?
    package let endAt: Timestamp?

    package init(_ pattern: Pattern, startAt: Timestamp? = nil, endAt: Timestamp? = nil) {
        self.pattern = pattern
        self.startAt = startAt
        self.endAt = endAt
    }

    /// The first occurrence after an instant; nil: there is none any more.
    package func next(after instant: Timestamp) -> Timestamp? {
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

    /// The last occurrence that is not after `instant`; nil: none is after `floor`.
    package func latest(through instant: Timestamp, after floor: Timestamp) -> Timestamp? {
        // Looked for in ever longer stretches, so that neither minutes nor years take many steps.
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

    /// How many there are after one instant and before another, at most `max`.
    package func count(after start: Timestamp, before end: Timestamp, max: Int = 100_000) -> Int {
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
    /// The first second after that one at which an expression occurs here; nil: it never does.
    ///
    /// As cron has it: times of a day (`30 2 * * *`) run once a day; what the clock jumps over runs at the
    /// end of the gap, and what it shows twice runs the first time. Patterns (`*/15 * * * *`, `0 * * * *`)
    /// run whenever the clock on the wall shows them.
    package func next(_ expression: CronExpression, after second: Int64) -> Int64? {
        if expression.isWildcard { return nextShown(expression, after: second) }
        // `instant` never falls: the first local time beyond all that was shown is the first instant too.
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
