/// Decision about a due schedule. A pure function of its input, so that all nodes decide alike.
public struct ScheduleDecision: Sendable, Equatable {
    /// State of a due schedule.
    public struct Input: Sendable {
        /// Identifier.
        public var id: ScheduleID
        /// Configuration.
        public var spec: ScheduleSpec
        /// Its occurrences.
        public var recurrence: Recurrence
        /// The occurrence that is due.
        public var scheduledAt: Timestamp
        /// `true` if the occurrence has waited for the end of an earlier job.
        public var isHeld: Bool
        /// `true` if a job of an earlier occurrence is unfinished.
        public var hasUnfinished: Bool
        /// Time of the last submission, or `nil` if there was none.
        public var lastRunAt: Timestamp?
        /// Current time.
        public var now: Timestamp

        /// Creates a state.
        public init(
            id: ScheduleID, spec: ScheduleSpec, recurrence: Recurrence, scheduledAt: Timestamp, isHeld: Bool,
            hasUnfinished: Bool, lastRunAt: Timestamp? = nil, now: Timestamp
        ) {
            self.id = id
            self.spec = spec
            self.recurrence = recurrence
            self.scheduledAt = scheduledAt
            self.isHeld = isHeld
            self.hasUnfinished = hasUnfinished
            self.lastRunAt = lastRunAt
            self.now = now
        }
    }

    /// The occurrence for which a job is submitted, or `nil`.
    public var submits: Timestamp?
    /// `true` if the unfinished jobs are cancelled.
    public var cancelsPrevious = false
    /// The next occurrence and the time of the next decision, or `nil` if there is none.
    public var next: Timestamp?
    public var nextRunAt: Timestamp?
    /// `true` if the next occurrence waits for the end of an earlier job.
    public var isHeld = false
    /// Number of occurrences that were dropped because no node submitted them in time, and because of an
    /// earlier job.
    public var missedCount = 0
    public var skippedCount = 0

    /// Seconds until the next decision about a waiting occurrence.
    private static let cancelSeconds = 0.5
    private static let queueSeconds = 0.05...2.0
    /// Part of the time since the last submission after which a queued occurrence is decided about again.
    private static let queuePart = 0.1

    /// Creates a decision to do nothing, without a next occurrence.
    public init() {}

    /// Decides.
    public init(_ input: Input) { decide(input) }

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
        nextRunAt = input.now + (cancelsPrevious ? Self.cancelSeconds : Self.queuePause(input))
    }

    /// Returns the seconds until the next decision about a queued occurrence. In proportion to the time that
    /// the earlier job has taken so far: the pause adds a tenth to a job at most, beyond the shortest pause.
    /// So a schedule that is behind catches up if its jobs are shorter than its interval, and long jobs need
    /// few decisions.
    private static func queuePause(_ input: Input) -> Double {
        guard let lastRunAt = input.lastRunAt else { return queueSeconds.upperBound }
        let pause = (input.now - lastRunAt) * queuePart
        return min(max(pause, queueSeconds.lowerBound), queueSeconds.upperBound)
    }

    private mutating func settle(_ occurrence: Timestamp?, _ input: Input) {
        next = occurrence
        nextRunAt = occurrence.map { $0 + input.spec.delay(input.id, $0) }
        // An occurrence that became due while another one waited has waited as well.
        isHeld = input.isHeld && nextRunAt.map { $0 <= input.now } ?? false
    }

    /// Returns the occurrence that remains of those that may have been missed, or `nil` if none does.
    private mutating func catchUp(_ input: Input) -> Timestamp? {
        let due = input.scheduledAt
        // With jitter, an occurrence from before this time cannot be on time.
        let late = input.now + -(Limits.scheduleGraceSeconds + input.spec.jitter)
        guard due < late else { return due }
        let before = Timestamp(microseconds: due.microseconds - 1)
        let left: Timestamp?
        switch input.spec.missed {
        case .skip: left = input.recurrence.next(after: Timestamp(microseconds: late.microseconds - 1))
        case .runOnce:
            // There may be none if the rules have changed since: then the stored one stays.
            left = input.recurrence.latest(through: input.now, after: before) ?? due
        case .runAll:
            let oldest = input.now + -Limits.scheduleCatchUpSeconds
            left = due >= oldest ? due : input.recurrence.next(after: oldest)
        }
        missedCount = input.recurrence.count(after: before, before: min(left ?? input.now, input.now))
        return left
    }

    /// Returns the occurrence that is next, and the number of those dropped before it; `nil` if none remains.
    private static func afterWaiting(_ input: Input) -> (Timestamp?, Int) {
        let due = input.scheduledAt
        var left: Timestamp? = due
        switch input.spec.overlap {
        case .queue, .allow:
            // If the client has meanwhile allowed overlap, all waiting occurrences are submitted.
            let oldest = input.now + -Limits.scheduleCatchUpSeconds
            if due < oldest { left = input.recurrence.next(after: oldest) }
        case .skip, .cancelPrevious:
            // Each would cancel the one before, so the latest one replaces all.
            left = input.recurrence.latest(through: input.now, after: due) ?? due
        }
        guard left != due else { return (due, 0) }
        let before = Timestamp(microseconds: due.microseconds - 1)
        // If the rules have changed since, the due occurrence may be none of them; it is dropped all the
        // same.
        return (left, max(1, input.recurrence.count(after: before, before: left ?? input.now)))
    }
}
