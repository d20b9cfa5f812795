/// The configuration of an accepted schedule: every field with its effective value.
package struct ScheduleSpec: Sendable, Equatable {
    /// What to do with occurrences that no node submitted in time.
    package enum Missed: String, Sendable, CaseIterable {
        case skip
        case runOnce = "run_once"
        case runAll = "run_all"
    }

    /// What to do with an occurrence while a job of an earlier one is unfinished.
    package enum Overlap: String, Sendable, CaseIterable {
        case allow, skip
        case cancelPrevious = "cancel_previous"
        case queue
    }

    /// Rule of the occurrences.
    package enum Pattern: Sendable, Equatable {
        case cron(CronExpression)
        /// Seconds of real time.
        case interval(Double)
    }

    /// Text of the client, or `nil`.
    package var description: String?
    /// Rule of the occurrences.
    package var pattern: Pattern
    /// IANA name of the time zone of `cron`.
    package var timeZone: String
    /// First and last possible occurrence, or `nil`.
    package var startAt: Timestamp?
    package var endAt: Timestamp?
    /// Largest random delay of a run in seconds.
    package var jitter: Double
    /// What to do with missed occurrences.
    package var missed: Missed
    /// What to do while an earlier job is unfinished.
    package var overlap: Overlap
    /// `false` if the schedule submits no jobs.
    package var isEnabled: Bool

    /// Returns the occurrences, or `nil` if this node does not know the time zone.
    package func recurrence(_ zones: some TimeZoneSource, createdAt: Timestamp) -> Recurrence? {
        switch pattern {
        case .interval(let seconds):
            return Recurrence(
                .interval(
                    Int64((seconds * 1_000_000).rounded()), anchor: startAt ?? createdAt,
                    includesAnchor: startAt != nil), startAt: startAt, endAt: endAt)
        case .cron(let expression):
            guard let rules = zones.rules(named: timeZone) else { return nil }
            return Recurrence(.cron(expression, rules), startAt: startAt, endAt: endAt)
        }
    }

    /// Returns the delay of an occurrence's run in seconds; always the same for one occurrence.
    package func delay(_ id: ScheduleID, _ occurrence: Timestamp) -> Double {
        guard jitter > 0 else { return 0 }
        // SplitMix64
        var word = id.high ^ id.low ^ UInt64(bitPattern: occurrence.microseconds)
        word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
        return jitter * Double((word ^ word >> 31) >> 11) / 0x1p53
    }
}

// MARK: JSON

extension ScheduleSpec {
    /// Writes all members as they are stored and shown into an open object.
    package func write(into writer: inout JSONWriter) {
        writer.memberOrNull("description", description)
        switch pattern {
        case .cron(let expression):
            writer.member("cron", expression.text)
            writer.name("interval")
            writer.null()
        case .interval(let seconds):
            writer.name("cron")
            writer.null()
            writer.member("interval", seconds)
        }
        writer.member("time_zone", timeZone)
        writer.memberOrNull("start_at", startAt)
        writer.memberOrNull("end_at", endAt)
        writer.member("jitter", jitter)
        writer.member("missed", missed.rawValue)
        writer.member("overlap", overlap.rawValue)
        writer.member("enabled", isEnabled)
    }

    /// Returns the stored form.
    package func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 320)
        writer.beginObject()
        write(into: &writer)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encode` returned.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) {
        let stored = try StoredObject(storedJSON)
        description = stored.string("description")
        if let text = stored.string("cron") {
            // Validated when the schedule was created; otherwise the row is damaged.
            pattern = .cron(try stored.need(try? CronExpression(text), "cron"))
        } else {
            pattern = .interval(try stored.need(stored.double("interval"), "interval"))
        }
        timeZone = try stored.need(stored.string("time_zone"), "time_zone")
        startAt = try stored.timestamp("start_at")
        endAt = try stored.timestamp("end_at")
        jitter = stored.double("jitter") ?? 0
        missed = try stored.need(stored.string("missed").flatMap(Missed.init), "missed")
        overlap = try stored.need(stored.string("overlap").flatMap(Overlap.init), "overlap")
        isEnabled = stored.bool("enabled")
    }

    /// Reads all members but `job` of an untrusted object; reports errors and returns `nil` if one is
    /// invalid.
    package init?(_ fields: inout FieldReader, _ zones: some TimeZoneSource, now: Timestamp) {
        let before = fields.errors.all.count
        description = JobDecoding.text(
            &fields, "description", byteCountMax: Limits.descriptionByteCountMax)
        let pattern = Self.pattern(&fields)
        timeZone = fields.string("time_zone", byteCounts: 1...Limits.timeZoneByteCountMax) ?? "UTC"
        startAt = fields.timestamp("start_at")
        endAt = fields.timestamp("end_at")
        jitter = fields.number("jitter", in: 0...Limits.scheduleJitterSecondsMax) ?? 0
        missed = fields.choice("missed", Missed.self) ?? .runOnce
        overlap = fields.choice("overlap", Overlap.self) ?? .allow
        isEnabled = fields.bool("enabled") ?? true
        if zones.rules(named: timeZone) == nil {
            fields.addError(
                "time_zone", "invalid_value", "There is no time zone of this name, such as Europe/Berlin.")
        }
        if let startAt, let endAt, endAt < startAt {
            fields.addError("end_at", "invalid_combination", "This must not be before start_at.")
        }
        guard let pattern, fields.errors.all.count == before else { return nil }
        self.pattern = pattern
        if let recurrence = recurrence(zones, createdAt: now), recurrence.next(after: now) == nil {
            fields.addError("end_at", "invalid_combination", "There is no occurrence before this.")
            return nil
        }
    }

    private static func pattern(_ fields: inout FieldReader) -> Pattern? {
        let cron = fields.string("cron", byteCounts: 1...Limits.cronByteCountMax, isNullable: true)
        let interval = fields.optionalNumber("interval", in: 1...31_536_000)
        switch (cron, interval) {
        case (let text?, nil):
            do throws(CronExpression.Failure) {
                let expression = try CronExpression(text)
                if expression.canOccur { return .cron(expression) }
                fields.addError("cron", "invalid_value", "There is no such day, in any year.")
            } catch {
                fields.addError("cron", "invalid_value", error.message)
            }
        case (nil, let seconds?): return .interval(seconds)
        case (_?, _?):
            fields.addError("interval", "invalid_combination", "A schedule has cron or interval, not both.")
        case (nil, nil):
            if !fields.hasValue("cron"), !fields.hasValue("interval") {
                fields.addError("cron", "required", "A schedule needs cron or interval.")
            }
        }
        return nil
    }
}
