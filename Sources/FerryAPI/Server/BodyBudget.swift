internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// Memory of a node for request bodies. A body counts from its header fields until its response. `TenantPool`
/// divides the memory among the tenants. Any thread.
final class BodyBudget: Sendable {
    private let pool: Mutex<TenantPool>

    /// Size of the largest body that can fit, in bytes.
    let largest: Int

    /// `capacity` in bytes.
    init(capacity: Int) {
        let pool = TenantPool(capacity: capacity)
        largest = pool.shareMax
        self.pool = Mutex(pool)
    }

    /// Bytes in use.
    var taken: Int { pool.withLock { $0.taken } }

    /// Returns the account of one body of a tenant.
    func reservation(for tenant: String, requestID: String) -> any BodyReservation {
        BodyShare(self, tenant: tenant, requestID: requestID)
    }

    fileprivate func take(_ count: Int, for tenant: String) -> Bool {
        pool.withLock { $0.take(count, for: tenant) }
    }

    fileprivate func release(_ count: Int, of tenant: String) {
        pool.withLock { $0.release(count, of: tenant) }
    }

    fileprivate var problem: Problem {
        var problem = Problem(
            .overloaded, "This node's memory for request bodies is full; try again later.")
        problem.fields = quotaFields("body-bytes", quota: Int64(largest), seconds: 1)
        return problem
    }
}

/// The memory that one body uses. Releases it when deinitialized.
private final class BodyShare: BodyReservation {
    private let budget: BodyBudget
    private let tenant: String
    private let requestID: String
    private let taken = Atomic(0)

    init(_ budget: BodyBudget, tenant: String, requestID: String) {
        self.budget = budget
        self.tenant = tenant
        self.requestID = requestID
    }

    deinit {
        let count = taken.load(ordering: .relaxed)
        if count > 0 { budget.release(count, of: tenant) }
    }

    func take(_ byteCount: Int) -> Response? {
        let more = byteCount - taken.load(ordering: .relaxed)
        guard more > 0 else { return nil }
        guard budget.take(more, for: tenant) else { return budget.problem.response(requestID: requestID) }
        taken.store(byteCount, ordering: .relaxed)
        return nil
    }
}
