import FerryAPI
import FerryCore
import FerryStore

extension StoreAdapter: ServiceControl {
    func pause(_ isPaused: Bool, reply: @escaping Reply<Void>) { control.pause(isPaused, reply: reply) }

    func drain(_ node: NodeID, _ drains: Bool, reply: @escaping Reply<NodeStatus>) {
        control.drain(node, drains, reply: reply)
    }

    func tenants(reply: @escaping Reply<[TenantStatus]>) { store.tenantCounts.tenants(reply: reply) }
}

extension StoreAdapter: AuditLog {
    func beginAudit(_ entry: AuditEntry, reply: @escaping Reply<Void>) {
        control.beginAudit(entry, reply: reply)
    }

    func endAudit(_ id: AuditID, status: Int, body: [UInt8]?, reply: @escaping Reply<Void>) {
        control.endAudit(id, status: status, body: body, reply: reply)
    }

    func audit(before: AuditID?, limit: Int, reply: @escaping Reply<[AuditEntry]>) {
        control.audit(before: before, limit: limit, reply: reply)
    }
}
