/// What is to be done about a schedule whose time has come. Pure: the same inputs, the same decision, on
/// every node.
package struct ScheduleDecision: Sendable, Equatable {
    package struct Input: Sendable {
        package var id: ScheduleID
        package var spec: ScheduleSpec
        package var recurrence: Recurrence
        /// The occurrence that is due.
        package var scheduledAt: Timestamp
        /// It has waited for an earlier job's end.
        package var isHeld: Bool
        /// A job of an earlier occurrence is not over.
        package var hasUnfinished: Bool
        package var now: Timestamp

        package init(
            id: ScheduleID, spec: ScheduleSpec, recurrence: Recurrence, scheduledAt: Timestamp, isHeld: Bool,
            hasUnfinished: Bool, now: Timestamp
        ) {
            self.id = id
            self.spec = spec
            self.recurrence = recurrence
            self.scheduledAt = scheduledAt
            self.isHeld = isHeld
            self.hasUnfinished = hasUnfinished
            self.now = now
        }
    }

    /// The occurrence to submit a job for.
    package var submits: Timestamp?
    /// The jobs that are not over are to be cancelled.
    package var cancelsPrevious = false
    /// The next occurrence, and when it is to be looked at; nil: there is none any more.
    package var next: Timestamp?
    package var nextRunAt: Timestamp?
    package var isHeld = false
    /// Occurrences that were given up because nobody was there, and because of an earlier job.
    package var missedCount = 0
    package var skippedCount = 0

    /// Seconds until a held occurrence is looked at again.
    private static let cancelSeconds = 0.5
    private static let queueSeconds = 2.0

    /// Nothing is done, and nothing comes.
    package init() {}

    package init(_ input: Input) { decide(input) }

    private mutating func decide(_ input: Input) {
        var due = input.scheduledAt
        if input.isHeld {
            let (first, droppedCount) = Self.afterWaiting(input)
            skippedCount = droppedCount
            guard let left = first else { return settle(nil, input) }
            due = left
        } else {
            guard let left = catchUp(input) else { return settle(nil, input) }
            due = left
        }
        let isDue = due + input.spec.delay(input.id, due) <= input.now
        guard isDue else { return settle(due, input) }
        guard input.hasUnfinished, input.spec.overlap != .allow else {
            submits = due
            return settle(input.recurrence.next(after: due), input)
        }
        if input.spec.overlap == .skip {
            skippedCount += 1
            return settle(input.recurrence.next(after: due), input)
        }
        cancelsPrevious = input.spec.overlap == .cancelPrevious
        next = due
        isHeld = true
        nextRunAt = input.now + (cancelsPrevious ? Self.cancelSeconds : Self.queueSeconds)
    }

    private mutating func settle(_ occurrence: Timestamp?, _ input: Input) {
        next = occurrence
        nextRunAt = occurrence.map { $0 + input.spec.delay(input.id, $0) }
        // What has become due while another one waited has waited too.
        isHeld = input.isHeld && nextRunAt.map { $0 <= input.now } ?? false
    }

    /// The occurrence that is left of those that may have been missed; nil: none, now or later.
    private mutating func catchUp(_ input: Input) -> Timestamp? {
        let due = input.scheduledAt
        // With jitter, none before this moment can still be on time.
        let late = input.now + -(Limits.scheduleGraceSeconds + input.spec.jitter)
        guard due < late else { return due }
        let before = Timestamp(microseconds: due.microseconds - 1)
        let left: Timestamp?
        switch input.spec.missed {
        case .skip: left = input.recurrence.next(after: Timestamp(microseconds: late.microseconds - 1))
        case .runOnce:
            // By rules that have changed since, there may be none: what was next stays.
            left = input.recurrence.latest(through: input.now, after: before) ?? due
        case .runAll:
            let oldest = input.now + -Limits.scheduleCatchUpSeconds
            left = due >= oldest ? due : input.recurrence.next(after: oldest)
        }
        missedCount = input.recurrence.count(after: before, before: min(left ?? input.now, input.now))
        return left
    }

    /// The occurrence whose turn it is, and how many are dropped before it; nil: none is left, now or later.
    private static func afterWaiting(_ input: Input) -> (Timestamp?, Int) {
        let due = input.scheduledAt
        var left: Timestamp? = due
        switch input.spec.overlap {
        case .queue, .allow:
            // A schedule whose client has said meanwhile that none has to wait lets all of them go.
            let oldest = input.now + -Limits.scheduleCatchUpSeconds
            if due < oldest { left = input.recurrence.next(after: oldest) }
        case .skip, .cancelPrevious:
            // Each would cancel the one before: the latest takes the place of all.
            left = input.recurrence.latest(through: input.now, after: due) ?? due
        }
        guard left != due else { return (due, 0) }
        let before = Timestamp(microseconds: due.microseconds - 1)
        // By rules that have changed since, what was due may be none; it is dropped all the same.
        return (left, max(1, input.recurrence.count(after: before, before: left ?? input.now)))
    }
}
