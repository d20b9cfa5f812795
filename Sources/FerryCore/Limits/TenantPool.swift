/// Something that a node has a limited amount of, divided among tenants: memory of request bodies, streams,
/// requests to other nodes.
///
/// A tenant may take as much as it leaves free: half of all if no other tenant takes any, else less. Whatever
/// one tenant takes, as much is left for the others.
package struct TenantPool: Sendable {
    /// The whole amount.
    package let capacity: Int
    /// Amount that is taken.
    package private(set) var taken = 0
    /// Amounts by tenant, without zeros.
    private var takenByTenant: [String: Int] = [:]

    /// Creates a pool of which nothing is taken.
    package init(capacity: Int) { self.capacity = capacity }

    /// The most that one tenant can take.
    package var shareMax: Int { capacity / 2 }

    /// Takes `count` for a tenant. Returns `false`, without a change, if the tenant would have more than it
    /// leaves free.
    package mutating func take(_ count: Int = 1, for tenant: String) -> Bool {
        let own = takenByTenant[tenant, default: 0] + count
        guard own <= capacity - taken - count else { return false }
        taken += count
        takenByTenant[tenant] = own
        return true
    }

    /// Gives back `count` that a tenant has taken.
    package mutating func release(_ count: Int = 1, of tenant: String) {
        taken -= count
        let own = takenByTenant[tenant, default: 0] - count
        takenByTenant[tenant] = own > 0 ? own : nil
    }
}
