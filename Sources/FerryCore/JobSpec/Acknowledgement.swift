/// Rules of `acknowledgement`: a finished job and the data that Ferry stores for it stay until a client
/// acknowledges the result, as a BITS job stays in `TRANSFERRED` until `Complete`.
public struct AcknowledgementRules: Sendable, Equatable {
    /// Actor that may acknowledge a job.
    public enum Source: String, FieldChoice {
        /// Only clients, by `POST /v1/jobs/{id}/acknowledge`.
        case client
        /// Also a receiver, by accepting the event of the job's end or a reminder.
        case webhook
    }

    /// Times of the event `job.unacknowledged`.
    public struct Reminders: Sendable, Equatable {
        /// Number of reminders; 0 for none.
        public var countMax = 20
        /// Seconds from the job's end to the first reminder.
        public var delayInitial = 600.0
        /// Factor by which the delay grows with each reminder.
        public var multiplier = 2.0
        /// Longest delay between two reminders, in seconds.
        public var delayMax = 86_400.0
        /// Creates the default reminders.
        public init() {}
    }

    /// Actor that may acknowledge the job.
    public var by = Source.client
    /// Seconds after the job's end at which the wait for an acknowledgement ends.
    public var timeout = 1_209_600.0
    /// Times of the reminders.
    public var reminders = Reminders()
    /// The endpoint that requires the acknowledgement and gets the reminders, or `nil` if the job or its
    /// session requires it. Set for finished jobs only.
    public var endpoint: WebhookID?
    /// Creates the default rules.
    public init() {}

    /// Events that the job's own webhook gets besides `EventType.standard` if it names none.
    public static let events: [EventType] = [.jobUnacknowledged, .jobAcknowledgementExpired]
}

extension JobSpec {
    /// Rules of acknowledgement, or `nil` if the job is deleted after its retention.
    public var acknowledgement: AcknowledgementRules? {
        get { boxedAcknowledgement?.value }
        set { boxedAcknowledgement = newValue.map(Boxed.init) }
    }
}

extension AcknowledgementRules: FieldObject {
    public static let summary =
        "The finished job and the data that Ferry stores for it stay until a client acknowledges the result, "
        + "whatever the retention; the retention begins then."
    public static let schemaName = "AcknowledgementRules"

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "by", &by, .plain,
            "Who may acknowledge. webhook: also a receiver, by accepting the event of the job's end or a "
                + "reminder; if an endpoint requires the acknowledgement, only its own receiver.")
        visitor.field(
            "timeout", &timeout, 1...Limits.acknowledgementSecondsMax, .of(unit: .seconds),
            "Time after the job's end at which the wait for an acknowledgement ends.")
        visitor.object("reminders", &reminders, .plain, "Times of the event job.unacknowledged.")
        visitor.field(
            "endpoint", &endpoint, .of(isShownOnly: true),
            "The endpoint of /v1/webhooks that requires the acknowledgement; absent if the job or its "
                + "session does.")
    }
}

extension AcknowledgementRules.Reminders: FieldObject {
    public static let summary = "Times of the event job.unacknowledged."
    public static let schemaName = "Reminders"

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "max_count", &countMax, 0...Int(Limits.reminderCountMax), .plain,
            "Number of reminders; 0 for none.")
        visitor.field(
            "initial_delay", &delayInitial, 1...Limits.reminderDelayMax, .of(unit: .seconds),
            "Time from the job's end to the first reminder.")
        visitor.field(
            "multiplier", &multiplier, 1...10, .plain,
            "Factor by which the delay grows with each reminder.")
        visitor.field(
            "max_delay", &delayMax, 1...Limits.reminderDelayMax, .of(unit: .seconds),
            "Longest delay between two reminders; not below initial_delay.")
    }

    public mutating func check(_ body: FieldDecoder) {
        guard delayMax < delayInitial else { return }
        if body.isGiven("max_delay") {
            body.fail("max_delay", "invalid_combination", "This must not be below initial_delay.")
        }
        delayMax = delayInitial
    }
}

/// Choices of a job about its acknowledgement.
enum AcknowledgementChoice: FieldValue {
    /// It needs none.
    case none
    /// It needs none, even for an endpoint that requires it.
    case declined
    case required(AcknowledgementRules)

    init(_ spec: JobSpec) {
        if let rules = spec.acknowledgement {
            self = .required(rules)
        } else {
            self = spec.declinesAcknowledgement ? .declined : .none
        }
    }

    func apply(to spec: inout JobSpec) {
        guard self != AcknowledgementChoice(spec) else { return }
        spec.declinesAcknowledgement = self == .declined
        if case .required(let rules) = self {
            spec.acknowledgement = rules
        } else {
            spec.acknowledgement = nil
        }
    }

    static var isNullable: Bool { true }
    var isLeftOut: Bool { self == .none }

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        if json.isNull { return AcknowledgementChoice.none }
        if json.bool == false { return .declined }
        var rules = AcknowledgementRules()
        FieldDecoder.decode(json, into: &rules, at: place.pointer, .new, place.context)
        return .required(rules)
    }
    static func restore(_ json: JSON) -> Self? {
        if json.isNull { return AcknowledgementChoice.none }
        if json == .bool(false) { return .declined }
        // `nil` stands for any damage.
        return (try? AcknowledgementRules(restoring: StoredObject(json))).map(Self.required)
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        switch self {
        case .none: writer.null()
        case .declined: writer.value(false)
        case .required(let rules):
            writer.beginObject()
            rules.writeFields(into: &writer, isRedacted: isRedacted)
            writer.endObject()
        }
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member(
                "oneOf",
                .array([
                    .object(JSON.rules(#"{"type": "boolean", "not": {"enum": [true]}}"#)),
                    .object([JSON.Member("$ref", "#/components/schemas/AcknowledgementRulesInput")]),
                ]))
        ]
    }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member(
                "oneOf",
                .array([
                    .object([JSON.Member("type", "boolean")]),
                    .object([JSON.Member("$ref", "#/components/schemas/AcknowledgementRules")]),
                ]))
        ]
    }
}

// MARK: Encoding

extension AcknowledgementRules {
    /// Writes the member `acknowledgement`.
    func write(into writer: inout JSONWriter) {
        writer.name("acknowledgement")
        writeObject(into: &writer)
    }

    /// Returns the JSON that is stored for jobs that wait for an acknowledgement and for endpoints that
    /// require one.
    public func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 160)
        writeObject(into: &writer)
        return writer.bytes
    }

    private func writeObject(into writer: inout JSONWriter) {
        writer.beginObject()
        writeFields(into: &writer, isRedacted: false)
        writer.endObject()
    }

    /// Reads what `encode` returned.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: try StoredObject(storedJSON))
    }
}

extension JobSpec {
    /// Events of the job's own webhook as a bit set, or `nil` if it has none.
    public var wantedEvents: Int32? { webhook?.events.mask }
}
