import FerryAPI
import FerryCore
import FerryEngine
import FerryStore

extension StoreAdapter: StatusSource {
    func status(reply: @escaping Reply<ServiceStatus>) {
        control.status { result in
            reply(
                result.map { stored in
                    var status = ServiceStatus(stored)
                    status.isDatabaseOK = store.isReady
                    // Last measured by the engine.
                    status.storageFreeBytes = engine?.storageSpaces.map(\.free).min() ?? health.freeBytes
                    status.holdsDownloads = health.holdsDownloads
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

    func nodes(reply: @escaping Reply<[NodeStatus]>) { control.nodes(reply: reply) }
}
