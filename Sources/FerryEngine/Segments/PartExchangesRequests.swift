import FerryCore

/// Choice of requests and sources.
extension PartExchanges {
    /// Sends requests on all free connections, as far as there are bytes worth a request.
    func fill() {
        // A request that fails at once calls `fill` again.
        guard !isFilling else {
            mustFillAgain = true
            return
        }
        isFilling = true
        defer { isFilling = false }
        repeat {
            mustFillAgain = false
            if isFetching { fillOnce() }
        } while mustFillAgain
        giveBackSpares()
    }

    private func fillOnce() {
        guard target != nil else {
            if parts.isEmpty { askLead() }
            return
        }
        if plan?.isComplete ?? false { return complete() }
        var isHeld = false
        if asksForRanges { isHeld = askForRanges() }
        guard parts.isEmpty, isFetching, !mustFillAgain else { return }
        if isHeld { waitForHosts() } else if rangesAreRefused { askLead() } else { restart() }
    }

    /// Sends the first request, for the whole file. If parts are wanted, as a range, so that the response
    /// tells whether the server serves ranges. The bytes that are there stay until it has responded.
    private func askLead() {
        var closed: Set<Int> = []
        while let lead = sources.lead(except: closed) {
            guard let origin = connect(to: lead) else {
                closed.insert(lead)
                continue
            }
            let isPlain = attempt.spec.segmentCountMax == 1 || sources[lead].isAskedPlainly
            return makePart(lead, origin).begin(isPlain ? nil : 0..<Int64.max)
        }
        if closed.isEmpty { giveUp() } else { waitForHosts() }
    }

    /// Returns `true` if a source was left out because its host may not be used now.
    private func askForRanges() -> Bool {
        var made: [SegmentPart] = []
        var closed: Set<Int> = []
        while parts.count < attempt.spec.segmentCountMax, isWorthAPart,
            let source = sources.forRange(running: runningBySource, lead: target?.lead, except: closed)
        {
            guard let origin = connect(to: source) else {
                closed.insert(source)
                continue
            }
            _ = plan?.begin(lastPart + 1, halfMin: { halfMin($0) })
            made.append(makePart(source, origin))
        }
        // All ranges are divided before the first request, so that no part requests bytes of another.
        for part in made {
            if let rest = plan?.rest(of: part.id) { part.begin(rest) }
        }
        return !closed.isEmpty
    }

    /// Whether bytes are left that are worth one more request.
    private var isWorthAPart: Bool {
        var trial = plan
        return trial?.begin(lastPart + 1, halfMin: { halfMin($0) }) != nil
    }

    private func makePart(_ source: Int, _ scope: RequestScope) -> SegmentPart {
        lastPart += 1
        let part = SegmentPart(lastPart, of: self, source: source, sources[source].hop)
        part.connection = scope
        parts[lastPart] = part
        return part
    }

    var runningBySource: [Int: Int] {
        parts.values.reduce(into: [:]) { $0[$1.source, default: 0] += 1 }
    }

    /// Returns how many bytes each half of a part's rest must have to be divided: what the part gets in a
    /// second, and at least a minimum.
    private func halfMin(_ id: SegmentPlan.Part) -> Int64 {
        guard let part = parts[id], part.hasBegun, part.pacing == nil else {
            return EngineLimits.partByteCountMin
        }
        let isLong = part.age(now: now) >= 1_000_000_000
        let least = isLong ? EngineLimits.slowPartByteCountMin : EngineLimits.partByteCountMin
        guard let time = part.receivingTime(now: now) else { return isLong ? least : .max }
        return max(least, part.receivedByteCount * 1_000 / max(1, time / 1_000_000))
    }
}
