/// Settings of operators for a node at one moment.
public struct OperatorSettings: Sendable, Equatable {
    /// Grows with every change; of two readings, the one with the lower number is outdated.
    public let revision: Int64
    /// `true` if no node leases jobs.
    public let isPaused: Bool
    /// `true` if this node leases no jobs.
    public let drains: Bool
    /// `true` if the pause also holds deliveries, schedules and probes of hosts.
    public let isHeld: Bool

    /// Creates settings.
    public init(revision: Int64, isPaused: Bool, drains: Bool, isHeld: Bool = false) {
        self.revision = revision
        self.isPaused = isPaused
        self.drains = drains
        self.isHeld = isHeld
    }
}

/// Numbers of unfinished jobs of a tenant.
public struct TenantStatus: Sendable, Equatable {
    /// Tenant.
    public let tenant: String
    /// Jobs in each state.
    public let waiting: Int64
    public let queued: Int64
    public let running: Int64
    public let suspended: Int64

    /// All unfinished jobs.
    public var jobCount: Int64 { waiting + queued + running + suspended }

    /// Creates a status.
    public init(tenant: String, waiting: Int64, queued: Int64, running: Int64, suspended: Int64) {
        self.tenant = tenant
        self.waiting = waiting
        self.queued = queued
        self.running = running
        self.suspended = suspended
    }
}

/// A request of an operator and its result, without secrets.
public struct AuditEntry: Sendable, Equatable {
    /// Identifier of the entry.
    public let id: AuditID
    /// Time of the request.
    public let requestedAt: Timestamp
    /// Key of the request, or `nil` for the key of the configuration in entries from before it had an
    /// identifier.
    public let key: KeyID?
    /// Name of the key, looked up when the entry is read.
    public var keyName: String?
    /// `operationId` in the OpenAPI document.
    public let operation: String
    /// Path of the request.
    public let path: String
    /// Identifier of the request.
    public let requestID: String
    /// Status of the response, or `nil` if the result of the request is not known.
    public var status: Int32?
    /// JSON body of a request that was carried out, or `nil` if it had none.
    public var body: [UInt8]?

    /// Creates an entry.
    public init(
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
