/// Conditions, all of which hold for the uploads of a page.
public struct UploadQuery: Sendable, Equatable {
    /// Tenant.
    public var tenant: String
    /// `true` for complete uploads, `false` for incomplete ones; `nil`: both.
    public var isComplete: Bool?
    /// Name that the client has given; `nil`: any, or none.
    public var name: String?
    /// Times between which the upload was created; `nil`: no bound.
    public var createdAfter: Timestamp?
    public var createdBefore: Timestamp?
    /// Only uploads with smaller identifiers; `nil`: all.
    public var before: UploadID?
    /// Number of uploads at most.
    public var limit: Int

    /// Creates a query for the newest uploads of a tenant.
    public init(tenant: String, limit: Int = Limits.listLimitDefault) {
        self.tenant = tenant
        self.limit = limit
    }
}
