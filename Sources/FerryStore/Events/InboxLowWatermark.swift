/// Position up to which the inbox of events is empty for good.
///
/// Rows that the relay has taken stay as dead rows until vacuum removes them, which an open snapshot
/// prevents; each read of the inbox steps over them. Positions are drawn in order but committed in any order.
/// Once every transaction has ended that was writing shortly after a position was drawn, the rows up to that
/// position are in the inbox, taken, or will never come. If none is left in the inbox, the low watermark
/// rises to that position.
struct InboxLowWatermark {
    /// Parameters of has_events.sql.
    struct Question: Equatable {
        /// Position after which the inbox is read.
        let position: Int64
        /// Whether the read gets a transaction id, which counts as writing.
        let isNumbered: Bool
    }

    /// A row of has_events.sql.
    struct Look {
        /// First position in the inbox.
        var first: Int64?
        /// Last position that was drawn.
        var drawn: Int64
        /// Oldest transaction that may still commit, as of the snapshot of the read.
        var oldest: Int64
        /// Its own transaction id, if it has one.
        var number: Int64?
    }

    /// Nanoseconds: far more than the time between drawing a position and getting a transaction id.
    private static let drawing: Int64 = 500_000_000
    /// Nanoseconds between reads from the beginning, in case a process was suspended in between.
    private static let lifetime: Int64 = 60_000_000_000

    /// No row up to this position is in the inbox or will be.
    private(set) var position: Int64 = 0
    private var connection = 0
    private var nextWhole: Int64 = 0
    /// A position that was drawn at an instant and, once that is long enough ago, a transaction id: all older
    /// transactions have to end.
    private var candidate: (position: Int64, instant: Int64, number: Int64?)?

    /// Forgets everything if the connection is a new one. `count`: `ReconnectingConnection.connectionCount`.
    mutating func connected(_ count: Int) {
        if count != connection { self = InboxLowWatermark() }
        connection = count
    }

    /// Returns what to read next. `now`: monotonic nanoseconds.
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
