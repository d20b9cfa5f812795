import FerryCore
import FerryScheduler
import Postgres

/// Jobs that one transaction leases from each claim queue, and the queues that it scans.
struct Claims: Sendable {
    /// A request for jobs of a narrow claim queue.
    struct Narrow: Sendable {
        let request: ClaimSchedule.Request
        /// Jobs that are asked for: fewer than the request if this node counts connections, and fewer are
        /// free.
        let count: Int
        /// Connections per host of its session that running rows count against; `nil` for no limit.
        let sessionLimit: Int?
    }
    var wide: [ClaimSchedule.Request] = []
    /// Urgency of the first job that may still be in a wide claim queue, where it is known.
    var heads: [Int64: Timestamp] = [:]
    /// Wide claim queues whose session has a limit by now. Their jobs move to narrow ones.
    var limited: Set<Int64> = []
    /// Wide claim queues that may have jobs of limited or unreachable origins. The claim skips those jobs.
    var suspects: Set<Int64> = []
    /// `true` if this transaction moves the first skipped jobs to narrow claim queues, or lets them wait for
    /// their origins. Not every transaction does: it costs work for each row.
    var mayDivert = false
    /// Further wide claim queues whose skipped jobs are moved. Nothing is leased from them.
    var pausedQueues: [ClaimQueue] = []
    var narrow: [Narrow] = []
    var requests: [ClaimSchedule.Request] { wide + narrow.map(\.request) }
    /// Narrow claim queues without a path that may have jobs of paths with limits of their own. The claim
    /// skips those jobs, and `mayDivert` moves the first of them.
    var mixed: Set<Int64> = []
    /// A scan begins behind this claim queue; `nil` for no scan.
    var scanAfter: Int64?
    /// `true` if some scope of an origin has a limit.
    var hasLimits = false
    /// `true` if some origin is known to be unreachable.
    var hasUnreachable = false
    /// Claim queues whose first jobs wait for connectivity if their origin is unreachable.
    var unreachable: [ClaimQueue] = []
    /// The wide claim queues of sessions with a connection limit.
    var limitedSessions: [Int64] = []
    /// `true` if the claim prefetches: some of the leased jobs may find no free slot.
    var prefetches = false
    /// `true` if running jobs of this node move to narrow claim queues, where limits count them.
    var countsRunning: Bool { scanAfter == .min && (hasLimits || !limitedSessions.isEmpty) }

    var isEmpty: Bool { wide.isEmpty && narrow.isEmpty && pausedQueues.isEmpty && scanAfter == nil }

    /// A claim queue with queued jobs that a scan has found, or to which jobs were moved.
    struct Found: Sendable {
        let queue: ClaimQueue
        /// Urgency of its first job.
        let head: Timestamp
        /// Requests that the limits of its scopes allow at once; `nil` for no limit.
        var hostLimit: Int?
        /// End of a hold of its scopes; `nil` for none.
        var blockedUntil: Timestamp?
        /// `true` if any node may lease its jobs, because the only node that should is gone.
        var isHomeGone = false
    }

    struct Outcome: Sendable {
        var jobs: [StoredJob] = []
        /// The claim queues of `jobs`, in the same order.
        var queues: [Int64] = []
        /// By claim queue: how many jobs were leased, and the urgency of the last one.
        var leased: [Int64: (count: Int, last: Timestamp?)] = [:]
        /// Claim queues some of whose jobs were moved to others, or wait for connectivity now.
        var diverted: Set<Int64> = []
        /// By claim queue: the urgency up to which the claim has read, where it has not read all jobs.
        var windows: [Int64: Timestamp] = [:]
        /// Jobs that wait for connectivity now.
        var awaitedCount = 0
        var found: [Found] = []
        /// Epoch of the sessions, as the newest of `jobs` may know it.
        var sessionEpoch: Int64 = -1
        /// `true` if a job was not leased because its request must not be sent twice and it might find no
        /// free slot.
        var passesOver = false
        /// Claim queues of queued jobs that do not exist.
        var lost: Set<Int64> = []
        /// By narrow claim queue: jobs that its limits allow now, and the end of a hold. A claim queue that
        /// another node claims from just now is not in it.
        var permits: [Int64: (count: Int, blockedUntil: Timestamp?)] = [:]
        /// Running jobs whose narrow claim queues had to be created. The next scan moves them.
        var uncountedCount: Int64 = 0
        /// Position after which the next scan goes on; `nil` if this one is complete.
        var scannedUpTo: Int64?
    }

    /// Returns `true` if the first jobs of a wide claim queue are checked for those that have to move.
    func diverts(_ queue: ClaimQueue) -> Bool {
        limited.contains(queue.id) || mayDivert && suspects.contains(queue.id)
    }

    private var diverted: [Int64] {
        wide.map(\.queue).filter { diverts($0) }.map(\.id) + pausedQueues.map(\.id)
            + (mayDivert ? mixed.sorted() : [])
    }
    private var diverts: Bool {
        !limited.isEmpty || !pausedQueues.isEmpty || hasLimits && mayDivert && !suspects.isEmpty
            || mayDivert && !mixed.isEmpty
    }

    // MARK: Statements

    /// Rows of a claim queue that one claim skips at most: some ten milliseconds.
    private static let windowMax: Int32 = 5_000

    /// Sends the statements in this order, so that claim queues are locked after everything that may wait for
    /// a lock.
    func send(to pipeline: inout Pipeline, _ context: StoreContext) {
        if diverts { pipeline.send(Statements.divertJobs, diversion) }
        let claimable = wide.filter { !limited.contains($0.queue.id) }
        // Before the claim, which takes rows away.
        if !suspects.isEmpty { pipeline.send(Statements.readClaimBounds, windows) }
        if !claimable.isEmpty { pipeline.send(Statements.claimJobs, claim(claimable, context)) }
        if !narrow.isEmpty {
            pipeline.send(Statements.lockClaimQueues, locks)
            pipeline.send(Statements.readPermits, permits(context))
            pipeline.send(Statements.claimLimitedJobs, limitedClaim(context))
        }
        if countsRunning {
            var parameters = Parameters.identifier(context.configuration.node)
            parameters.appendArray(.int64, limitedSessions) { $0.append(int64: $1) }
            pipeline.send(Statements.divertRunning, parameters)
        }
        if let scanAfter {
            var parameters = Parameters.int64(scanAfter)
            parameters.append(int32: Limits.scanQueueCountMax)
            parameters.append(context.configuration.node)
            parameters.append(float64: context.configuration.leaseSeconds)
            pipeline.send(Statements.scanClaimQueues, parameters)
        }
    }

    private var diversion: Parameters {
        var parameters = Parameters()
        let diverted = diverted
        parameters.appendArray(.int64, diverted) { $0.append(int64: $1) }
        parameters.appendArray(.bool, diverted) { $0.append(bool: limited.contains($1)) }
        // More than the claim asks for, so that a session with a new limit makes progress.
        parameters.append(int32: Int32((wide.map(\.count).max() ?? 0) + Limits.claimBatchMax))
        return parameters
    }

    private func claim(_ requests: [ClaimSchedule.Request], _ context: StoreContext) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.int64, requests) { $0.append(int64: $1.queue.id) }
        parameters.appendArray(.int32, requests) { $0.append(int32: Int32($1.count)) }
        appendLease(to: &parameters, context)
        parameters.append(bool: hasLimits || hasUnreachable)
        parameters.append(bool: prefetches)
        parameters.appendArray(.timestamp, requests) {
            $0.append(timestamp: heads[$1.queue.id]?.microseconds ?? .min)
        }
        parameters.append(float64: context.configuration.leaseSeconds)
        parameters.appendArray(.bool, requests) { $0.append(bool: suspects.contains($1.queue.id)) }
        let node = context.configuration.node
        parameters.appendArray(.uuid, requests) { $0.append($1.queue.home == node ? nil : $1.queue.home) }
        parameters.append(int32: Self.windowMax)
        return parameters
    }

    private var windows: Parameters {
        let queues = Array(suspects)
        var parameters = Parameters()
        parameters.appendArray(.int64, queues) { $0.append(int64: $1) }
        parameters.appendArray(.timestamp, queues) { $0.append(timestamp: heads[$1]?.microseconds ?? .min) }
        parameters.append(int32: Self.windowMax)
        return parameters
    }

    private func limitedClaim(_ context: StoreContext) -> Parameters {
        var parameters = Parameters()
        appendLease(to: &parameters, context)
        parameters.append(bool: hasUnreachable)
        parameters.append(bool: !mixed.isEmpty)
        return parameters
    }

    private func appendLease(to parameters: inout Parameters, _ context: StoreContext) {
        parameters.append(context.configuration.node)
        parameters.append(context.clock.now())
        parameters.append(bool: !context.configuration.downloads.isOpen)
    }

    private var locks: Parameters {
        var parameters = Parameters()
        parameters.appendArray(.int64, narrow) { $0.append(int64: $1.request.queue.id) }
        return parameters
    }

    private func permits(_ context: StoreContext) -> Parameters {
        var parameters = locks
        parameters.appendArray(.int32, narrow) { $0.append(int32: Int32($1.count)) }
        parameters.appendArray(.int32, narrow) {
            $0.append(int32: $1.sessionLimit.map { Int32(clamping: $0) })
        }
        parameters.append(context.configuration.node)
        parameters.append(float64: context.configuration.leaseSeconds)
        return parameters
    }

    // MARK: Results

    /// Reads the results of the statements of `send`; `first` is the place of the first of them.
    func read(_ results: inout PipelineResults, from first: Int, _ log: DamagedRows) -> Outcome {
        var outcome = Outcome()
        var index = first
        func next(_ results: inout PipelineResults) -> ResultSet {
            defer { index += 1 }
            return results.take(index)
        }
        if diverts { outcome.read(diverted: next(&results)) }
        if !suspects.isEmpty {
            let rows = next(&results)
            for row in 0..<rows.rowCount { outcome.windows[rows.int64(row, 0)] = rows.instant(row, 1) }
        }
        let claimable = wide.filter { !limited.contains($0.queue.id) }
        if !claimable.isEmpty {
            // With one claim queue its column need not be read.
            let only = claimable.count == 1 ? claimable[0].queue.id : nil
            outcome.read(leased: next(&results), of: only, inOrder: prefetches, log)
        }
        if !narrow.isEmpty {
            _ = next(&results)
            outcome.read(permits: next(&results))
            outcome.read(leased: next(&results), of: nil, inOrder: false, log)
        }
        if countsRunning { outcome.uncountedCount = next(&results).int64(0, 0) }
        if scanAfter != nil { outcome.read(look: next(&results)) }
        return outcome
    }
}

extension Claims.Outcome {
    /// Reads leased jobs. `inOrder`: sorts them, the most urgent first; otherwise all begin at once.
    fileprivate mutating func read(
        leased rows: borrowing ResultSet, of only: Int64?, inOrder: Bool, _ log: DamagedRows
    ) {
        jobs.reserveCapacity(jobs.count + rows.rowCount)
        if rows.rowCount > 0 { sessionEpoch = rows.int64(0, ClaimColumn.sessionEpoch.rawValue) }
        var order = Array(0..<rows.rowCount)
        if inOrder {
            // A row without a node was not leased.
            order.removeAll { rows.isNull($0, 7) }
            passesOver = order.count < rows.rowCount
            let urgencies = (0..<rows.rowCount).map { rows.instant($0, 21) }
            order.sort { (urgencies[$0], $0) < (urgencies[$1], $1) }
        }
        for row in order {
            guard let job = StoredJob(claimed: rows, row, log) else { continue }
            jobs.append(job)
            let (queue, urgency) = (
                only ?? rows.int64(row, ClaimColumn.queue.rawValue),
                rows.instant(row, ClaimColumn.urgency.rawValue)
            )
            queues.append(queue)
            let before = leased[queue] ?? (0, nil)
            leased[queue] = (before.count + 1, max(urgency, before.last ?? urgency))
        }
    }

    fileprivate mutating func read(diverted rows: borrowing ResultSet) {
        for row in 0..<rows.rowCount {
            diverted.insert(rows.int64(row, 0))
            guard !rows.isNull(row, 1) else { continue }
            found.append(.init(queue: ClaimQueue(rows, row, at: 1), head: rows.instant(row, 7)))
        }
    }

    fileprivate mutating func read(permits rows: borrowing ResultSet) {
        guard rows.rowCount == 1, !rows.isNull(0, 0) else { return }
        let (queues, counts) = (rows.int64Array(0, 0), rows.int32Array(0, 1))
        let instants = rows.timestampArray(0, 2)
        for index in queues.indices {
            guard let queue = queues[index], let count = counts[index] else { continue }
            permits[queue] = (Int(count), instants[index].map(Timestamp.init(microseconds:)))
        }
    }

    fileprivate mutating func read(look rows: borrowing ResultSet) {
        found.reserveCapacity(found.count + rows.rowCount)
        for row in 0..<rows.rowCount {
            scannedUpTo = max(scannedUpTo ?? .min, rows.int64(row, 0))
            guard !rows.isNull(row, 1) else {
                lost.insert(rows.int64(row, 0))
                continue
            }
            found.append(
                .init(
                    queue: ClaimQueue(rows, row, at: 0), head: rows.instant(row, 6),
                    hostLimit: rows.int32OrNil(row, 7).map(Int.init),
                    blockedUntil: rows.instantOrNil(row, 8), isHomeGone: !rows.bool(row, 9)))
        }
        if rows.rowCount < Int(Limits.scanQueueCountMax) { scannedUpTo = nil }
    }
}
