/// Events; the raw value is the contract's name.
package enum EventType: String, Sendable, CaseIterable {
    case jobCreated = "job.created"
    /// The first attempt has begun.
    case jobStarted = "job.started"
    /// Once a job.
    case jobWaitingForConnectivity = "job.waiting_for_connectivity"
    case jobWillBegin = "job.will_begin"
    case jobChallenge = "job.challenge"
    case jobRedirect = "job.redirect"
    /// A download goes on from bytes that were there, or begins at 0 although there were some.
    case jobResumedAtOffset = "job.resumed_at_offset"
    /// Also of the last attempt of a job that fails.
    case jobAttemptFailed = "job.attempt_failed"
    case jobSucceeded = "job.succeeded"
    case jobFailed = "job.failed"
    case jobCancelled = "job.cancelled"
    /// A reminder: the job has ended, and its acknowledgement has not come yet.
    case jobUnacknowledged = "job.unacknowledged"
    case jobAcknowledged = "job.acknowledged"
    /// The acknowledgement has not come in time: the job goes when its retention is over.
    case jobAcknowledgementExpired = "job.acknowledgement_expired"
    /// No job of the session is unfinished, and its earlier events were delivered or given up.
    case sessionEventsFinished = "session.events_finished"
    case sessionInvalidated = "session.invalidated"
    /// The service has disabled an endpoint, because its receiver is gone or fails for too long.
    case webhookDisabled = "webhook.disabled"

    /// What a webhook gets that names no events.
    package static let standard: [EventType] = [.jobSucceeded, .jobFailed, .jobCancelled]

    /// How rows name it; stable, and the number of its bit where types are a set. SQL says the same numbers.
    package var code: UInt8 {
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
        }
    }

    package init?(code: UInt8) {
        guard let type = Self.allCases.first(where: { $0.code == code }) else { return nil }
        self = type
    }

    /// The job has ended.
    package var isTerminal: Bool {
        switch self {
        case .jobSucceeded, .jobFailed, .jobCancelled: true
        default: false
        }
    }

    /// It comes after the job's end, if at all.
    package var followsEnd: Bool {
        switch self {
        case .jobUnacknowledged, .jobAcknowledged, .jobAcknowledgementExpired: true
        default: false
        }
    }

    /// It is about a session and not about one job.
    package var isOfSession: Bool { self == .sessionEventsFinished || self == .sessionInvalidated }
}

extension EventType {
    /// What the webhook of a single job may ask for.
    package static let ofJobs = allCases.filter { $0 != .webhookDisabled }
}

extension Sequence<EventType> {
    /// One bit a type, at its code.
    package var mask: Int32 { reduce(0) { $0 | 1 << Int32($1.code) } }
}

extension JobSpec {
    /// The events that the job's own webhook wants, one bit a type; nil when there is no webhook.
    package var wantedEvents: Int32? { webhook?.events.mask }
}
