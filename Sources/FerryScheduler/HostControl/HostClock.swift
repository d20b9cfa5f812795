package import FerryCore

extension HostControl {
    // MARK: The clock

    /// What is due. A probe is leased for `CircuitBreaker.probeLeaseSeconds` if the node `mayProbe`.
    package mutating func errands(at now: Timestamp, mayProbe: Bool = true) -> Errands {
        for scope in controls.keys {
            if let until = controls[scope]?.hold?.until, until <= now { controls[scope]?.hold = nil }
        }
        return Errands(probes: mayProbe && breaker.beginProbe(at: now), releases: breaker.release(at: now))
    }

    /// When a node has to look next; nil: with the next report.
    package func dueAt(_ now: Timestamp) -> Timestamp? {
        var looks = [breaker.dueAt, forgettingAt(now)]
        for (scope, control) in controls {
            looks.append(control.hold?.until)
            if control.silence != nil { looks.append(now + Self.silentLookSeconds) }
            if control.isLimited {
                let inFlight = windows(in: scope).reduce(0) { $0 + $1.inFlight }
                looks.append(now + (control.isAbove(inFlight) ? Self.lookSeconds : Self.idleSeconds))
            }
        }
        if windows.values.reduce(0, { $0 + $1.silent }) >= ScopeControl.Silence.countMin {
            looks.append(now + Self.silentLookSeconds)
        }
        if windows.values.reduce(0, { $0 + $1.tally.failed }) >= EvidenceWindow.failedCountMin {
            looks.append(now + Self.lookSeconds)
        }
        return looks.compactMap(\.self).min()
    }

    func forgettingAt(_ now: Timestamp) -> Timestamp? {
        guard settings == HostSettings(), breaker.unreachableSince == nil, breaker.releaseCount == 0 else {
            return nil
        }
        return max(min((lastReportAt ?? now) + Self.idleSeconds, healthyAt), now + 1)
    }

    var healthyAt: Timestamp {
        (lastTroubleAt ?? lastReportAt ?? .distantPast) + Self.healthySeconds
    }

    /// Whether nothing has to be remembered of the host.
    package func isForgettable(at now: Timestamp) -> Bool {
        guard settings == HostSettings(), breaker.unreachableSince == nil, breaker.releaseCount == 0,
            controls.values.allSatisfy({ !$0.isLimited && $0.hold == nil && $0.silence == nil })
        else { return false }
        return now - (lastReportAt ?? .distantPast) >= Self.idleSeconds || now >= healthyAt
    }

    mutating func forget(_ now: Timestamp) {
        controls = controls.filter { !$0.value.isForgettable(at: now) }
        windows = windows.filter { scope, window in
            window.inFlight > 0 || now - (window.lastUsedAt ?? .distantPast) <= Self.idleSeconds
        }
    }

    // MARK: Operators

    /// Takes other settings. `backoffUntil`: until when the operator holds the host; nil in it ends every
    /// hold.
    package mutating func configure(
        _ settings: HostSettings, backoffUntil: Timestamp??, now: Timestamp
    ) -> HostDecision? {
        let before = self
        self.settings = settings
        if let backoffUntil {
            for scope in controls.keys { controls[scope]?.hold = nil }
            if let backoffUntil {
                controls[.origin, default: ScopeControl()].hold = .init(until: backoffUntil, status: nil)
            }
        }
        guard self != before else { return nil }
        lastReportAt = now
        return HostDecision(
            at: now, kind: .configured, limitBefore: before.limit(of: .origin, at: now).connectionLimit,
            limitAfter: limit(of: .origin, at: now).connectionLimit,
            sentence: "An operator has changed the settings of this host.")
    }
}

// MARK: JSON

extension HostControl: CodedState {
    package var json: [UInt8] { StateCoder.write(self) }

    /// Reads `json`; nil if it is damaged.
    package init?(json bytes: [UInt8]) {
        guard let json = try? JSON.parse(bytes), json.members != nil else { return nil }
        self = StateCoder.read(json)
    }

    mutating func code(_ coder: inout StateCoder) {
        coder.value("settings", &settings)
        coder.value("breaker", &breaker)
        coder.value("windows", &windows)
        coder.value("controls", &controls)
        coder.value("last_take", &lastTakeAt)
        coder.value("last_look", &lastLookAt)
        coder.value("last_report", &lastReportAt)
        coder.value("last_trouble", &lastTroubleAt)
        coder.value("answered_per_second", &answeredPerSecond)
        coder.value("bytes_per_second", &bytesPerSecond)
        coder.value("measured", &measured)
    }
}

extension HostControl.Measure: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("start", &start)
        coder.value("answered", &answered)
        coder.value("bytes", &bytes)
    }
}

extension HostSettings: CodedState {
    mutating func code(_ coder: inout StateCoder) {
        coder.value("connections_min", &connectionsMin)
        coder.value("connections_max", &connectionsMax)
        coder.value("paused", &isPaused)
        coder.value("bytes_per_second_max", &bytesPerSecondMax)
        coder.value("requests_per_second_max", &requestsPerSecondMax)
    }
}
