/// An event on its way to one webhook.
public struct Delivery: Sendable {
    /// Identifier of the delivery.
    public let id: DeliveryID
    /// The receiver: all deliveries of one value go to one receiver.
    public let receiverQueue: ReceiverQueueID
    /// `webhook-id`, the same for every try.
    public let event: EventID
    /// An `EventType`, `WebhookPing.type`, or a type of a newer version.
    public let type: String
    /// Tenant of the webhook.
    public let tenant: String
    /// Session of the event; empty if it has none.
    public let session: String
    /// Job of the event, or `nil` for an event of a session or an endpoint, and for a ping.
    public let job: JobID?
    /// Number of the event, without gaps per tenant and session.
    public let sequence: Int64
    /// Time of the event.
    public let occurredAt: Timestamp
    /// URL of the receiver.
    public let url: String
    /// The job's own secret `whsec_…`, or `nil` if Ferry's secret or the endpoint's keys sign.
    public let secret: String?
    /// Header fields of a job's own webhook; those of an endpoint are in `endpoint`.
    public let headers: [JobSpec.Pair]
    /// Extent to which the delivery to a job's own webhook contains the job; `endpoint` has that of an
    /// endpoint.
    public let payload: WebhookPayload
    /// TLS settings of a job's own webhook, or `nil` for the default; those of an endpoint are in `endpoint`.
    public let tls: WebhookTLS?
    /// The endpoint, or `nil` for a job's own webhook.
    public let endpoint: Endpoint?
    /// The job at the time of the event as a JSON object, or `null` without a job.
    public let jobJSON: [UInt8]
    /// Trace context as stored (`TraceContext`), or `nil`.
    public let traceparent: String?
    /// Number of the try, from 1.
    public let tryNumber: Int32
    /// Number of earlier tries that may or may not have been made, because their senders were lost.
    public var lostTryCount: Int32 = 0
    /// Bytes of the job's encrypted secrets, from which `secret`, `headers` and `tls` are.
    public var secretByteCount = 0
    /// Reason for which the delivery cannot be sent, or `nil` if it can.
    public var obstacle: Obstacle?

    /// Reason for which a delivery cannot be sent now.
    public enum Obstacle: Sendable {
        /// The secret cannot be decrypted with this node's key.
        case secretUnreadable
        /// The endpoint was removed.
        case endpointGone
    }

    /// Settings of an endpoint that its deliveries share. Immutable.
    public final class Endpoint: Sendable {
        /// Identifier of the endpoint.
        public let id: WebhookID
        /// Revision of the endpoint that the settings are from.
        public let revision: Int32
        /// Keys that sign.
        public let keys: WebhookKeys
        /// Format of the body.
        public let format: WebhookEndpoint.Format
        /// Header fields of deliveries besides those of Ferry.
        public let headers: [JobSpec.Pair]
        /// Extent to which deliveries contain the job.
        public let payload: WebhookPayload
        /// TLS settings of the receiver, or `nil` for the default.
        public let tls: WebhookTLS?
        /// `true` if deliveries are sent one after the other.
        public let isOrdered: Bool
        /// Seconds after the first, second, … try.
        public let retryDelays: [Double]

        /// Creates settings.
        public init(
            id: WebhookID, revision: Int32, keys: WebhookKeys, format: WebhookEndpoint.Format,
            headers: [JobSpec.Pair] = [], payload: WebhookPayload = .full, tls: WebhookTLS? = nil,
            isOrdered: Bool, retryDelays: [Double]
        ) {
            self.id = id
            self.revision = revision
            self.keys = keys
            self.format = format
            self.headers = headers
            self.payload = payload
            self.tls = tls
            self.isOrdered = isOrdered
            self.retryDelays = retryDelays
        }
    }

    /// Creates a delivery.
    public init(
        id: DeliveryID, receiverQueue: ReceiverQueueID, event: EventID, type: String, tenant: String,
        session: String, job: JobID?, sequence: Int64, occurredAt: Timestamp, url: String,
        secret: String?, headers: [JobSpec.Pair] = [], payload: WebhookPayload = .full,
        tls: WebhookTLS? = nil, endpoint: Endpoint? = nil, jobJSON: [UInt8], traceparent: String?,
        tryNumber: Int32
    ) {
        self.id = id
        self.receiverQueue = receiverQueue
        self.event = event
        self.type = type
        self.tenant = tenant
        self.session = session
        self.job = job
        self.sequence = sequence
        self.occurredAt = occurredAt
        self.url = url
        self.secret = secret
        self.headers = headers
        self.payload = payload
        self.tls = tls
        self.endpoint = endpoint
        self.jobJSON = jobJSON
        self.traceparent = traceparent
        self.tryNumber = tryNumber
    }

    /// Memory units of the delivery: one, and one more for each `Limits.deliveryWeightByteCount` bytes of its
    /// job and its secrets. SQL computes the same.
    public var weight: Int { 1 + (jobJSON.count + secretByteCount) / Limits.deliveryWeightByteCount }
    /// TLS settings of the receiver, or `nil` for the default.
    public var receiverTLS: WebhookTLS? { endpoint.map(\.tls) ?? tls }
    /// `true` for a ping.
    public var isPing: Bool { type == WebhookPing.type }
    /// `true` if no later delivery to the receiver may overtake it.
    public var isOrdered: Bool { !isPing && endpoint?.isOrdered ?? false }
}

/// Delivery that a client requests to test its receiver: one try, before all other deliveries.
public enum WebhookPing {
    /// Type of the event.
    public static let type = "webhook.ping"
}

/// One try of a delivery with its consequence.
public struct DeliveryTry: Sendable {
    /// Consequence of a try.
    public enum Verdict: Sendable, Equatable {
        case accepted
        case retry(at: Timestamp)
        /// No more tries: the schedule has ended, or the receiver answered 410.
        case givenUp
        /// Not tried; another sender may try at once.
        case returned
    }
    /// The delivery.
    public let delivery: DeliveryID
    /// Number of the try.
    public let number: Int32
    /// Start of the try.
    public let startedAt: Timestamp
    /// Duration in seconds.
    public let duration: Double
    /// Status of the response, or `nil` if there was none.
    public let status: Int?
    /// Stable code of the failure such as `timed_out`, or `nil` if the delivery was accepted.
    public let error: String?
    /// Beginning of the response's body: at most 1 KiB of valid UTF-8.
    public let responseExcerpt: String
    /// The consequence.
    public let verdict: Verdict

    /// Creates a try.
    public init(
        delivery: DeliveryID, number: Int32, startedAt: Timestamp, duration: Double, status: Int?,
        error: String?, responseExcerpt: String, verdict: Verdict
    ) {
        self.delivery = delivery
        self.number = number
        self.startedAt = startedAt
        self.duration = duration
        self.status = status
        self.error = error
        self.responseExcerpt = responseExcerpt
        self.verdict = verdict
    }

    /// Returns the try of a delivery that was not tried.
    public static func returned(_ delivery: Delivery, at now: Timestamp) -> DeliveryTry {
        DeliveryTry(
            delivery: delivery.id, number: delivery.tryNumber, startedAt: now, duration: 0, status: nil,
            error: nil, responseExcerpt: "", verdict: .returned)
    }
}

/// Deliveries that a sender can accept.
public struct DeliveryDemand: Sendable {
    /// For all receivers together, by weight.
    public var total: Int
    /// For receivers that the sender knows; 0 for none at present.
    public var queues: [ReceiverQueueID: Int]
    /// End of the pause of those in `queues` whose circuit breaker is open.
    public var pauses: [ReceiverQueueID: Timestamp] = [:]
    /// For each other receiver.
    public var other: Int
    /// Tenants that get nothing at present, because they use all that is not reserved for others.
    public var fullTenants: Set<String> = []

    /// Creates a demand.
    public init(total: Int, queues: [ReceiverQueueID: Int] = [:], other: Int) {
        self.total = total
        self.queues = queues
        self.other = other
    }
}

/// Result of a claim.
public struct ClaimedDeliveries: Sendable {
    /// Leased deliveries. Those of an ordered receiver are in order, and no earlier one is pending.
    public var due: [Delivery] = []
    /// Time of the next delivery to a receiver with none due now, or `nil` if not known.
    public var next: Timestamp?
    /// `true` if more is due than the demand or the time allowed; claim again.
    public var isMore = false
    /// `true` if a delivery of a full tenant is due.
    public var isHeldBack = false
    /// Revisions of the endpoints among the receivers in the demand.
    public var revisions: [ReceiverQueueID: Int32] = [:]

    /// Creates an empty result.
    public init() {}
}

/// Stores deliveries. A claimed delivery without a recorded try becomes due again after its lease.
public protocol DeliveryStore: Sendable {
    /// Claims due deliveries for `leaseSeconds`, for each receiver no more than the demand allows. Replies on
    /// a thread of the store; the result is empty if the database cannot be reached.
    func claim(
        _ demand: DeliveryDemand, leaseSeconds: Double, reply: @escaping @Sendable (ClaimedDeliveries) -> Void
    )
    /// Records tries; repeats the transaction until it succeeds.
    func record(_ tries: [DeliveryTry])
}

extension Delivery {
    /// The question that the response may answer, or `nil`.
    public var question: JobQuestion.Kind? { EventType(rawValue: type)?.question }

    /// `asked_at` of the question in the delivery, or `nil`.
    public var askedAt: Timestamp? {
        // Written by Ferry; without it the answer counts for the open question.
        guard let job = try? JSON.parse(jobJSON) else { return nil }
        return job["question"]?["asked_at"]?.string.flatMap { Timestamp(rfc3339: $0) }
    }
}
