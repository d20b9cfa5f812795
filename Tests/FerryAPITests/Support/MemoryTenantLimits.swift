import FerryCore
import Synchronization

@testable import FerryAPI

extension MemoryStore: TenantLimitStore {
    func tenantLimits(_ tenant: String, reply: @escaping Reply<TenantLimits>) {
        reply(.success(state.withLock { $0.tenantLimits[tenant] ?? TenantLimits() }))
    }

    func replaceTenantLimits(
        _ tenant: String, _ limits: TenantLimits, if isAllowed: @escaping @Sendable (TenantLimits) -> Bool,
        reply: @escaping Reply<TenantLimits>
    ) {
        guard isAllowed(state.withLock { $0.tenantLimits[tenant] ?? TenantLimits() }) else {
            return reply(.failure(.stale(revision: nil)))
        }
        state.withLock { $0.tenantLimits[tenant] = limits }
        reply(.success(limits))
    }
}
