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
        control = ports.store
        uptime = ports.uptime
        self.version = version
    }

    /// `GET /v1/admin/status`
    func read(_ request: RequestContext) {
        node.status(reply: request.onSuccess { [self] status in request.send(200, json: json(status)) })
    }

    private func json(_ status: ServiceStatus) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 1_024)
        writer.beginObject()
        writer.member("version", version)
        writer.member("uptime_seconds", uptime())
        writer.member("paused", status.store.isPaused)
        writer.name("nodes")
        writer.beginArray()
        for node in status.store.nodes {
            writer.beginObject()
            writer.member("id", node.id)
            writer.member("heartbeat_age_seconds", node.heartbeatAgeSeconds)
            writer.member("running", node.running)
            writer.member("draining", node.isDraining)
            writer.endObject()
        }
        writer.endArray()
        writer.name("jobs")
        writer.beginObject()
        writer.member("waiting", status.store.waiting)
        writer.member("queued", status.store.queued)
        writer.member("running", status.store.running)
        writer.member("suspended", status.store.suspended)
        writer.endObject()
        writer.memberOrNull("oldest_queued_seconds", status.store.oldestQueuedSeconds)
        writer.name("throughput")
        writer.beginObject()
        writer.member("bytes_received_per_second", status.bytesReceivedPerSecond)
        writer.member("bytes_sent_per_second", status.bytesSentPerSecond)
        writer.member("jobs_finished_per_second", status.jobsFinishedPerSecond)
        writer.endObject()
        writer.name("database")
        writer.beginObject()
        writer.member("ok", status.isDatabaseOK)
        writer.memberOrNull("round_trip_seconds", status.store.roundTripSeconds)
        writer.endObject()
        writer.name("storage")
        writer.beginObject()
        writer.memberOrNull("free_bytes", status.storageFreeBytes)
        writer.member("holds_downloads", status.holdsDownloads)
        writer.endObject()
        writer.name("webhooks")
        writer.beginObject()
        writer.member("pending", status.store.deliveriesPending)
        writer.memberOrNull("oldest_pending_seconds", status.store.oldestDeliverySeconds)
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }

    /// `GET /v1/admin/nodes`
    func listNodes(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: NodeID.self)
        control.nodes(
            reply: request.onSuccess { nodes in
                let rest = nodes.filter { node in before.map { node.id < $0 } ?? true }
                Page(rest.sorted { $0.id > $1.id }, limit: limit) { $0.id }
                    .send(request, reservingCapacity: 2_048) { $0.write(into: &$1) }
            })
    }
}
