/// Up to which position the inbox of events is empty for good.
///
/// What the relay has taken leaves dead rows, which every look steps over until they are vacuumed; while
/// somebody keeps a snapshot open they stay. Positions are drawn in order but committed in any. What had been
/// drawn at some moment is in the inbox, taken, or will never come, as soon as every transaction that was
/// writing a little later has ended: then everything up to there, where no row is left, is below the floor.
struct InboxLowWatermark {
    /// What a look asks for.
    struct Question: Equatable {
        /// Behind which position.
        let position: Int64
        /// Whether it gets a transaction's number, which counts as writing.
        let isNumbered: Bool
    }

    /// A row of has_events.sql.
    struct Look {
        /// The first position that is in the inbox.
        var first: Int64?
        /// The last that was drawn.
        var drawn: Int64
        /// The oldest transaction that may still commit, in the look's eyes.
        var oldest: Int64
        /// Its own number, if it was to get one.
        var number: Int64?
    }

    /// Between drawing a position and becoming a transaction that others see: far less than this.
    private static let drawing: Int64 = 500_000_000
    /// Between looks from the beginning, in case a process slept in between.
    private static let lifetime: Int64 = 60_000_000_000

    /// Nothing up to here is in the inbox, nor will be.
    private(set) var position: Int64 = 0
    private var connection = 0
    private var nextWhole: Int64 = 0
    /// A position that had been drawn at an instant, and once that is long enough ago the number of a
    /// transaction before which all have to end.
    private var candidate: (position: Int64, instant: Int64, number: Int64?)?

    /// What is known holds for one connection: `count` is `ReconnectingConnection.connectionCount`.
    mutating func connected(_ count: Int) {
        if count != connection { self = InboxLowWatermark() }
        connection = count
    }

    /// What to ask next. `now`: monotonic nanoseconds.
    mutating func question(_ now: Int64) -> Question {
        let isWhole = now >= nextWhole
        if isWhole { nextWhole = now + Self.lifetime }
        let isNumbered = candidate.map { $0.number == nil && now - $0.instant >= Self.drawing } ?? false
        return Question(position: isWhole ? 0 : position, isNumbered: isNumbered)
    }

    mutating func note(_ look: Look, at now: Int64) {
        if let first = look.first { position = min(position, first - 1) }
        if let known = candidate {
            if known.number == nil { candidate?.number = look.number }
            guard let number = known.number, look.oldest > number,
                look.first.map({ $0 > known.position }) ?? true
            else { return }
            position = max(position, known.position)
            candidate = nil
        }
        if look.drawn > position { candidate = (look.drawn, now, nil) }
    }
}
