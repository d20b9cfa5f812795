import FerryCore

extension HostCondition {
    /// A host that takes requests and answers none. Each of them holds what it has until it times out, so
    /// that hardly any more are begun there until somebody is answered (docs/decisions/0028).
    package struct Silence: Sendable, Equatable {
        /// Attempts at once, of all nodes together.
        package internal(set) var limit: Int
        var since: Timestamp
        /// When one more may find out whether it is only some requests that take long.
        var moreAt: Timestamp

        /// Attempts at once that may always be.
        static let limitMin = 4
        /// Seconds without any answer after which a host is silent, if so many attempts say so.
        static let seconds = 5.0
        package static let countMin = 3
        /// Seconds until one more may try.
        static let moreSeconds = 15.0
        /// Seconds until the next look.
        static let lookSeconds = 5.0
    }

    /// Whether that is what limits it.
    package var isHeldBySilence: Bool {
        silence.map { connectionLimit == settings.bounds.clamp($0.limit) } ?? false
    }

    /// Seconds without an answer that say nothing: of a host whose transfers take long more than of others.
    private var usualSilence: Double { max(Silence.seconds, 2 * controller.meanSeconds) }

    mutating func noteSilence(_ report: HostReport, _ inFlight: Int, _ now: Timestamp) -> HostDecision? {
        let before = connectionLimit
        let isAnswered = report.answered > 0 || report.throttled > 0 || unreachableSince != nil
        silentCount = (isAnswered ? 0 : silentCount) + report.silent
        if inFlight == 0 { silentCount = 0 }
        if var silence {
            guard isAnswered || inFlight == 0 else {
                if now >= silence.moreAt, inFlight >= silence.limit {
                    silence.limit = inFlight + 1
                    silence.moreAt = now + Silence.moreSeconds
                    self.silence = silence
                }
                return nil
            }
            self.silence = nil
            guard before != connectionLimit else { return nil }
            return HostDecision(
                at: now, kind: .released, limitBefore: before, limitAfter: connectionLimit,
                inFlight: inFlight,
                sentence: isAnswered
                    ? "The limit of \(silence.limit) is gone: it is not silent any more."
                    : "The limit of \(silence.limit) is gone: nobody waits for an answer any more.")
        }
        guard silentCount >= Silence.countMin, report.throttled == 0, unreachableSince == nil,
            lastAnsweredAt.map({ now - $0 > usualSilence }) ?? true
        else { return nil }
        let silence = Silence(
            limit: max(Silence.limitMin, inFlight + 1), since: now, moreAt: now + Silence.moreSeconds)
        self.silence = silence
        guard before != connectionLimit else { return nil }
        return HostDecision(
            at: now, kind: before == nil ? .limited : .lowered, limitBefore: before,
            limitAfter: connectionLimit, inFlight: inFlight,
            sentence: "Limited to \(silence.limit) with \(inFlight) in flight: nobody has been answered for "
                + "\(Int(Silence.seconds)) seconds.")
    }
}
