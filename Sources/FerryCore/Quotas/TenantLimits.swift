/// Limits of a tenant, which an operator sets; `nil` for no limit.
public struct TenantLimits: FieldObject, Equatable {
    public static let summary = "Limits of a tenant. null is no limit."
    public static let schemaName = "TenantLimits"

    /// Unfinished jobs, all nodes together.
    public var jobCountMax: Int64?
    /// Bytes of bodies that the tenant's jobs receive and send in a day (UTC), all nodes together.
    public var bytesPerDay: Int64?
    /// Bytes of managed files and kept bodies, all nodes together.
    public var storageByteCountMax: Int64?
    /// Requests to the API of one node.
    public var requestsPerSecond: Int64?

    /// Creates no limits.
    public init() {}
    /// Creates limits.
    public init(
        jobCountMax: Int64? = nil, bytesPerDay: Int64? = nil, storageByteCountMax: Int64? = nil,
        requestsPerSecond: Int64? = nil
    ) {
        self.jobCountMax = jobCountMax
        self.bytesPerDay = bytesPerDay
        self.storageByteCountMax = storageByteCountMax
        self.requestsPerSecond = requestsPerSecond
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        let range = 0...JSON.safeIntegerMax
        visitor.field(
            "unfinished_jobs", &jobCountMax, range, .plain,
            "Number of unfinished jobs, all nodes together. The limit of all tenants applies as well.")
        visitor.field(
            "bytes_per_day", &bytesPerDay, range, .of(unit: .bytes),
            "Bytes of bodies that jobs receive and send in a day (UTC), all nodes together. Beyond it, "
                + "jobs wait until midnight (UTC).")
        visitor.field(
            "storage_bytes", &storageByteCountMax, range, .of(unit: .bytes),
            "Managed files and kept bodies, those of unfinished jobs included. Files at a path of the job's "
                + "destination do not count.")
        visitor.field(
            "requests_per_second", &requestsPerSecond, 1...1_000_000, .plain,
            "Requests with keys of the tenant to the API of one node. As many may come at once.")
    }

    /// The limits as they are shown.
    public var json: [UInt8] { encodeFields() }
}

/// A limit of a tenant that refuses submissions. The raw value is the name of the field.
public enum TenantQuota: String, Sendable {
    case unfinishedJobs = "unfinished_jobs"
    case bytesPerDay = "bytes_per_day"
}
