package import FerryCore
internal import HTTPServer

/// Commands of operators to the service and its nodes.
package protocol ServiceControl: Sendable {
    /// Pauses or resumes the service: while it is paused, no node leases jobs.
    func pause(_ isPaused: Bool, reply: @escaping Reply<Void>)
    /// Drains or resumes a node: a draining node leases no jobs. An unknown node is `notFound`.
    func drain(_ node: NodeID, _ drains: Bool, reply: @escaping Reply<NodeStatus>)
    /// Replies with all nodes.
    func nodes(reply: @escaping Reply<[NodeStatus]>)
}

/// Counts the unfinished jobs of tenants.
package protocol TenantReader: Sendable {
    /// Replies with the tenants that have unfinished jobs.
    func tenants(reply: @escaping Reply<[TenantStatus]>)
}

/// Commands of operators.
final class ServiceControlHandlers: Sendable {
    private let control: any ServiceControl
    private let tenants: any TenantReader

    init(_ ports: APIPorts) {
        control = ports.store
        tenants = ports.tenants
    }

    /// `POST /v1/admin/pause`
    func pause(_ request: RequestContext) throws(Problem) { try pause(true, request) }

    /// `POST /v1/admin/resume`
    func resume(_ request: RequestContext) throws(Problem) { try pause(false, request) }

    private func pause(_ isPaused: Bool, _ request: RequestContext) throws(Problem) {
        try request.needEmptyObject()
        control.pause(
            isPaused,
            reply: request.onSuccess {
                var writer = JSONWriter()
                writer.beginObject()
                writer.member("paused", isPaused)
                writer.endObject()
                request.send(200, json: writer.bytes)
            })
    }

    /// `POST /v1/admin/nodes/{id}/drain`
    func drainNode(_ request: RequestContext) throws(Problem) { try drain(true, request) }

    /// `POST /v1/admin/nodes/{id}/resume`
    func resumeNode(_ request: RequestContext) throws(Problem) { try drain(false, request) }

    private func drain(_ drains: Bool, _ request: RequestContext) throws(Problem) {
        let id = try request.identifier(NodeID.self)
        try request.needEmptyObject()
        control.drain(
            id, drains,
            reply: request.onSuccess { node in
                var writer = JSONWriter()
                node.write(into: &writer)
                request.send(200, json: writer.bytes)
            })
    }

    /// `GET /v1/admin/tenants`
    func listTenants(_ request: RequestContext) throws(Problem) {
        let (limit, name) = try request.page { cursor throws(Problem) -> String in
            try NameCursor.tenant.name(cursor, where: APIKey.isTenant)
        }
        tenants.tenants(
            reply: request.onSuccess { tenants in
                let rest = tenants.filter { tenant in name.map { tenant.tenant > $0 } ?? true }
                    .sorted { $0.tenant < $1.tenant }
                let page = Page(rest, limit: limit) { NameCursor.tenant.text($0.tenant) }
                page.send(request, reservingCapacity: page.shown.count * 128) { $0.write(into: &$1) }
            })
    }
}

extension TenantStatus {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("tenant", tenant)
        writer.member("waiting", waiting)
        writer.member("queued", queued)
        writer.member("running", running)
        writer.member("suspended", suspended)
        writer.endObject()
    }
}

extension NodeStatus {
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("name", name)
        writer.member("version", version)
        writer.member("started_at", startedAt)
        writer.member("heartbeat_age_seconds", heartbeatAgeSeconds)
        writer.member("running", running)
        writer.member("draining", isDraining)
        writer.member("worker", isWorker)
        writer.endObject()
    }
}
