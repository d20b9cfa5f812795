/// Types of events; the raw value is the name in the API.
public enum EventType: String, Sendable, CaseIterable {
    case jobCreated = "job.created"
    /// The first attempt has begun.
    case jobStarted = "job.started"
    /// Sent once per job.
    case jobWaitingForConnectivity = "job.waiting_for_connectivity"
    case jobWillBegin = "job.will_begin"
    case jobChallenge = "job.challenge"
    case jobRedirect = "job.redirect"
    /// The URL or the credential is outdated.
    case jobURLExpired = "job.url_expired"
    /// A download has resumed from existing bytes, or begins at 0 because they could not be used.
    case jobResumedAtOffset = "job.resumed_at_offset"
    /// Also sent for the last attempt of a job that fails.
    case jobAttemptFailed = "job.attempt_failed"
    case jobSucceeded = "job.succeeded"
    case jobFailed = "job.failed"
    case jobCancelled = "job.cancelled"
    /// Reminder of a finished job that has not been acknowledged.
    case jobUnacknowledged = "job.unacknowledged"
    case jobAcknowledged = "job.acknowledged"
    /// The acknowledgement has not come in time; the job is deleted after its retention.
    case jobAcknowledgementExpired = "job.acknowledgement_expired"
    /// The session has no unfinished jobs, and its earlier events were delivered or their deliveries have
    /// failed.
    case sessionEventsFinished = "session.events_finished"
    case sessionInvalidated = "session.invalidated"
    /// Ferry has disabled an endpoint because its receiver is gone or has failed for too long.
    case webhookDisabled = "webhook.disabled"
    /// A closed group has no unfinished job.
    case groupFinished = "group.finished"
    /// No connection to a host succeeds any more.
    case hostUnreachable = "host.unreachable"
    /// A host that was unreachable has answered.
    case hostRecovered = "host.recovered"

    /// Events of a webhook that names none.
    public static let standard: [EventType] = [
        .jobSucceeded, .jobFailed, .jobCancelled, .jobWaitingForConnectivity,
    ]

    /// Code in rows and in sets of types, where it is the number of a bit. Stable; SQL uses the same numbers.
    public var code: UInt8 {
        switch self {
        case .jobCreated: 1
        case .jobStarted: 2
        case .jobWaitingForConnectivity: 3
        case .jobWillBegin: 4
        case .jobChallenge: 5
        case .jobRedirect: 6
        case .jobResumedAtOffset: 7
        case .jobAttemptFailed: 8
        case .jobSucceeded: 9
        case .jobFailed: 10
        case .jobCancelled: 11
        case .sessionEventsFinished: 12
        case .sessionInvalidated: 13
        case .jobUnacknowledged: 14
        case .jobAcknowledged: 15
        case .jobAcknowledgementExpired: 16
        case .webhookDisabled: 17
        case .jobURLExpired: 18
        case .groupFinished: 19
        case .hostUnreachable: 20
        case .hostRecovered: 21
        }
    }

    /// Returns the type of a code, or `nil` if it is not known.
    public init?(code: UInt8) {
        guard let type = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = type
    }

    /// `true` if the event is the end of a job.
    public var isTerminal: Bool {
        switch self {
        case .jobSucceeded, .jobFailed, .jobCancelled: true
        default: false
        }
    }

    /// `true` if the event can only follow the end of a job.
    public var followsEnd: Bool {
        switch self {
        case .jobUnacknowledged, .jobAcknowledged, .jobAcknowledgementExpired: true
        default: false
        }
    }

    /// `true` if the event is about a session and not about a job.
    public var isOfSession: Bool { self == .sessionEventsFinished || self == .sessionInvalidated }

    /// `true` if the event is about a host.
    public var isOfHost: Bool { self == .hostUnreachable || self == .hostRecovered }
}

extension EventType {
    /// Events that the webhook of a single job may get.
    public static let ofJobs = allCases.filter {
        $0 != .webhookDisabled && $0 != .groupFinished && !$0.isOfHost
    }
}

extension Sequence<EventType> {
    /// The types as a bit set by their codes.
    public var mask: Int32 { reduce(0) { $0 | 1 << Int32($1.code) } }
}

extension EventType: FieldValue {
    public static var isOpen: Bool { true }

    /// `types`: those that are allowed.
    public static func decode(_ json: JSONView, _ types: [EventType], _ place: FieldPlace) -> EventType? {
        guard let text = json.string else { return place.failType("a string", json) }
        if let type = EventType(rawValue: text), types.contains(type) { return type }
        let names = types.map(\.rawValue).joined(separator: ", ")
        return place.fail("invalid_value", "This must be one of: \(names).")
    }
    public static func restore(_ json: JSON) -> EventType? { json.string.flatMap(EventType.init) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(rawValue) }
    public static func schema(_ types: [EventType]) -> [JSON.Member] {
        [JSON.Member("type", "string"), JSON.Member("enum", .array(types.map { .string($0.rawValue) }))]
    }
}

extension EventType: ShownValue {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        schemas.reference("AnyEventType") {
            .object(schema(allCases) + [JSON.Member("description", "Type of an event.")])
        }
    }
}
