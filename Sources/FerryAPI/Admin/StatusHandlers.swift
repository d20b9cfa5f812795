internal import FerryCore
internal import HTTPServer

/// Shows the state of the service and its nodes.
final class StatusHandlers: Sendable {
    private let node: any NodeOperations
    private let control: any ServiceControl
    private let version: String
    private let uptime: @Sendable () -> Double

    init(_ ports: APIPorts, version: String) {
        node = ports.node
        control = ports.store.control
        uptime = ports.uptime
        self.version = version
    }

    /// `GET /v1/admin/status`
    func read(_ request: RequestContext) {
        node.status(
            reply: request.onSuccess { [version, uptime] status in
                let shown = Status(service: status, version: version, uptime: uptime())
                request.send(200, json: shown.shown(reservingCapacity: 1_024))
            })
    }

    /// `GET /v1/admin/nodes`
    func listNodes(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: NodeID.self)
        control.nodes(
            reply: request.onSuccess { nodes in
                let rest = nodes.filter { node in before.map { node.id < $0 } ?? true }
                Page(rest.sorted { $0.id > $1.id }, limit: limit) { $0.id }
                    .send(request, reservingCapacity: 2_048)
            })
    }
}

/// The response of `GET /v1/admin/status`.
struct Status: ShownObject {
    static let summary = "State of the service. The numbers of unfinished jobs are exact."
    static let schemaName = "Status"

    fileprivate let service: ServiceStatus
    fileprivate let version: String
    fileprivate let uptime: Double

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("version", \.version, "Version of Ferry on the node that responds.")
        list.member("uptime_seconds", \.uptime, "Seconds since the start of the node that responds.")
        list.member("paused", \.service.store.isPaused, "true if the service is paused: no node begins jobs.")
        list.member(
            "held", \.service.store.isHeld,
            "true if the pause also holds deliveries, schedules and probes of hosts (FERRY_PAUSED).")
        list.member("nodes", { $0.service.store.nodes.map(StatusNode.init) }, "The nodes of the cluster.")
        list.object(
            "jobs", named: "StatusJobs",
            "Numbers of unfinished jobs. A job counts until its terminal state is committed."
        ) { list in
            list.member("waiting", \.service.store.waiting, "Number of waiting jobs.")
            list.member("queued", \.service.store.queued, "Number of queued jobs.")
            list.member("running", \.service.store.running, "Number of running jobs.")
            list.member("suspended", \.service.store.suspended, "Number of suspended jobs.")
        }
        list.member(
            "oldest_queued_seconds", \.service.store.oldestQueuedSeconds,
            "Age of the oldest queued job in seconds, since its acceptance or since it last became queued; "
                + "null if none is queued. Only the first job of each queue counts. A request reads 200 "
                + "queues; the next request to the same node reads the next 200.")
        node(&list)
    }

    private static func node(_ list: inout some MemberVisitor<Self>) {
        list.object("throughput", named: "StatusThroughput", "Throughput of the node that responds.") {
            list in
            list.member(
                "bytes_received_per_second", \.service.bytesReceivedPerSecond,
                "Bytes received per second.")
            list.member("bytes_sent_per_second", \.service.bytesSentPerSecond, "Bytes sent per second.")
            list.member(
                "jobs_finished_per_second", \.service.jobsFinishedPerSecond,
                "Jobs finished per second.")
        }
        list.object(
            "database", named: "StatusDatabase", "Connection of the responding node to the database."
        ) { list in
            list.member("ok", \.service.isDatabaseOK, "true if the node reaches the database.")
            list.member(
                "round_trip_seconds", \.service.store.roundTripSeconds,
                "Duration of the last heartbeat in seconds, or null before the first.")
        }
        list.object("storage", named: "StatusStorage", "Storage of the node that responds.") { list in
            list.member(
                "free_bytes", \.service.storageFreeBytes,
                "Free bytes of the node's disk with the least space for files, or null if not known.")
            list.member(
                "holds_downloads", \.service.holdsDownloads,
                "true if the node begins no downloads because its disk is nearly full or not writable.")
        }
        list.object(
            "webhooks", named: "StatusWebhooks", "Deliveries that are neither accepted nor given up."
        ) { list in
            list.member("pending", \.service.store.deliveriesPending, "Number of pending deliveries.")
            list.member(
                "oldest_pending_seconds", \.service.store.oldestDeliverySeconds,
                "Age of the oldest pending delivery in seconds, or null if none is pending.")
        }
    }
}

private struct StatusNode: ShownObject {
    static let summary = "A node of the cluster, in the status."
    static let schemaName = "StatusNode"

    let node: NodeStatus

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.node.id, "Identifier of the node.")
        list.member("heartbeat_age_seconds", \.node.heartbeatAgeSeconds, "Seconds since the last heartbeat.")
        list.member("running", \.node.running, "Number of attempts that run on the node.")
        list.member("dead", \.node.isDead, NodeStatus.deadText)
        list.member("draining", \.node.isDraining, NodeStatus.drainingText)
        list.member("url", \.node.url, NodeStatus.urlText)
    }
}
