import FerryCore
import Postgres
import Synchronization

/// Transaction that queues discretionary jobs (those whose begin the service chooses). An advisory lock lets
/// one node at a time run it.
struct DiscretionaryTransaction {
    /// Advisory lock "ferrydsc".
    private static let lock: Int64 = 0x6665_7272_7964_7363
    private static let usageSetting = "discretionary_usage"
    /// Maximum number of jobs that one transaction starts.
    private static let batchMax = 50

    let context: StoreContext
    let nodeState: NodeState
    let now: Timestamp
    /// Maximum number of jobs to start on this node: half of its slots stay free for other jobs.
    private let countMax: Int

    init(context: StoreContext, nodeState: NodeState, now: Timestamp) {
        self.context = context
        self.nodeState = nodeState
        self.now = now
        let slots = context.configuration.slots
        countMax = min(Self.batchMax, (slots.capacity + 1) / 2 - slots.busyCount)
    }

    /// Queues jobs whose off-peak window is open and returns their number.
    func commit(_ connection: inout Connection, _ windows: OffPeakWindows) throws(PostgresError) -> Int {
        // Free slots are the criterion, not the queue: jobs that are queued although slots are free wait for
        // their host or session.
        guard nodeState.isLeasing.load(ordering: .relaxed), countMax > 0 else { return 0 }
        let named = windows.discretionary
        let zones = context.configuration.zones
        guard named.isEmpty || named.contains(where: { $0.opening(at: now, zones) != nil }) else { return 0 }
        return try connection.transaction { connection throws(PostgresError) in
            guard try connection.execute(Statements.tryLock, .int64(Self.lock)).bool(0, 0) else { return 0 }
            let before = try Self.usage(&connection)
            let byteCountMax = Discretion.Release.byteCountMax(windows, usage: before, at: now, zones)
            guard byteCountMax != 0 else { return 0 }
            let candidates = try candidates(&connection, byteCountMax)
            guard !candidates.isEmpty else { return 0 }
            let release = Discretion.Release(candidates, windows, usage: before, at: now, zones)
            guard !release.jobs.isEmpty else { return 0 }
            let starts = release.jobs.map { JobChange(.startDiscretionary, $0) }
            let count = try ChangedJob.commit(starts, &connection).count
            if release.usage != before {
                var setting = Parameters()
                setting.append(text: Self.usageSetting)
                setting.append(bytea: Discretion.Release.encode(release.usage))
                _ = try connection.execute(Statements.setSetting, setting)
            }
            return count
        }
    }

    private func candidates(
        _ connection: inout Connection, _ byteCountMax: Int64?
    ) throws(PostgresError) -> [Discretion.Release.Candidate] {
        var parameters = Parameters()
        parameters.append(int32: Int32(countMax))
        parameters.append(now)
        parameters.append(int64: byteCountMax)
        parameters.append(int64: Discretion.unknownByteCount)
        let rows = try connection.execute(Statements.discretionaryJobs, parameters)
        return (0..<rows.rowCount).map {
            Discretion.Release.Candidate(job: rows.identifier($0, 0), byteCount: rows.int64OrNil($0, 1))
        }
    }

    static func usage(
        _ connection: inout Connection
    ) throws(PostgresError) -> [String: Discretion.Release.Usage] {
        var parameters = Parameters()
        parameters.append(text: usageSetting)
        let rows = try connection.execute(Statements.readSetting, parameters)
        return rows.rowCount == 1 ? Discretion.Release.usage(storedJSON: rows.bytes(0, 0)) : [:]
    }
}

extension JobChange {
    /// Lets the service choose when a job that waits for its begin date begins: at its due time at the
    /// latest.
    init(deferring job: JobID, _ spec: JobSpec, now: Timestamp) {
        self.init(.deferStart, job)
        let earliest = max(now, spec.schedule.earliestBeginAt ?? now)
        discretionary = (earliest, spec.expectedByteCount)
    }
}
