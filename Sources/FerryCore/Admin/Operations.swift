/// What operators want of a node, as it was at one moment.
package struct OperatorSettings: Sendable, Equatable {
    /// Grows with every change: of two looks the one with the smaller number was too early.
    package let revision: Int64
    /// No node leases anything.
    package let isPaused: Bool
    /// This node leases nothing.
    package let drains: Bool

    package init(revision: Int64, isPaused: Bool, drains: Bool) {
        self.revision = revision
        self.isPaused = isPaused
        self.drains = drains
    }
}

/// The unfinished jobs of a tenant.
package struct TenantStatus: Sendable, Equatable {
    package let tenant: String
    package let waiting: Int64
    package let queued: Int64
    package let running: Int64
    package let suspended: Int64

    package var jobCount: Int64 { waiting + queued + running + suspended }

    package init(tenant: String, waiting: Int64, queued: Int64, running: Int64, suspended: Int64) {
        self.tenant = tenant
        self.waiting = waiting
        self.queued = queued
        self.running = running
        self.suspended = suspended
    }
}

/// What an operator has asked for, and what became of it. Without secrets.
package struct AuditEntry: Sendable, Equatable {
    package let id: AuditID
    package let requestedAt: Timestamp
    /// Nil: the key of the configuration, kept before it had an identifier.
    package let key: KeyID?
    /// What the key is called; known when the entry is read.
    package var keyName: String?
    /// The `operationId` of the API's document.
    package let operation: String
    package let path: String
    package let requestID: String
    /// Of the answer; nil: it is not known what became of the request.
    package var status: Int32?
    /// The JSON of a request that was carried out, if it had any.
    package var body: [UInt8]?

    package init(
        id: AuditID, requestedAt: Timestamp, key: KeyID?, operation: String, path: String, requestID: String,
        status: Int32? = nil, body: [UInt8]? = nil
    ) {
        self.id = id
        self.requestedAt = requestedAt
        self.key = key
        self.operation = operation
        self.path = path
        self.requestID = requestID
        self.status = status
        self.body = body
    }
}
