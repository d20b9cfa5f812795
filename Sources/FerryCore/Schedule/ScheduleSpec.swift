/// The configuration of an accepted schedule: every field with its effective value.
public struct ScheduleSpec: FieldObject {
    public static let summary = "A rule that submits jobs repeatedly."
    public static let schemaName = "ScheduleSpec"

    /// Treatment of occurrences that no node submitted in time.
    public enum Missed: String, FieldChoice {
        case skip
        case runOnce = "run_once"
        case runAll = "run_all"
    }

    /// Treatment of an occurrence while a job of an earlier one is unfinished.
    public enum Overlap: String, FieldChoice {
        case allow, skip
        case cancelPrevious = "cancel_previous"
        case queue
    }

    /// Rule of the occurrences.
    public enum Pattern: Sendable, Equatable {
        case cron(CronExpression)
        /// Seconds of real time.
        case interval(Double)
    }

    /// Text of the client, or `nil`.
    public var description: String?
    /// Rule of the occurrences.
    public var pattern: Pattern {
        get { cron.map(Pattern.cron) ?? .interval(interval ?? 0) }
        set {
            switch newValue {
            case .cron(let expression): (cron, interval) = (expression, nil)
            case .interval(let seconds): (cron, interval) = (nil, seconds)
            }
        }
    }
    private var cron: CronExpression?
    private var interval: Double?
    /// IANA name of the time zone of `cron`.
    public var timeZone = "UTC"
    /// First and last possible occurrence, or `nil`.
    public var startAt: Timestamp?
    public var endAt: Timestamp?
    /// Largest random delay of a run in seconds.
    public var jitter = 0.0
    /// Treatment of occurrences that no node submitted in time.
    public var missed = Missed.runOnce
    /// Treatment of an occurrence while a job of an earlier one is unfinished.
    public var overlap = Overlap.allow
    /// `false` if the schedule submits no jobs.
    public var isEnabled = true

    /// Creates a schedule without occurrences.
    public init() {}

    /// Returns the occurrences, or `nil` if this node does not know the time zone.
    public func recurrence(_ zones: some TimeZoneSource, createdAt: Timestamp) -> Recurrence? {
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
    public func delay(_ id: ScheduleID, _ occurrence: Timestamp) -> Double {
        guard jitter > 0 else { return 0 }
        // SplitMix64
        var word = id.high ^ id.low ^ UInt64(bitPattern: occurrence.microseconds)
        word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
        return jitter * Double((word ^ word >> 31) >> 11) / 0x1p53
    }
}

// MARK: Fields

extension ScheduleSpec {
    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "description", &description, .description, .plain,
            "Text of the client: at most 1,024 bytes of UTF-8 without U+0000.")
        visitor.field(
            "cron", &cron, .plain,
            "Minute, hour, day of the month, month and day of the week, as in crontab(5); also L (the last "
                + "day of the month), L-2, 5L (the last Friday) and 5#3 (the third), and @yearly, @monthly, "
                + "@weekly, @daily and @hourly. By the wall clock of time_zone. Either this or interval.")
        visitor.field(
            "interval", &interval, 1...31_536_000, .of(unit: .seconds),
            "Real time between occurrences, counted from start_at or, without it, from the creation.")
        visitor.field(
            "time_zone", &timeZone, TextRule(1...Limits.timeZoneByteCountMax, pattern: nil), .plain,
            "Time zone of cron: an IANA name such as Europe/Berlin.")
        visitor.field("start_at", &startAt, .plain, "First possible occurrence.")
        visitor.field("end_at", &endAt, .plain, "Last possible occurrence.")
        visitor.field(
            "jitter", &jitter, 0...Limits.scheduleJitterSecondsMax, .of(unit: .seconds),
            "Largest random delay of each run.")
        visitor.field(
            "missed", &missed, .plain,
            "What happens to occurrences that no node submitted for a minute: none is submitted later, one "
                + "run stands for all, or each of the last day is submitted.")
        visitor.field(
            "overlap", &overlap, .plain,
            "What happens to an occurrence while an earlier one's job is unfinished: both run, it is "
                + "skipped, the earlier job is cancelled, or it runs afterwards.")
        visitor.field("enabled", &isEnabled, .plain, "Whether the schedule submits jobs.")
    }

    public mutating func check(_ body: FieldDecoder) {
        if body.hasValue("cron"), body.hasValue("interval") {
            body.fail("interval", "invalid_combination", "A schedule has cron or interval, not both.")
        } else if cron == nil, interval == nil, !body.hasValue("cron"), !body.hasValue("interval") {
            body.fail("cron", "required", "A schedule needs cron or interval.")
        }
        if let startAt, let endAt, endAt < startAt {
            body.fail("end_at", "invalid_combination", "This must not be before start_at.")
        }
    }

    /// Reports a time zone that this node does not know, and a schedule without occurrences.
    func check(_ zones: some TimeZoneSource, now: Timestamp, _ errors: ValidationErrors) {
        if zones.rules(named: timeZone) == nil {
            errors.add(
                "#/time_zone", "invalid_value",
                "There is no time zone of this name, such as Europe/Berlin.")
        }
        guard errors.isEmpty, let recurrence = recurrence(zones, createdAt: now),
            recurrence.next(after: now) == nil
        else { return }
        errors.add("#/end_at", "invalid_combination", "There is no occurrence before this.")
    }

    /// Returns the stored form.
    public func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 320)
        writer.beginObject()
        writeFields(into: &writer, isRedacted: false)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encode` returned.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: try StoredObject(storedJSON))
        if cron == nil, interval == nil { throw StoredJSONError("interval") }
    }
}

extension CronExpression: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> CronExpression? {
        let lengths = TextRule(1...Limits.cronByteCountMax, pattern: nil) { _ in nil }
        guard let text = String.decode(json, lengths, place) else { return nil }
        do throws(Failure) {
            let expression = try CronExpression(text)
            return expression.canOccur
                ? expression : place.fail("invalid_value", "There is no such day, in any year.")
        } catch {
            return place.fail("invalid_value", error.message)
        }
    }
    public static func restore(_ json: JSON) -> CronExpression? {
        // Validated when the schedule was created; `nil` stands for any damage.
        json.string.flatMap { try? CronExpression($0) }
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(text) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        String.schema(TextRule(1...Limits.cronByteCountMax, pattern: nil)) + [.examples("0 22 * * *")]
    }
}
