internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// The memory of a node for request bodies, from their headers until they are answered. A tenant gets no more
/// than it leaves for others: half of it when it is alone, less when others have taken theirs.
final class BodyBudget: Sendable {
    private struct State {
        var taken = 0
        /// Only those that have something.
        var ofTenants: [String: Int] = [:]
    }
    private let capacity: Int
    private let state = Mutex(State())

    /// Bytes.
    init(capacity: Int) { self.capacity = capacity }

    /// Bytes of the largest body that there is ever room for.
    var largest: Int { capacity / 2 }

    /// Bytes that are taken now.
    var taken: Int { state.withLock { $0.taken } }

    /// Room for one body of a tenant.
    func room(for tenant: String, requestID: String) -> any BodyRoom {
        BodyShare(self, tenant: tenant, requestID: requestID)
    }

    fileprivate func take(_ count: Int, for tenant: String) -> Bool {
        state.withLock { state in
            let own = state.ofTenants[tenant, default: 0] + count
            guard own <= capacity - state.taken - count else { return false }
            state.taken += count
            state.ofTenants[tenant] = own
            return true
        }
    }

    fileprivate func giveBack(_ count: Int, of tenant: String) {
        state.withLock { state in
            state.taken -= count
            let own = state.ofTenants[tenant, default: 0] - count
            state.ofTenants[tenant] = own > 0 ? own : nil
        }
    }

    fileprivate var problem: Problem {
        var problem = Problem(
            .overloaded, "Bodies of requests fill the memory that this node has for them; ask again.")
        problem.fields = quotaFields("body-bytes", quota: Int64(largest), seconds: 1)
        return problem
    }
}

/// What one body has of it.
private final class BodyShare: BodyRoom {
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
        if count > 0 { budget.giveBack(count, of: tenant) }
    }

    func take(_ byteCount: Int) -> Response? {
        let more = byteCount - taken.load(ordering: .relaxed)
        guard more > 0 else { return nil }
        guard budget.take(more, for: tenant) else { return budget.problem.response(requestID: requestID) }
        taken.store(byteCount, ordering: .relaxed)
        return nil
    }
}
