/// Something that a node has a limited amount of, divided among tenants: memory of request bodies, streams,
/// requests to other nodes.
///
/// A tenant may take as much as it leaves free: half of all if no other tenant takes any, else less. Whatever
/// one tenant takes, as much is left for the others. A pool can have a reserve for tenants that have nothing:
/// each can take from it once, at most half of what is left.
public struct TenantPool: Sendable {
    /// The whole amount.
    public let capacity: Int
    /// Amount that is taken.
    public private(set) var taken = 0
    /// Amounts by tenant, without zeros.
    private var takenByTenant: [String: Int] = [:]

    /// Creates a pool without a reserve, of an amount that one user takes in several steps.
    public init(capacity: Int) {
        self.capacity = capacity
        reserve = 0
    }

    /// Creates a pool of items that are taken one by one, a quarter of them as the reserve.
    public init(itemCount: Int) {
        capacity = itemCount
        reserve = itemCount / 4
    }

    /// Amount that is left to tenants that have nothing.
    private let reserve: Int

    /// The most that one tenant can take.
    public var shareMax: Int { capacity / 2 }

    /// Takes `count` for a tenant. Returns `false`, without a change, if the tenant would have more than it
    /// leaves free, or would take from the reserve and has something.
    public mutating func take(_ count: Int = 1, for tenant: String) -> Bool {
        let (own, free) = (takenByTenant[tenant, default: 0], capacity - taken)
        // From the reserve, the very last one of all can be taken too.
        let isAllowed =
            own == 0 && reserve > 0
            ? count <= (free + 1) / 2 : own + count <= free - count && count <= free - reserve
        guard isAllowed else { return false }
        taken += count
        takenByTenant[tenant] = own + count
        return true
    }

    /// Gives back `count` that a tenant has taken.
    public mutating func release(_ count: Int = 1, of tenant: String) {
        taken -= count
        let own = takenByTenant[tenant, default: 0] - count
        takenByTenant[tenant] = own > 0 ? own : nil
    }
}
