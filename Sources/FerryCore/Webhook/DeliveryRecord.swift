/// A delivery as the API shows it.
public struct DeliveryRecord: Sendable, Equatable {
    /// State of a delivery.
    public enum State: String, ShownChoice {
        case pending, accepted
        case givenUp = "given_up"
    }

    /// A try.
    public struct Try: Sendable, Equatable {
        /// Number, from 1.
        public let number: Int32
        /// Start.
        public let startedAt: Timestamp
        /// Duration in seconds.
        public let duration: Double
        /// Status of the response, or `nil` if there was none.
        public let status: Int32?
        /// Stable code of the failure, or `nil` if it was accepted.
        public let error: String?
        /// Beginning of the response's body.
        public let responseExcerpt: String

        /// Creates a try.
        public init(
            number: Int32, startedAt: Timestamp, duration: Double, status: Int32?, error: String?,
            responseExcerpt: String
        ) {
            self.number = number
            self.startedAt = startedAt
            self.duration = duration
            self.status = status
            self.error = error
            self.responseExcerpt = responseExcerpt
        }
    }

    /// Identifier of the delivery.
    public let id: DeliveryID
    /// The event.
    public let event: EventID
    /// An `EventType`, or a type of a newer version.
    public let type: String
    /// Tenant.
    public let tenant: String
    /// Session of the event; empty if it has none.
    public let session: String
    /// Job of the event, or `nil` for an event of a session.
    public let job: JobID?
    /// The endpoint, or `nil` for a job's own webhook.
    public let webhook: WebhookID?
    /// Number of the event in its session.
    public let sequence: Int64
    /// Time of the event.
    public let occurredAt: Timestamp
    /// URL of the receiver.
    public let url: String
    /// State.
    public var state: State
    /// Time of the next try of a pending delivery, else `nil`.
    public var nextTryAt: Timestamp?
    /// When the receiver is tried again, if a circuit breaker holds the pending delivery, else `nil`.
    public var pausedUntil: Timestamp?
    /// `true` if operators hold the pending delivery.
    public var isHeld = false
    /// The tries in order.
    public var tries: [Try]

    /// Creates a record.
    public init(
        id: DeliveryID, event: EventID, type: String, tenant: String, session: String, job: JobID?,
        webhook: WebhookID? = nil, sequence: Int64, occurredAt: Timestamp, url: String, state: State,
        nextTryAt: Timestamp?,
        tries: [Try] = []
    ) {
        self.id = id
        self.event = event
        self.type = type
        self.tenant = tenant
        self.session = session
        self.job = job
        self.webhook = webhook
        self.sequence = sequence
        self.occurredAt = occurredAt
        self.url = url
        self.state = state
        self.nextTryAt = nextTryAt
        self.tries = tries
    }
}

extension DeliveryRecord: ShownObject {
    public static let summary = "An event on its way to one receiver."
    public static let schemaName = "Delivery"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the delivery.")
        list.member("event", \.event, "Identifier of the event, sent as webhook-id.")
        list.member("type", \.type, "Type of the event, or webhook.ping.")
        list.member("job", \.job, "Job of the event, or null if the event is of a session or an endpoint.")
        list.member("webhook", \.webhook, "The endpoint, or null for a job's own webhook.")
        list.member("session", { $0.session.isEmpty ? nil : $0.session }, "Session of the event, or null.")
        list.member("sequence", \.sequence, "Number of the event in its session.")
        list.member("url", { URLText($0.url) }, "URL of the receiver.")
        list.member("state", \.state, "State of the delivery.")
        list.member("occurred_at", \.occurredAt, "Time of the event.")
        list.member("next_try_at", \.nextTryAt, "Time of the next try, or null if not pending.")
        list.member(
            "waiting_reason", DeliveryWait.init,
            "Reason why a pending delivery is not tried although it is due, or null.")
        list.member("tries", \.tries, "The tries, oldest first.")
    }
}

/// Reason why a pending delivery waits.
struct DeliveryWait: ShownObject {
    static let summary = "Reason why a pending delivery waits although it is due."
    static let schemaName = "DeliveryWait"

    private enum Code: String, ShownChoice {
        case receiverPaused = "receiver_paused"
        case paused
    }

    private let code: Code
    private let detail: String
    private let nextCheckAt: Timestamp?

    /// Returns the reason of a delivery, or `nil` if it does not wait. What holds back all deliveries comes
    /// first.
    init?(_ delivery: DeliveryRecord) {
        if delivery.isHeld {
            code = .paused
            detail = "The service is paused; the delivery is sent after an operator has resumed it."
            nextCheckAt = nil
        } else if let pausedUntil = delivery.pausedUntil {
            code = .receiverPaused
            detail =
                "Its receiver has failed several times in a row, or has asked to wait; one delivery is tried "
                + "at next_check_at."
            nextCheckAt = pausedUntil
        } else {
            return nil
        }
    }

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "code", \.code,
            "Stable code. receiver_paused: the circuit breaker of the receiver is open; paused: the service "
                + "is paused, deliveries included.")
        list.member("detail", \.detail, "One sentence for people.")
        list.member(
            "next_check_at", \.nextCheckAt,
            "Time at which one delivery is tried, or null if an operator ends the reason.")
    }
}

extension DeliveryRecord.Try: ShownObject {
    public static let summary = "One request of a delivery."
    public static let schemaName = "DeliveryTry"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("number", \.number, "Number of the try, from 1.")
        list.member("started_at", \.startedAt, "Time of the start.")
        list.member("duration", \.duration, "Duration of the try in seconds.")
        list.member("status", \.status, "HTTP status code of the response, or null if there was none.")
        list.member("error", \.error, "Stable code of the failure, or null if accepted.")
        list.member(
            "answer", \.responseExcerpt,
            "First 1,024 bytes of the response body as text. Empty if the body may be the answer to a "
                + "question.")
    }
}
