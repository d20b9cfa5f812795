package import FerryCore
internal import HTTPServer

/// What operators tell the service to do.
package protocol ServiceControl: Sendable {
    /// Whether nothing new is leased on any node.
    func pause(_ isPaused: Bool, reply: @escaping Reply<Void>)
    /// Whether a node leases nothing; `notFound` when there is no such node.
    func drain(_ node: NodeID, _ drains: Bool, reply: @escaping Reply<NodeStatus>)
    /// The tenants that have unfinished jobs.
    func tenants(reply: @escaping Reply<[TenantStatus]>)
}

extension API {
    /// `POST /v1/admin/pause`
    func pauseService(_ call: RequestContext) { pause(true, call) }

    /// `POST /v1/admin/resume`
    func resumeService(_ call: RequestContext) { pause(false, call) }

    private func pause(_ isPaused: Bool, _ call: RequestContext) {
        call.answering { () throws(Problem) in
            try needEmptyObject(call)
            ports.operations.pause(isPaused) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success:
                    var writer = JSONWriter()
                    writer.beginObject()
                    writer.member("paused", isPaused)
                    writer.endObject()
                    call.send(200, json: writer.bytes)
                }
            }
        }
    }

    /// `POST /v1/admin/nodes/{id}/drain`
    func drainNode(_ call: RequestContext) { drain(true, call) }

    /// `POST /v1/admin/nodes/{id}/resume`
    func resumeNode(_ call: RequestContext) { drain(false, call) }

    private func drain(_ drains: Bool, _ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(NodeID.self)
            try needEmptyObject(call)
            ports.operations.drain(id, drains) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let node):
                    var writer = JSONWriter()
                    node.write(into: &writer)
                    call.send(200, json: writer.bytes)
                }
            }
        }
    }

    /// `GET /v1/admin/tenants`
    func listTenants(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, name) = try call.page { cursor throws(Problem) -> String in
                try NameCursor.tenant.name(cursor, where: APIKey.isTenant)
            }
            ports.operations.tenants { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let tenants):
                    let rest = tenants.filter { tenant in name.map { tenant.tenant > $0 } ?? true }
                        .sorted { $0.tenant < $1.tenant }
                    let shown = rest.prefix(limit)
                    let next = rest.count > limit ? shown.last?.tenant : nil
                    Page(shown, nextCursor: next.map(NameCursor.tenant.text))
                        .send(call, reservingCapacity: shown.count * 128) { $0.write(into: &$1) }
                }
            }
        }
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
