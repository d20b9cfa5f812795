package import FerryCore

extension HostControl {
    /// Returns why the scope is not normal, and how long or how much it is limited; `nil` if it is normal.
    package func reason(of scope: HostScope = .origin, at now: Timestamp) -> String? {
        let (control, limit, words) = (controls[scope], limit(of: scope, at: now), scope.words)
        switch state(of: scope, at: now) {
        case .normal: return nil
        case .paused: return "An operator has paused this host."
        case .unreachable:
            let code = breaker.unreachableCode ?? .couldNotConnect
            return
                "No connection to this host succeeds (\(code.rawValue)); one probe looks for all of its jobs."
        case .recovering: return "This host is reached again; the jobs that waited begin in growing numbers."
        case .backingOff:
            let until = limit.blockedUntil ?? now
            guard let status = control?.hold?.status else {
                return "An operator holds back all requests to this host until \(until)."
            }
            return
                "The host answered several jobs with status \(status) and Retry-After; \(words) wait until "
                + "\(until)."
        case .limited:
            guard let control, control.isLimited || control.silence != nil else {
                return "An operator has limited all requests to this host to \(limit.words)."
            }
            if let unanswered = control.silence, control.connectionLimit == unanswered.limit {
                return "The host takes requests and answers none; \(words) are limited to \(limit.words)."
            }
            return control.isUnanswered
                ? "The host answers none of \(words); these are limited to \(limit.words) until it does."
                : "The host failed too many of \(words); these are limited to \(limit.words), which it "
                    + "can answer."
        }
    }

    /// Returns the decision for a change of a level, or `nil` if the limit stays the same.
    func decision(
        _ change: ScopeControl.Change, of scope: HostScope, from before: HostLimit, _ now: Timestamp
    ) -> HostDecision? {
        let after = limit(of: scope, at: now)
        guard before != after else { return nil }
        let (old, new) = (before.words, after.words)
        var (kind, report, sentence) = (
            HostDecision.Kind.raised, ScopeReport(), "Raised from \(old) to \(new): "
        )
        switch change {
        case .decreased(let seen):
            (kind, report) = (before == HostLimit() ? .limited : .lowered, seen)
            let status = seen.throttleStatus.map { " (status \($0))" } ?? ""
            sentence =
                "\(kind == .limited ? "Limited to" : "Lowered from \(old) to") \(new): \(seen.throttled) of "
                + "\(seen.ended) responses asked to slow down\(status) and \(seen.lost) were lost, of "
                + "\(scope.words)."
        case .increased: sentence += "the host answers \(scope.words)."
        case .doubled: sentence += "slow start, twice as much each time."
        case .restored(let share):
            kind = .reverted
            let part = share.map { " (\(Int(($0 * 100).rounded(.up))) %)" } ?? ""
            sentence = "Back from \(old) to \(new): fewer of \(scope.words) failed as often\(part)."
        case .lifted(let reason):
            (kind, sentence) = (.released, "The limit of \(old) is gone: \(reason.rawValue).")
        }
        if before.connectionLimit == after.connectionLimit { kind = .paced }
        return decision(kind, of: scope, from: before, report: report, now, sentence)
    }
}

extension HostScope {
    /// Names the requests of the scope, for the tenant.
    var words: String {
        if isOrigin { return "the requests to this host" }
        guard !path.isEmpty else { return "this tenant's requests to this host" }
        let segment = path.prefix { $0 != "#" }
        return "this tenant's requests to \(segment.hasPrefix("/") ? "" : "/")\(segment) on this host"
    }
}

extension HostLimit {
    /// The limit in words: `10 at once and 20 a second`.
    var words: String {
        let parts = [
            connectionLimit.map { "\($0) at once" }, requestRate.map { "\(decimalText($0)) a second" },
        ]
        let words = parts.compactMap(\.self).joined(separator: " and ")
        return words.isEmpty ? "no limit" : words
    }
}

extension Double {
    /// The number with one decimal, without decimals from 10.
    var tenths: String { decimalText(self >= 10 ? rounded() : (self * 10).rounded() / 10) }
}
