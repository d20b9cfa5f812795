import FerryCore

// How a condition is kept: one JSON object, from which everything is absent that says nothing.

extension HostCondition {
    package var json: [UInt8] {
        var writer = ConditionWriter()
        writer.put("min", settings.connectionsMin)
        writer.put("max", settings.connectionsMax)
        writer.put("paused", settings.isPaused ? 1 : nil)
        writer.put("rate", settings.bytesPerSecondMax.map { Int($0) })
        writer.put("request_rate", settings.requestsPerSecondMax)
        writer.put("backoff_until", backoffUntil)
        writer.put("backoff_status", backoffStatus)
        writer.put("pauses", pauseCount == 0 ? nil : pauseCount)
        writer.put("unreachable_since", unreachableSince)
        writer.put("unreachable_code", unreachableCode?.rawValue)
        writer.put("probes", probeCount == 0 ? nil : probeCount)
        writer.put("next_probe", nextProbeAt)
        writer.put("release", releaseCount == 0 ? nil : releaseCount)
        writer.put("answered_since", hasAnsweredSince ? 1 : nil)
        writer.put("next_release", nextReleaseAt)
        writer.put("last_report", lastReportAt)
        writer.put("last_answer", lastAnsweredAt)
        writer.put("last_answer_by", lastAnsweredBy?.description)
        writer.put("failing_since", failingSince)
        writer.put("host_trouble", lastTroubleAt)
        writer.put("silent_count", silentCount == 0 ? nil : silentCount)
        silence?.write(into: &writer)
        controller.write(into: &writer)
        pace.write(into: &writer)
        return writer.finished
    }

    /// Reads `json`; nil when it is damaged.
    package init?(json bytes: [UInt8]) {
        guard let json = try? JSON.parse(bytes), json.members != nil else { return nil }
        let reader = ConditionReader(json: json)
        settings.connectionsMin = reader.integer("min")
        settings.connectionsMax = reader.integer("max")
        settings.isPaused = reader.integer("paused") == 1
        settings.bytesPerSecondMax = reader.integer("rate").map { Int64($0) }
        settings.requestsPerSecondMax = reader.number("request_rate")
        backoffUntil = reader.instant("backoff_until")
        backoffStatus = reader.integer("backoff_status")
        pauseCount = reader.integer("pauses") ?? 0
        unreachableSince = reader.instant("unreachable_since")
        unreachableCode = json["unreachable_code"]?.string.flatMap(TransferError.Code.init)
        probeCount = reader.integer("probes") ?? 0
        nextProbeAt = reader.instant("next_probe")
        releaseCount = reader.integer("release") ?? 0
        hasAnsweredSince = reader.integer("answered_since") == 1
        nextReleaseAt = reader.instant("next_release")
        lastReportAt = reader.instant("last_report")
        lastAnsweredAt = reader.instant("last_answer")
        lastAnsweredBy = json["last_answer_by"]?.string.flatMap { NodeID($0) }
        failingSince = reader.instant("failing_since")
        lastTroubleAt = reader.instant("host_trouble")
        silentCount = reader.integer("silent_count") ?? 0
        silence = Silence(reader)
        controller = ConcurrencyController(reader)
        pace = RequestPace(reader)
    }
}

extension HostCondition.Silence {
    fileprivate func write(into writer: inout ConditionWriter) {
        writer.put("silent_limit", limit)
        writer.put("silent_since", since)
        writer.put("silent_more_at", moreAt)
    }

    fileprivate init?(_ reader: ConditionReader) {
        guard let limit = reader.integer("silent_limit"), let since = reader.instant("silent_since"),
            let moreAt = reader.instant("silent_more_at")
        else { return nil }
        self.init(limit: limit, since: since, moreAt: moreAt)
    }
}

extension ConcurrencyController {
    fileprivate func write(into writer: inout ConditionWriter) {
        writer.put("mean_seconds", meanSeconds == 0 ? nil : meanSeconds)
        writer.put("connect_seconds", connectSeconds)
        writer.put("answered_rate", answeredPerSecond)
        writer.put("bytes_rate", bytesPerSecond)
        writer.put("limit", limit)
        writer.put("threshold", threshold == 0 ? nil : threshold)
        writer.put("ceiling", ceiling)
        writer.put("peak", peak == 0 ? nil : peak)
        writer.put("last_trouble", lastTrouble)
        writer.put("last_cut", lastCut)
        writer.put("last_saturated", lastSaturated)
        writer.put("hold_until", holdUntil)
        writer.put("hold_seconds", holdSeconds == Self.holdSecondsMin ? nil : holdSeconds)
        if let window {
            writer.put("window", window.start)
            writer.put("window_answered", window.answered)
            writer.put("window_bytes", Int(window.bytes))
            writer.put("window_lost", window.lost)
            writer.put("window_in_flight", window.inFlightMax)
        }
        writer.put("trouble", troubleShare.tally.trouble == 0 ? nil : troubleShare.tally.trouble)
        writer.put("trouble_of", troubleShare.tally.total == 0 ? nil : troubleShare.tally.total)
        writer.put("trouble_start", troubleShare.start)
        writer.put("before_trouble", troubleShare.before?.tally.trouble)
        writer.put("before_of", troubleShare.before?.tally.total)
        writer.put("before_limit", troubleShare.before?.limit)
        writer.put("usual_trouble", troubleShare.usual)
        if let base {
            writer.put("base_limit", base.limit)
            writer.put("base_answered", base.answeredPerSecond)
            writer.put("base_bytes", base.bytesPerSecond)
            writer.put("base_size", base.meanSize)
        }
    }

    fileprivate init(_ reader: ConditionReader) {
        meanSeconds = reader.number("mean_seconds") ?? 0
        connectSeconds = reader.number("connect_seconds")
        answeredPerSecond = reader.number("answered_rate")
        bytesPerSecond = reader.number("bytes_rate")
        limit = reader.integer("limit")
        threshold = reader.integer("threshold") ?? 0
        ceiling = reader.integer("ceiling")
        peak = reader.integer("peak") ?? 0
        lastTrouble = reader.instant("last_trouble")
        lastCut = reader.instant("last_cut")
        lastSaturated = reader.instant("last_saturated")
        holdUntil = reader.instant("hold_until")
        holdSeconds = reader.number("hold_seconds") ?? Self.holdSecondsMin
        if let start = reader.instant("window") {
            window = Window(
                start: start, answered: reader.integer("window_answered") ?? 0,
                bytes: Int64(reader.integer("window_bytes") ?? 0), lost: reader.integer("window_lost") ?? 0,
                inFlightMax: reader.integer("window_in_flight") ?? 0)
        }
        troubleShare.tally.trouble = reader.number("trouble") ?? 0
        troubleShare.tally.total = reader.number("trouble_of") ?? 0
        troubleShare.usual = reader.number("usual_trouble")
        troubleShare.start = reader.integer("trouble_start")
        if let trouble = reader.number("before_trouble"), let total = reader.number("before_of"),
            let limit = reader.integer("before_limit")
        {
            troubleShare.before = .init(tally: .init(trouble: trouble, total: total), limit: limit)
        }
        if let limit = reader.integer("base_limit"), let answered = reader.number("base_answered"),
            let bytes = reader.number("base_bytes"), let size = reader.number("base_size")
        {
            base = Level(
                limit: limit, answeredPerSecond: answered, bytesPerSecond: bytes, meanSize: size)
        }
    }
}

extension RequestPace {
    fileprivate func write(into writer: inout ConditionWriter) {
        writer.put("pace", rate)
        writer.put("pace_step", step == Self.stepMax ? nil : step)
        writer.put("pace_hold_until", holdUntil)
        writer.put("pace_hold_seconds", holdSeconds == Self.holdSecondsMin ? nil : holdSeconds)
        writer.put("pace_ceiling", ceiling)
        writer.put("pace_usual_share", usualShare == 0 ? nil : usualShare)
        writer.put("pace_before_silence", rateBeforeSilence)
        writer.put("pace_needed", lastNeeded)
        writer.put("pace_useless_until", uselessUntil)
        writer.put("pace_report", lastReportAt)
        if let window {
            writer.put("pace_window", window.start)
            writer.put("pace_answered", window.seen.answered)
            writer.put("pace_refused", window.seen.refused)
            writer.put("pace_seconds", window.seconds)
            writer.put("pace_paused", window.paused)
            writer.put("pace_pauses", window.pauseCount)
        }
        if let fall {
            writer.put("pace_before", fall.rate)
            fall.until.write("pace_until", into: &writer)
            fall.since.write("pace_since", into: &writer)
        }
    }

    fileprivate init(_ reader: ConditionReader) {
        self.init(rate: reader.number("pace"))
        step = reader.number("pace_step") ?? Self.stepMax
        holdUntil = reader.instant("pace_hold_until")
        holdSeconds = reader.number("pace_hold_seconds") ?? Self.holdSecondsMin
        ceiling = reader.number("pace_ceiling")
        usualShare = reader.number("pace_usual_share") ?? 0
        rateBeforeSilence = reader.number("pace_before_silence")
        lastNeeded = reader.instant("pace_needed")
        uselessUntil = reader.instant("pace_useless_until")
        lastReportAt = reader.instant("pace_report")
        if let start = reader.instant("pace_window") {
            window = Window(
                start: start,
                seen: .init(
                    answered: reader.integer("pace_answered") ?? 0,
                    refused: reader.integer("pace_refused") ?? 0),
                seconds: reader.number("pace_seconds") ?? 0,
                paused: reader.number("pace_paused") ?? 0,
                pauseCount: reader.integer("pace_pauses") ?? 0)
        }
        if let rate = reader.number("pace_before") {
            fall = Fall(
                rate: rate, until: Record("pace_until", reader), since: Record("pace_since", reader))
        }
    }
}

extension RequestPace.Record {
    fileprivate func write(_ name: String, into writer: inout ConditionWriter) {
        writer.put(name + "_answered", seen.answered)
        writer.put(name + "_refused", seen.refused)
        writer.put(name + "_seconds", seconds)
    }

    fileprivate init(_ name: String, _ reader: ConditionReader) {
        seen.answered = reader.integer(name + "_answered") ?? 0
        seen.refused = reader.integer(name + "_refused") ?? 0
        seconds = reader.number(name + "_seconds") ?? 0
    }
}

private struct ConditionWriter {
    private var writer = JSONWriter(reservingCapacity: 512)

    init() { writer.beginObject() }

    mutating func put(_ name: String, _ value: Int?) { if let value { writer.member(name, value) } }
    mutating func put(_ name: String, _ value: Double?) {
        if let value, value.isFinite { writer.member(name, value) }
    }
    mutating func put(_ name: String, _ value: String?) { if let value { writer.member(name, value) } }
    /// Microseconds.
    mutating func put(_ name: String, _ value: Timestamp?) { put(name, value.map { Int($0.microseconds) }) }

    var finished: [UInt8] {
        var writer = writer
        writer.endObject()
        return writer.bytes
    }
}

private struct ConditionReader {
    let json: JSON

    func integer(_ name: String) -> Int? { json[name]?.integer.map { Int($0) } }
    func number(_ name: String) -> Double? { json[name]?.double }
    func instant(_ name: String) -> Timestamp? {
        json[name]?.integer.map { Timestamp(microseconds: $0) }
    }
}
