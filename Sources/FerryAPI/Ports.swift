// What the API asks of the rest of Ferry. Every reply is called exactly once, on a thread that must not
// block.
package import FerryCore

/// Which jobs a list holds; all conditions must hold. Newest first.
package struct JobQuery: Sendable, Equatable {
    package var tenant: String
    package var session: String?
    package var state: JobState?
    package var kind: JobKind?
    /// The host of `request.url`, lower case.
    package var host: String?
    package var createdAfter: Timestamp?
    package var metadata: [JobSpec.Pair]
    /// Only jobs that were made before this one: where the page before ended.
    package var before: JobID?
    /// At most so many records.
    package var limit: Int

    package init(
        tenant: String, session: String? = nil, state: JobState? = nil, kind: JobKind? = nil,
        host: String? = nil, createdAfter: Timestamp? = nil, metadata: [JobSpec.Pair] = [],
        before: JobID? = nil, limit: Int = Limits.listLimitDefault
    ) {
        self.tenant = tenant
        self.session = session
        self.state = state
        self.kind = kind
        self.host = host
        self.createdAfter = createdAfter
        self.metadata = metadata
        self.before = before
        self.limit = limit
    }
}

package typealias Reply<Value> = @Sendable (Result<Value, StoreError>) -> Void

/// Reads jobs. A job of another tenant is `notFound`.
package protocol JobReader: Sendable {
    func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>)
    /// Records without bodies, newest first.
    func jobs(_ query: JobQuery, reply: @escaping Reply<[JobRecord]>)
}

/// What a finished job leaves for a repetition.
package struct RetrySource: Sendable {
    package let record: JobRecord
    package let secrets: JobSecrets
    /// The bytes of an inline source or body; nil when there were none or they are not kept.
    package let payload: [UInt8]?

    package init(record: JobRecord, secrets: JobSecrets, payload: [UInt8]?) {
        self.record = record
        self.secrets = secrets
        self.payload = payload
    }
}

/// Changes jobs. `revision`: what `If-Match` names; another one of the job is `stale`, nil is no condition.
package protocol JobControl: Sendable {
    /// Cancels a job, or asks the node that runs it to: the record may still say `running`. A terminal job is
    /// `invalidState`.
    func cancel(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>)
    /// Deletes a terminal job with the file that the service keeps for it; any other is `invalidState`.
    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Reads a terminal job as something to submit again; any other is `invalidState`.
    func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>)
}

/// A delivery as operators and clients see it.
package struct DeliveryRecord: Sendable {
    package enum State: String, Sendable, CaseIterable {
        case pending, accepted
        case givenUp = "given_up"
    }
    package struct Try: Sendable {
        package let number: Int32
        package let startedAt: Timestamp
        /// Seconds.
        package let duration: Double
        /// Nil: no answer.
        package let status: Int?
        /// A stable code; nil when accepted.
        package let error: String?
        /// The start of the answer's body.
        package let answer: String

        package init(
            number: Int32, startedAt: Timestamp, duration: Double, status: Int?, error: String?,
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
    package var id: DeliveryID
    package var event: EventID
    package var type: EventType
    package var job: JobID
    package var session: String
    package var sequence: Int64
    package var url: String
    package var state: State
    package var occurredAt: Timestamp
    /// Nil unless it is pending.
    package var nextTryAt: Timestamp?
    package var tries: [Try]

    package init(
        id: DeliveryID, event: EventID, type: EventType, job: JobID, session: String, sequence: Int64,
        url: String,
        state: State, occurredAt: Timestamp, nextTryAt: Timestamp?, tries: [Try]
    ) {
        self.id = id
        self.event = event
        self.type = type
        self.job = job
        self.session = session
        self.sequence = sequence
        self.url = url
        self.state = state
        self.occurredAt = occurredAt
        self.nextTryAt = nextTryAt
        self.tries = tries
    }
}

/// Reads deliveries with their tries, and makes one due again.
package protocol DeliveryReader: Sendable {
    /// Of one job, newest first; a job that is not the tenant's is `notFound`.
    func deliveries(of job: JobID, tenant: String, reply: @escaping Reply<[DeliveryRecord]>)
    func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>)
    /// Due at once, whatever became of it before.
    func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>)
}

/// An API key without the key itself.
package struct APIKey: Sendable, Equatable {
    package let id: KeyID
    package let tenant: String
    package let role: Role
    package let name: String
    /// SHA-256 of the key.
    package let hash: [UInt8]
    package let createdAt: Timestamp
    package let revokedAt: Timestamp?

    package init(
        id: KeyID, tenant: String, role: Role, name: String, hash: [UInt8], createdAt: Timestamp,
        revokedAt: Timestamp?
    ) {
        self.id = id
        self.tenant = tenant
        self.role = role
        self.name = name
        self.hash = hash
        self.createdAt = createdAt
        self.revokedAt = revokedAt
    }
}

/// Where API keys are kept, revoked ones included.
package protocol KeyStore: Sendable {
    func keys(reply: @escaping Reply<[APIKey]>)
    func create(_ key: APIKey, reply: @escaping Reply<Void>)
    /// `notFound` when there is no such key; revoking twice changes nothing.
    func revoke(_ id: KeyID, reply: @escaping Reply<Void>)
}

/// `GET /v1/admin/status`.
package struct ServiceStatus: Sendable {
    package var nodes: [NodeStatus] = []
    package var waiting: Int64 = 0
    package var queued: Int64 = 0
    package var running: Int64 = 0
    package var suspended: Int64 = 0
    /// Nil: nothing is queued. Seconds, as everywhere here.
    package var oldestQueuedSeconds: Double?
    package var bytesReceivedPerSecond: Double = 0
    package var bytesSentPerSecond: Double = 0
    package var jobsFinishedPerSecond: Double = 0
    package var isDatabaseOK = true
    package var databaseRoundTripSeconds: Double?
    package var storageFreeBytes: Int64?
    package var webhooksPending: Int64 = 0
    package var oldestWebhookPendingSeconds: Double?

    package init() {}
}

package struct NodeStatus: Sendable {
    package var id: NodeID
    package var name: String
    package var version: String
    package var startedAt: Timestamp
    package var heartbeatAgeSeconds: Double
    package var running: Int64
    package var isDraining: Bool

    package init(
        id: NodeID, name: String, version: String, startedAt: Timestamp, heartbeatAgeSeconds: Double,
        running: Int64,
        isDraining: Bool
    ) {
        self.id = id
        self.name = name
        self.version = version
        self.startedAt = startedAt
        self.heartbeatAgeSeconds = heartbeatAgeSeconds
        self.running = running
        self.isDraining = isDraining
    }
}

/// Exact about unfinished work, and cheap.
package protocol StatusSource: Sendable {
    func status(reply: @escaping Reply<ServiceStatus>)
    func nodes(reply: @escaping Reply<[NodeStatus]>)
}

/// Bytes that can be sent: an open regular file. Whoever receives it closes the descriptor.
package struct OpenContent: Sendable {
    package let descriptor: Int32
    package let byteCount: Int64
    package init(descriptor: Int32, byteCount: Int64) {
        self.descriptor = descriptor
        self.byteCount = byteCount
    }
}

/// Opens the file of a succeeded job. `notFound`: it is not there any more.
package protocol ContentStore: Sendable {
    func open(_ job: JobRecord, reply: @escaping Reply<OpenContent>)
}
