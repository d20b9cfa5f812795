package import FerryCore

/// What a list of jobs is asked for. Nil: not filtered.
package struct JobQuery: Sendable {
    package var tenant: String
    package var session: String?
    package var state: JobState?
    package var kind: JobKind?
    /// Without scheme and port.
    package var host: String?
    package var createdAfter: Timestamp?
    /// All of these.
    package var metadata: [JobSpec.Pair]
    /// Only older jobs than this one: where the last page ended.
    package var before: JobID?
    package var limit: Int

    package init(
        tenant: String, session: String? = nil, state: JobState? = nil, kind: JobKind? = nil,
        host: String? = nil,
        createdAfter: Timestamp? = nil, metadata: [JobSpec.Pair] = [], before: JobID? = nil,
        limit: Int = Limits.listLimitDefault
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

/// Unfinished work, in one snapshot of the database.
package struct StoreStatus: Sendable, Equatable {
    package var waiting: Int64
    package var queued: Int64
    package var running: Int64
    package var suspended: Int64
    package var deliveriesPending: Int64
    /// Seconds; nil when nothing is queued.
    package var oldestQueuedSeconds: Double?
    package var oldestDeliverySeconds: Double?
    package var nodes: [NodeRecord]
    /// Of the last heartbeat.
    package var roundTripSeconds: Double?
}

/// A node as the others see it.
package struct NodeRecord: Sendable, Equatable {
    package let id: NodeID
    package let name: String
    package let version: String
    package let startedAt: Timestamp
    package let running: Int32
    package let isDraining: Bool
    package let isWorker: Bool
    package let heartbeatAgeSeconds: Double
}

/// A delivery, for those who show it.
package struct DeliveryRecord: Sendable, Equatable {
    package enum State: String, Sendable, CaseIterable {
        case pending, accepted
        case givenUp = "given_up"
    }
    package let id: DeliveryID
    package let event: EventID
    package let type: String
    package let tenant: String
    package let session: String
    package let job: JobID
    package let sequence: Int64
    package let occurredAt: Timestamp
    package let url: String
    package let state: State
    package let tryCount: Int32
    /// Of a pending delivery.
    package let nextTryAt: Timestamp?
}

/// One try of a delivery, for those who show it.
package struct DeliveryTryRecord: Sendable, Equatable {
    package let number: Int32
    package let startedAt: Timestamp
    package let durationSeconds: Double
    package let status: Int32?
    package let error: String?
    package let answer: String
}

/// An API key without the key.
package struct KeyRecord: Sendable, Equatable {
    package enum Role: String, Sendable, CaseIterable { case viewer, client, admin }
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
        revokedAt: Timestamp? = nil
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
