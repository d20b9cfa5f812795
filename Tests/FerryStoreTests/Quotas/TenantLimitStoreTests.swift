import FerryCore
import FerryStore
import Postgres
import Synchronization
import TestSupport
import TestThreads
import Testing

@Suite("Limits of tenants in the database", .onOwnThread)
struct TenantLimitStoreTests {
    @Test("limits are stored and sent to every node; a heartbeat finds them without a notification")
    func propagation() throws {
        let database = try TestDatabase(template: template)
        let quotas = (0..<3).map { _ in TenantQuotas() }
        let nodes = try quotas.enumerated().map { index, quotas in
            try TestNode(database.url, leaseSeconds: index == 2 ? 2 : nil) {
                $0.quotas = quotas
                $0.listens = index < 2
            }
        }
        defer { for node in nodes { node.store.stop() } }
        let store = nodes[0].store
        #expect(try wait { store.tenantLimits.tenantLimits("acme", reply: $0) }.get() == TenantLimits())
        let limits = TenantLimits(jobCountMax: 5, requestsPerSecond: 9)
        #expect(try nodes[0].limit("acme", limits) == limits)
        #expect(quotas[0].limits(of: "acme") == limits, "this node knows them at once")
        eventually("every node knows them") {
            quotas.allSatisfy { $0.limits(of: "acme") == limits && $0.limits(of: "other") == nil }
        }
        #expect(try wait { nodes[1].store.tenantLimits.tenantLimits("acme", reply: $0) }.get() == limits)
        let refused = wait { reply in
            nodes[1].store.tenantLimits.replaceTenantLimits(
                "acme", TenantLimits(), if: { _ in false }, reply: reply)
        }
        #expect(throws: StoreError.stale(revision: nil)) { try refused.get() }
        #expect(try nodes[1].limit("acme", TenantLimits()) == TenantLimits())
        eventually("every node has forgotten them") { quotas.allSatisfy { $0.limits(of: "acme") == nil } }
    }
}

extension TestNode {
    /// Sets the limits of a tenant.
    @discardableResult
    func limit(_ tenant: String, _ limits: TenantLimits) throws -> TenantLimits {
        try wait { reply in
            store.tenantLimits.replaceTenantLimits(tenant, limits, if: { _ in true }, reply: reply)
        }.get()
    }
}
