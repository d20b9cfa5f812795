internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// Memory of a node for request bodies. A body counts from its header fields until its response. A tenant may
/// use as much as it leaves free: half of the memory if no other tenant uses any, else less. Any thread.
final class BodyBudget: Sendable {
    private struct State {
        var taken = 0
        /// Bytes by tenant, without zeros.
        var takenByTenant: [String: Int] = [:]
    }
    private let capacity: Int
    private let state = Mutex(State())

    /// `capacity` in bytes.
    init(capacity: Int) { self.capacity = capacity }

    /// Size of the largest body that can fit, in bytes.
    var largest: Int { capacity / 2 }

    /// Bytes in use.
    var taken: Int { state.withLock { $0.taken } }

    /// Returns the account of one body of a tenant.
    func reservation(for tenant: String, requestID: String) -> any BodyReservation {
        BodyShare(self, tenant: tenant, requestID: requestID)
    }

    fileprivate func take(_ count: Int, for tenant: String) -> Bool {
        state.withLock { state in
            let own = state.takenByTenant[tenant, default: 0] + count
            guard own <= capacity - state.taken - count else { return false }
            state.taken += count
            state.takenByTenant[tenant] = own
            return true
        }
    }

    fileprivate func release(_ count: Int, of tenant: String) {
        state.withLock { state in
            state.taken -= count
            let own = state.takenByTenant[tenant, default: 0] - count
            state.takenByTenant[tenant] = own > 0 ? own : nil
        }
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
