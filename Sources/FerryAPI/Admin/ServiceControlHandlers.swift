public import FerryCore
internal import HTTPServer

/// Commands of operators to the service and its nodes.
package protocol ServiceControl: Sendable {
    /// Pauses or resumes the service: while it is paused, no node leases jobs.
    func pause(_ isPaused: Bool, reply: @escaping Reply<Void>)
    /// Drains or resumes a node: a draining node leases no jobs, finishes its attempts and is not ready. An
    /// unknown node is `notFound`.
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
        control = ports.store.control
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
                request.send(200, json: Pause(isPaused: isPaused).shown())
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
                request.send(200, json: node.shown())
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
                page.send(request, reservingCapacity: page.shown.count * 128)
            })
    }
}

/// The response to the commands that pause and resume the service.
struct Pause: ShownObject {
    static let summary = "Whether the service is paused."
    static let schemaName = "Pause"
    fileprivate let isPaused: Bool

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("paused", \.isPaused, "true if no node begins jobs.")
    }
}

extension TenantStatus: ShownObject {
    public static let summary = "Numbers of unfinished jobs of a tenant."
    public static let schemaName = "TenantJobs"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("tenant", \.tenant, "Name of the tenant.")
        list.member("waiting", \.waiting, "Number of waiting jobs of the tenant.")
        list.member("queued", \.queued, "Number of queued jobs of the tenant.")
        list.member("running", \.running, "Number of running jobs of the tenant.")
        list.member("suspended", \.suspended, "Number of suspended jobs of the tenant.")
    }
}

extension NodeStatus: ShownObject {
    public static let summary = "A node of the cluster."
    public static let schemaName = "Node"

    /// Description of `draining`, wherever nodes are shown.
    static let drainingText =
        "true if the node drains: it starts no jobs, finishes those that run, and serves the API; its "
        + "/readyz is 503."

    /// Description of `url`, wherever nodes are shown.
    static let urlText =
        "Address at which other nodes reach the node (FERRY_NODE_URL), or null if it advertises none."

    /// Description of `dead`, wherever nodes are shown.
    static let deadText =
        "true if the node has sent no heartbeat for the time of a lease (15 s): other nodes run its jobs."

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the node.")
        list.member("name", \.name, "Name of the node.")
        list.member("version", \.version, "Version of Ferry on the node.")
        list.member("started_at", \.startedAt, "Time of the node's start.")
        list.member("heartbeat_age_seconds", \.heartbeatAgeSeconds, "Seconds since the last heartbeat.")
        list.member("running", \.running, "Number of attempts that run on the node.")
        list.member("dead", \.isDead, deadText)
        list.member("draining", \.isDraining, drainingText)
        list.member("worker", \.isWorker, "true if the node runs transfers.")
        list.member("url", \.url, urlText)
    }
}
