import FerryCore

extension ScopeControl {
    /// Nothing begins until then. `status`: of the responses that asked for it; nil: an operator did.
    struct Hold: Sendable, Equatable {
        var until: Timestamp?
        var status: Int?
    }
    /// The limit of a host that takes requests and answers none (docs/decisions/0028).
    struct Silence: Sendable, Equatable {
        var limit = Self.limitMin
        /// When one more may find out whether only some requests take long.
        var moreAt: Timestamp?

        static let limitMin = 4
        /// Seconds without an answer, and attempts that say so.
        static let seconds = 5.0
        static let countMin = 3
        static let moreSeconds = 15.0
    }
    /// The level that slow start doubles up to.
    struct SlowStart: Sendable, Equatable {
        var window = 1
        /// Nil: there was no rate.
        var rate: Double?
        /// Whether there was a limit before. Without one none remains.
        var isLimitedAfter = false
        /// Nothing is answered yet.
        var isUnanswered = false
    }
    /// The part of a level.
    enum Part: String {
        case window, rate

        var other: Part { self == .window ? .rate : .window }
    }
    /// What was seen before a decrease, and the level then, to compare: failures that fewer requests do not
    /// make rarer are usual (docs/decisions/0026).
    struct Baseline: Sendable, Equatable {
        var share = 0.0
        var odds = 0.0
        var window = 1
        var rate = 0.0
        /// What was decreased; nil: both.
        var part: Part?
        /// The rate was decreased before, and that did not help.
        var isSecond = false
        /// Since the decrease.
        var after = Tally()
    }
}

extension ScopeControl.Hold: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("until", &until)
        coder.value("status", &status)
    }
}

extension ScopeControl.Silence: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("limit", &limit, unless: Self.limitMin)
        coder.value("more_at", &moreAt)
    }
}

extension ScopeControl.SlowStart: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("window", &window, unless: 1)
        coder.value("rate", &rate)
        coder.value("limited_after", &isLimitedAfter)
        coder.value("unanswered", &isUnanswered)
    }
}

extension ScopeControl.Baseline: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("share", &share)
        coder.value("odds", &odds)
        coder.value("window", &window, unless: 1)
        coder.value("rate", &rate)
        coder.value("part", &part)
        coder.value("second", &isSecond)
        coder.value("after", &after)
    }
}
