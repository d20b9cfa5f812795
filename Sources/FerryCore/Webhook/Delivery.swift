/// An event on its way to one webhook.
package struct Delivery: Sendable {
    package let id: DeliveryID
    /// Deliveries of one lane go to one receiver.
    package let lane: ReceiverQueueID
    /// `webhook-id`: the same on every try.
    package let event: EventID
    /// An `EventType`, `WebhookPing.type`, or a type that a newer version knows.
    package let type: String
    package let tenant: String
    /// Empty: of none.
    package let session: String
    /// Nil: it is an event of a session or of an endpoint, or a ping.
    package let job: JobID?
    /// Gap-free per tenant and session.
    package let sequence: Int64
    package let occurredAt: Timestamp
    package let url: String
    /// The job's own `whsec_…`; nil: the service's secret signs, or the endpoint's keys do.
    package let secret: String?
    /// Nil: of a job's own webhook.
    package let endpoint: Endpoint?
    /// The job as it was when the event happened: a JSON object; `null` without a job.
    package let jobJSON: [UInt8]
    package let traceparent: String?
    /// 1 for the first try.
    package let tryNumber: Int32
    /// Earlier ones of which nobody knows whether they were made: their senders were lost.
    package var lostTryCount: Int32 = 0
    /// Nil: it can be sent.
    package var obstacle: Obstacle?

    /// Why it cannot be sent now.
    package enum Obstacle: Sendable {
        /// What signs it cannot be opened with this node's key.
        case secretUnreadable
        /// Its endpoint was removed.
        case endpointGone
    }

    /// What an endpoint says about its deliveries; shared by them.
    package final class Endpoint: Sendable {
        package let id: WebhookID
        package let revision: Int32
        package let keys: WebhookKeys
        package let format: WebhookEndpoint.Format
        package let isOrdered: Bool
        package let retryDelays: [Double]

        package init(
            id: WebhookID, revision: Int32, keys: WebhookKeys, format: WebhookEndpoint.Format,
            isOrdered: Bool, retryDelays: [Double]
        ) {
            self.id = id
            self.revision = revision
            self.keys = keys
            self.format = format
            self.isOrdered = isOrdered
            self.retryDelays = retryDelays
        }
    }

    package init(
        id: DeliveryID, lane: ReceiverQueueID, event: EventID, type: String, tenant: String, session: String,
        job: JobID?, sequence: Int64, occurredAt: Timestamp, url: String, secret: String?,
        endpoint: Endpoint? = nil, jobJSON: [UInt8], traceparent: String?, tryNumber: Int32
    ) {
        self.id = id
        self.lane = lane
        self.event = event
        self.type = type
        self.tenant = tenant
        self.session = session
        self.job = job
        self.sequence = sequence
        self.occurredAt = occurredAt
        self.url = url
        self.secret = secret
        self.endpoint = endpoint
        self.jobJSON = jobJSON
        self.traceparent = traceparent
        self.tryNumber = tryNumber
    }

    /// What it counts where memory is bounded: one, as most do, and one more for each of so many bytes of its
    /// job. The SQL counts like this.
    package var weight: Int { 1 + jobJSON.count / Limits.deliveryWeightByteCount }
    package var isPing: Bool { type == WebhookPing.type }
    /// Whether nothing of its lane may overtake it.
    package var isOrdered: Bool { !isPing && endpoint?.isOrdered ?? false }
}

/// The delivery that a client asks for to see whether its receiver works: one try, ahead of everything else.
package enum WebhookPing {
    package static let type = "webhook.ping"
}

/// One try of a delivery, and what follows from it.
package struct DeliveryTry: Sendable {
    package enum Verdict: Sendable, Equatable {
        case accepted
        case retry(at: Timestamp)
        /// Given up: the schedule is over, or the receiver answered 410.
        case givenUp
        /// Not tried at all: somebody else may, at once.
        case returned
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

    /// Of a delivery that goes back.
    package static func returned(_ delivery: Delivery, at now: Timestamp) -> DeliveryTry {
        DeliveryTry(
            delivery: delivery.id, number: delivery.tryNumber, startedAt: now, duration: 0, status: nil,
            error: nil, answer: "", verdict: .returned)
    }
}

/// How many deliveries a sender can take.
package struct DeliveryDemand: Sendable {
    /// Of all lanes together, by their weights.
    package var total: Int
    /// Of lanes that the sender has to do with; 0: none, for now.
    package var lanes: [ReceiverQueueID: Int]
    /// Of each other lane.
    package var other: Int
    /// Nothing of theirs, for now: they have taken what leaves room for others.
    package var fullTenants: Set<String> = []

    package init(total: Int, lanes: [ReceiverQueueID: Int] = [:], other: Int) {
        self.total = total
        self.lanes = lanes
        self.other = other
    }
}

/// What a claim has found.
package struct ClaimedDeliveries: Sendable {
    /// Leased; those of an ordered lane in their order, and before them nothing of the lane is pending.
    package var due: [Delivery] = []
    /// When something more is due in a lane that has nothing due now; nil: nothing is known.
    package var next: Timestamp?
    /// Something is due that there was no room or no time to look for: claim again.
    package var isMore = false
    /// Something is due of a tenant that was full.
    package var isHeldBack = false
    /// Revisions of the endpoints among the lanes that were asked for by name.
    package var revisions: [ReceiverQueueID: Int32] = [:]

    package init() {}
}

/// Where deliveries wait. A claimed delivery that nobody reports on becomes due again after its lease.
package protocol DeliveryStore: Sendable {
    /// Due deliveries, leased for `leaseSeconds`, no more of a lane than there is room for. The reply comes
    /// on the queue's thread; when the database is away, it is empty.
    func claim(
        _ rooms: DeliveryDemand, leaseSeconds: Double, reply: @escaping @Sendable (ClaimedDeliveries) -> Void)
    /// Keeps what came of tries; retried inside until the database has it.
    func record(_ tries: [DeliveryTry])
}
