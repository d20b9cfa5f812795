/// What part of a host's answers is trouble, and whether fewer at once make it less: a link that loses one in
/// twenty, or a gateway that answers 503 now and then, does so whatever is in flight, and is not helped by
/// being asked for one thing at a time (docs/decisions/0026).
///
/// A host that serves so many at once and fails the rest, less than half of what it gets, has no trouble with
/// half as many. So once a limit has come down that far the share of trouble there tells: if it is about the
/// same it is the host's own, what was in flight before comes back, and so much trouble is usual.
struct TroubleShare: Sendable, Equatable {
    struct Tally: Sendable, Equatable {
        var trouble = 0.0
        var total = 0.0

        /// Counting ends with the trouble that makes one look, so that one does not count (the estimate of
        /// the negative binomial distribution that is not biased: Haldane, 1945).
        var share: Double { total > 1 ? (trouble - 1) / (total - 1) : 1 }
    }
    /// How it was before the cuts that are being judged.
    struct Before: Sendable, Equatable {
        let tally: Tally
        /// The lowest limit then.
        let limit: Int
    }
    enum Verdict: Equatable {
        case cut
        /// The limit is low enough, and too little was seen yet.
        case wait
        /// Fewer were of no use: what was in flight before.
        case restore(Int)
    }

    var tally = Tally()
    /// What was in flight before the first cut that may be of no use.
    var start: Int?
    var before: Before?
    /// So large a part is trouble however much is in flight; nil: nobody knows.
    var usual: Double?

    /// Of this the older half is forgotten.
    private static let totalMax = 4_000.0
    /// Trouble that has to be seen before the cuts, and after them.
    private static let countMin = (before: 3.0, after: 4.0)
    /// Trouble that would have to be seen after cuts that were of no use, so that less of it says something.
    private static let expectedMin = 6.0
    /// The part of the share before that is still about the same.
    private static let sameness = 0.7

    mutating func add(trouble: Int, answered: Int) {
        tally.trouble += Double(trouble)
        tally.total += Double(trouble + answered)
        guard tally.total > Self.totalMax else { return }
        tally.trouble /= 2
        tally.total /= 2
    }

    /// Whether trouble that has come is no more than what is usual: twice the share, or half of the rest.
    var isUsual: Bool {
        guard let usual else { return false }
        return tally.trouble <= min(2 * usual, (1 + usual) / 2) * tally.total + 5
    }

    /// Trouble has come that would take a part of the limit.
    mutating func judge(limit: Int?, inFlight: Int) -> Verdict {
        usual = nil
        guard let limit else {
            // Nobody has watched before.
            self = TroubleShare()
            start = inFlight
            return .cut
        }
        guard let before else {
            start = start ?? limit
            guard tally.trouble >= Self.countMin.before else { return .cut }
            if tally.share < 0.5 { self.before = Before(tally: tally, limit: limit) } else { start = nil }
            tally = Tally()
            return .cut
        }
        guard isLow(limit) else { return .cut }
        let same = Self.sameness * before.tally.share
        if tally.trouble >= Self.countMin.after, tally.share >= same {
            let both = before.tally.total + tally.total - 2
            usual = (before.tally.trouble + tally.trouble - 2) / both
            tally = Tally()
            self.before = nil
            return .restore(start ?? before.limit)
        }
        guard same * tally.total >= Self.expectedMin else { return .wait }
        // It has helped.
        self = TroubleShare()
        start = limit
        return .cut
    }

    /// To be called after a cut.
    mutating func limitFell(from before: Int, to after: Int) {
        if isLow(after), !isLow(before) { tally = Tally() }
    }

    /// About half, or one by one: it cannot be fewer.
    private func isLow(_ limit: Int) -> Bool {
        before.map { limit <= 1 || limit * 20 <= $0.limit * 11 } ?? false
    }
}
