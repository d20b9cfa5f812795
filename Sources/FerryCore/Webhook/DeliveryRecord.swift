/// A delivery as operators and clients see it.
package struct DeliveryRecord: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        case pending, accepted
        case givenUp = "given_up"
    }

    package struct Try: Sendable, Equatable {
        package let number: Int32
        package let startedAt: Timestamp
        /// Seconds.
        package let duration: Double
        /// Nil: no answer.
        package let status: Int32?
        /// A stable code; nil when accepted.
        package let error: String?
        /// The start of the answer's body.
        package let answer: String

        package init(
            number: Int32, startedAt: Timestamp, duration: Double, status: Int32?, error: String?,
            answer: String
        ) {
            self.number = number
            self.startedAt = startedAt
            self.duration = duration
            self.status = status
            self.error = error
            self.answer = answer
        }
    }

    package let id: DeliveryID
    package let event: EventID
    /// An `EventType`, or one that a newer version knows.
    package let type: String
    package let tenant: String
    /// Empty: of none.
    package let session: String
    /// Nil: it is an event of the session.
    package let job: JobID?
    /// Nil: of the job's own webhook.
    package let webhook: WebhookID?
    package let sequence: Int64
    package let occurredAt: Timestamp
    package let url: String
    package var state: State
    /// Nil unless it is pending.
    package var nextTryAt: Timestamp?
    /// In their order.
    package var tries: [Try]

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
