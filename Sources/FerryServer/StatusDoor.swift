import FerryAPI
import FerryCore
import FerryEngine
import FerryStore

extension StoreDoor: StatusSource {
    func status(reply: @escaping FerryAPI.Reply<ServiceStatus>) {
        control.status { result in
            reply(
                result.map { stored in
                    var status = ServiceStatus()
                    status.nodes = stored.nodes.map(NodeStatus.init)
                    status.waiting = stored.waiting
                    status.queued = stored.queued
                    status.running = stored.running
                    status.suspended = stored.suspended
                    status.oldestQueuedSeconds = stored.oldestQueuedSeconds
                    status.webhooksPending = stored.deliveriesPending
                    status.oldestWebhookPendingSeconds = stored.oldestDeliverySeconds
                    status.databaseRoundTripSeconds = stored.roundTripSeconds
                    status.isDatabaseOK = store.isReady
                    status.storageFreeBytes = health.freeBytes
                    let counts = engine?.snapshot
                    let rates = throughput.rates(
                        received: counts?.bytesReceived ?? 0, sent: counts?.bytesSent ?? 0,
                        finished: store.metrics.recordedResults)
                    status.bytesReceivedPerSecond = rates.bytesReceived
                    status.bytesSentPerSecond = rates.bytesSent
                    status.jobsFinishedPerSecond = rates.jobsFinished
                    return status
                })
        }
    }

    func nodes(reply: @escaping FerryAPI.Reply<[NodeStatus]>) {
        control.nodes { reply($0.map { $0.map(NodeStatus.init) }) }
    }
}

extension NodeStatus {
    fileprivate init(_ record: NodeRecord) {
        self.init(
            id: record.id, name: record.name, version: record.version, startedAt: record.startedAt,
            heartbeatAgeSeconds: record.heartbeatAgeSeconds, running: Int64(record.running),
            isDraining: record.isDraining)
    }
}
