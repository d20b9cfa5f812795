/// An event on its way to one webhook.
package struct Delivery: Sendable {
    package let id: DeliveryID
    /// `webhook-id`: the same on every try.
    package let event: EventID
    package let type: EventType
    package let tenant: String
    package let session: String
    /// Nil: it is an event of the session.
    package let job: JobID?
    /// Gap-free per tenant and session.
    package let sequence: Int64
    package let occurredAt: Timestamp
    package let url: String
    /// The job's own `whsec_…`; nil: the service's secret signs.
    package let secret: String?
    /// The job as it was when the event happened: a JSON object.
    package let jobJSON: [UInt8]
    package let traceparent: String?
    /// 1 for the first try.
    package let tryNumber: Int32

    package init(
        id: DeliveryID, event: EventID, type: EventType, tenant: String, session: String, job: JobID?,
        sequence: Int64,
        occurredAt: Timestamp, url: String, secret: String?, jobJSON: [UInt8], traceparent: String?,
        tryNumber: Int32
    ) {
        self.id = id
        self.event = event
        self.type = type
        self.tenant = tenant
        self.session = session
        self.job = job
        self.sequence = sequence
        self.occurredAt = occurredAt
        self.url = url
        self.secret = secret
        self.jobJSON = jobJSON
        self.traceparent = traceparent
        self.tryNumber = tryNumber
    }
}

/// One try of a delivery, and what follows from it.
package struct DeliveryTry: Sendable {
    package enum Verdict: Sendable, Equatable {
        case accepted
        case retry(at: Timestamp)
        /// Given up: the schedule is over, or the receiver answered 410.
        case givenUp
    }
    package let delivery: DeliveryID
    package let number: Int32
    package let startedAt: Timestamp
    /// Seconds.
    package let duration: Double
    /// Nil: no answer.
    package let status: Int?
    /// Why there was no acceptable answer; a stable code such as `timed_out`, nil when accepted.
    package let error: String?
    /// The start of the answer's body, at most 1 KiB, valid UTF-8.
    package let answer: String
    package let verdict: Verdict

    package init(
        delivery: DeliveryID, number: Int32, startedAt: Timestamp, duration: Double, status: Int?,
        error: String?,
        answer: String, verdict: Verdict
    ) {
        self.delivery = delivery
        self.number = number
        self.startedAt = startedAt
        self.duration = duration
        self.status = status
        self.error = error
        self.answer = answer
        self.verdict = verdict
    }
}

/// Where deliveries wait. A claimed delivery that nobody reports on becomes due again after its lease.
package protocol DeliveryQueue: Sendable {
    /// Up to `limit` due deliveries, leased for `leaseSeconds`; and the instant at which the next one is due,
    /// if there is one. The reply comes on the queue's thread; when the database is away, it is `([], nil)`.
    func claim(
        limit: Int, leaseSeconds: Double,
        reply: @escaping @Sendable (_ due: [Delivery], _ next: Timestamp?) -> Void)
    /// Keeps what came of tries; retried inside until the database has it.
    func record(_ tries: [DeliveryTry])
}
