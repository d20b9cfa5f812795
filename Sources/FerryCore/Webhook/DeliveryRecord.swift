/// A delivery as the API shows it.
package struct DeliveryRecord: Sendable, Equatable {
    /// State of a delivery.
    package enum State: String, Sendable, CaseIterable {
        case pending, accepted
        case givenUp = "given_up"
    }

    /// A try.
    package struct Try: Sendable, Equatable {
        /// Number, from 1.
        package let number: Int32
        /// Start.
        package let startedAt: Timestamp
        /// Duration in seconds.
        package let duration: Double
        /// Status of the response, or `nil` if there was none.
        package let status: Int32?
        /// Stable code of the failure, or `nil` if it was accepted.
        package let error: String?
        /// Beginning of the response's body.
        package let responseExcerpt: String

        /// Creates a try.
        package init(
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
    package let id: DeliveryID
    /// The event.
    package let event: EventID
    /// An `EventType`, or a type of a newer version.
    package let type: String
    /// Tenant.
    package let tenant: String
    /// Session of the event; empty if it has none.
    package let session: String
    /// Job of the event, or `nil` for an event of a session.
    package let job: JobID?
    /// The endpoint, or `nil` for a job's own webhook.
    package let webhook: WebhookID?
    /// Number of the event in its session.
    package let sequence: Int64
    /// Time of the event.
    package let occurredAt: Timestamp
    /// URL of the receiver.
    package let url: String
    /// State.
    package var state: State
    /// Time of the next try of a pending delivery, else `nil`.
    package var nextTryAt: Timestamp?
    /// The tries in order.
    package var tries: [Try]

    /// Creates a record.
    package init(
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
