package import FerryCore
import Postgres
import Synchronization

/// Reads the status of the service. Any thread.
package final class StatusQueries: Sendable {
    private let reads: ReadPool
    private let metrics: StoreMetrics
    private let leaseSeconds: Double
    /// Position of the search for the oldest queued job.
    private let oldestJobSearch = Mutex(OldestJobSearch())

    init(_ reads: ReadPool, _ context: StoreContext) {
        self.reads = reads
        metrics = context.metrics
        leaseSeconds = context.configuration.leaseSeconds
    }

    /// Reads the counts of unfinished work, the age of the oldest job and delivery, and the nodes.
    package func read(reply: @escaping Reply<StoreStatus>) {
        let (metrics, lease) = (metrics, Parameters.nodes(leaseSeconds: leaseSeconds))
        reads.read("status", of: .service, reply) { [self] connection throws(PostgresError) in
            let look = oldestJobSearch.withLock { $0 }
            var results = try connection.pipeline { pipeline in
                pipeline.send(Statements.readStatus, look.parameters)
                pipeline.send(Statements.readNodes, lease)
            }
            let row = results.take(0)
            let nodes = results.take(1)
            let now = row.instant(0, 7)
            let next = OldestJobSearch(
                after: row.int64OrNil(0, 10) ?? .min, oldest: row.identifierOrNil(0, 9))
            oldestJobSearch.withLock { $0 = next }
            let roundTrip = metrics.roundTripNanoseconds.load(ordering: .relaxed)
            return .success(
                StoreStatus(
                    waiting: row.int64(0, 0), queued: row.int64(0, 1), running: row.int64(0, 2),
                    suspended: row.int64(0, 3), deliveriesPending: row.int64(0, 4),
                    oldestQueuedSeconds: row.instantOrNil(0, 5).map { max(0, now - $0) },
                    oldestDeliverySeconds: row.instantOrNil(0, 6).map { max(0, now - $0) },
                    nodes: (0..<nodes.rowCount).map { NodeStatus(nodes, $0) },
                    roundTripSeconds: roundTrip < 0 ? nil : Double(roundTrip) / 1e9,
                    isPaused: row.bool(0, 8), isHeld: row.bool(0, 11)))
        }
    }
}

/// Search for the job that has been queued longest. There may be a hundred thousand claim queues. One call
/// looks at some of them, the next call continues after those, and the oldest job found is kept while it is
/// queued.
struct OldestJobSearch: Sendable {
    /// Claim queues of one call: about 2 ms.
    private static let queueCount: Int32 = 200

    var after = Int64.min
    var oldest: JobID?

    /// The parameters of read_status.sql.
    var parameters: Parameters {
        var parameters = Parameters()
        parameters.append(int64: after)
        parameters.append(int32: Self.queueCount)
        parameters.append(oldest)
        return parameters
    }
}

extension Parameters {
    /// The parameters of read_nodes.sql.
    static func nodes(leaseSeconds: Double) -> Parameters {
        var parameters = Parameters()
        parameters.append(float64: leaseSeconds)
        return parameters
    }
}

extension NodeStatus {
    /// Reads a row of read_nodes.sql.
    init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            id: rows.identifier(row, 0), name: rows.text(row, 1), version: rows.text(row, 2),
            startedAt: rows.instant(row, 3), heartbeatAgeSeconds: rows.float64(row, 7),
            running: rows.int32(row, 4), isDraining: rows.bool(row, 5), isWorker: rows.bool(row, 6),
            url: rows.textOrNil(row, 8), isDead: rows.bool(row, 9))
    }
}
