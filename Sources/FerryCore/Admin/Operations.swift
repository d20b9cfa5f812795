/// Settings of operators for a node at one moment.
package struct OperatorSettings: Sendable, Equatable {
    /// Grows with every change; of two readings, the one with the lower number is outdated.
    package let revision: Int64
    /// `true` if no node leases jobs.
    package let isPaused: Bool
    /// `true` if this node leases no jobs.
    package let drains: Bool

    /// Creates settings.
    package init(revision: Int64, isPaused: Bool, drains: Bool) {
        self.revision = revision
        self.isPaused = isPaused
        self.drains = drains
    }
}

/// Numbers of unfinished jobs of a tenant.
package struct TenantStatus: Sendable, Equatable {
    /// Tenant.
    package let tenant: String
    /// Jobs in each state.
    package let waiting: Int64
    package let queued: Int64
    package let running: Int64
    package let suspended: Int64

    /// All unfinished jobs.
    package var jobCount: Int64 { waiting + queued + running + suspended }

    /// Creates a status.
    package init(tenant: String, waiting: Int64, queued: Int64, running: Int64, suspended: Int64) {
        self.tenant = tenant
        self.waiting = waiting
        self.queued = queued
        self.running = running
        self.suspended = suspended
    }
}

/// A request of an operator and its result, without secrets.
package struct AuditEntry: Sendable, Equatable {
    /// Identifier of the entry.
    package let id: AuditID
    /// Time of the request.
    package let requestedAt: Timestamp
    /// Key of the request, or `nil` for the key of the configuration in entries from before it had an
    /// identifier.
    package let key: KeyID?
    /// Name of the key, looked up when the entry is read.
    package var keyName: String?
    /// `operationId` in the OpenAPI document.
    package let operation: String
    /// Path of the request.
    package let path: String
    /// Identifier of the request.
    package let requestID: String
    /// Status of the response, or `nil` if the result of the request is not known.
    package var status: Int32?
    /// JSON body of a request that was carried out, or `nil` if it had none.
    package var body: [UInt8]?

    /// Creates an entry.
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
