import FerryCore
import FerryScheduler
import Postgres

/// From where a round leases jobs, and which lots it looks for.
struct Claims: Sendable {
    struct Narrow: Sendable {
        let ask: ClaimSchedule.Ask
        /// Connections per host of its session; nil: no limit.
        let sessionLimit: Int?
    }
    var wide: [ClaimSchedule.Ask] = []
    /// Of wide lots the urgency of the first job that may be there, where it is known.
    var heads: [Int64: Timestamp] = [:]
    /// Wide lots whose session is limited by now: what queues there is diverted.
    var limited: Set<Int64> = []
    /// Wide lots that may have jobs of limited origins or of hosts that are away: those are stepped over.
    var suspects: Set<Int64> = []
    /// The first of those are diverted, and wait for their hosts. Not in every round: that is work for each
    /// row.
    var mayDivert = false
    /// Others of which they are diverted, and nothing is claimed.
    var stretches: [ClaimQueue] = []
    var narrow: [Narrow] = []
    /// Narrow lots without a path that may have jobs of paths that are limited by themselves: those are
    /// stepped over, and the first of them are diverted.
    var mixed: Set<Int64> = []
    /// Begin to look after this lot; nil: no look.
    var lookAfter: Int64?
    /// Some origins are limited.
    var hasHosts = false
    /// Some hosts are known not to be reached.
    var hasAway = false
    /// Lots of which the first jobs wait for them.
    var away: [ClaimQueue] = []
    /// The wide lots of sessions that are limited.
    var limitedSessions: [Int64] = []
    /// Some of what it leases may find no slot.
    var holds = false
    /// What runs here is to be counted where something limits it.
    var countsRunning: Bool { lookAfter == .min && (hasHosts || !limitedSessions.isEmpty) }

    var isEmpty: Bool { wide.isEmpty && narrow.isEmpty && stretches.isEmpty && lookAfter == nil }

    /// A lot that has queued jobs, as a look or a diversion has found it.
    struct Found: Sendable {
        let lot: ClaimQueue
        let head: Timestamp
        var hostLimit: Int?
        var blockedUntil: Timestamp?
        /// Another node than the one that it is for may take it: that one is not there.
        var isHomeGone = false
    }

    struct Outcome: Sendable {
        var jobs: [StoredJob] = []
        /// Theirs, in the same order.
        var lots: [Int64] = []
        /// By lot: how many were leased, and the urgency of the last.
        var leased: [Int64: (count: Int, last: Timestamp?)] = [:]
        /// Lots of which jobs were moved to others, or wait for their hosts now.
        var diverted: Set<Int64> = []
        /// Lots of which a claim has not looked at everything: up to where it has.
        var windows: [Int64: Timestamp] = [:]
        /// Jobs that wait for their hosts now.
        var awaitedCount = 0
        var found: [Found] = []
        /// There is one that must not be sent twice, and that was not leased because it might find no slot.
        var passesOver = false
        /// Lots of queued jobs that are not there.
        var lost: Set<Int64> = []
        /// By narrow lot: what it might give, and until when its host is backed off. Not in it: somebody else
        /// has the lot just now.
        var permits: [Int64: (count: Int, blockedUntil: Timestamp?)] = [:]
        /// Running jobs whose lots were missing: they are counted with the next look.
        var uncountedCount: Int64 = 0
        /// Where the next look goes on; nil: this one has come to the end.
        var lookedUpTo: Int64?
    }

    /// Whether the first rows of a wide lot are looked at for what has to be diverted.
    func diverts(_ lot: ClaimQueue) -> Bool {
        limited.contains(lot.id) || mayDivert && suspects.contains(lot.id)
    }

    private var diverted: [Int64] {
        wide.map(\.lot).filter { diverts($0) }.map(\.id) + stretches.map(\.id)
            + (mayDivert ? mixed.sorted() : [])
    }
    private var diverts: Bool {
        !limited.isEmpty || !stretches.isEmpty || hasHosts && mayDivert && !suspects.isEmpty
            || mayDivert && !mixed.isEmpty
    }

    // MARK: Statements

    /// Rows of a lot that one claim steps over at most: some ten milliseconds.
    private static let windowMax: Int32 = 5_000

    /// In this order, so that lots are locked after everything that may have to wait.
    func send(to pipeline: inout Pipeline, _ context: StoreContext) {
        if !away.isEmpty { pipeline.send(Statements.awaitHosts, awaiting) }
        if diverts { pipeline.send(Statements.divertJobs, diversion) }
        let claimable = wide.filter { !limited.contains($0.lot.id) }
        // Before the claim, whose rows are gone then.
        if !suspects.isEmpty { pipeline.send(Statements.stretchWindows, windows) }
        if !claimable.isEmpty { pipeline.send(Statements.claimJobs, claim(claimable, context)) }
        if !narrow.isEmpty {
            pipeline.send(Statements.lockLots, locks)
            pipeline.send(Statements.readPermits, permits(context))
            pipeline.send(Statements.claimLimitedJobs, limitedClaim(context))
        }
        if countsRunning {
            var parameters = Parameters.identifier(context.configuration.node)
            parameters.appendArray(.int64, limitedSessions) { $0.append(int64: $1) }
            pipeline.send(Statements.divertRunning, parameters)
        }
        if let lookAfter {
            var parameters = Parameters.int64(lookAfter)
            parameters.append(int32: Limits.lookLotCountMax)
            parameters.append(context.configuration.node)
            parameters.append(float64: context.configuration.leaseSeconds)
            pipeline.send(Statements.lookLots, parameters)
        }
    }

    private var diversion: Parameters {
        var parameters = Parameters()
        let diverted = diverted
        parameters.appendArray(.int64, diverted) { $0.append(int64: $1) }
        parameters.appendArray(.bool, diverted) { $0.append(bool: limited.contains($1)) }
        // Beyond what is asked for, so that a session that is limited now goes on.
        parameters.append(int32: Int32((wide.map(\.count).max() ?? 0) + Limits.claimBatchMax))
        return parameters
    }

    private func claim(_ asks: [ClaimSchedule.Ask], _ context: StoreContext) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.int64, asks) { $0.append(int64: $1.lot.id) }
        parameters.appendArray(.int32, asks) { $0.append(int32: Int32($1.count)) }
        appendLease(to: &parameters, context)
        parameters.append(bool: hasHosts || hasAway)
        parameters.append(bool: holds)
        parameters.appendArray(.timestamp, asks) {
            $0.append(timestamp: heads[$1.lot.id]?.microseconds ?? .min)
        }
        parameters.append(float64: context.configuration.leaseSeconds)
        parameters.appendArray(.bool, asks) { $0.append(bool: suspects.contains($1.lot.id)) }
        let node = context.configuration.node
        parameters.appendArray(.uuid, asks) { $0.append($1.lot.home == node ? nil : $1.lot.home) }
        parameters.append(int32: Self.windowMax)
        return parameters
    }

    private var windows: Parameters {
        let lots = Array(suspects)
        var parameters = Parameters()
        parameters.appendArray(.int64, lots) { $0.append(int64: $1) }
        parameters.appendArray(.timestamp, lots) { $0.append(timestamp: heads[$1]?.microseconds ?? .min) }
        parameters.append(int32: Self.windowMax)
        return parameters
    }

    private func limitedClaim(_ context: StoreContext) -> Parameters {
        var parameters = Parameters()
        appendLease(to: &parameters, context)
        parameters.append(bool: hasAway)
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
        parameters.appendArray(.int64, narrow) { $0.append(int64: $1.ask.lot.id) }
        return parameters
    }

    private func permits(_ context: StoreContext) -> Parameters {
        var parameters = locks
        parameters.appendArray(.int32, narrow) { $0.append(int32: Int32($1.ask.count)) }
        parameters.appendArray(.int32, narrow) {
            $0.append(int32: $1.sessionLimit.map { Int32(clamping: $0) })
        }
        parameters.append(context.configuration.node)
        parameters.append(float64: context.configuration.leaseSeconds)
        return parameters
    }

    // MARK: Results

    /// Reads the results of what `send` has sent, the first of them from that place.
    func read(_ results: inout PipelineResults, from first: Int) -> Outcome {
        var outcome = Outcome()
        var index = first
        func next(_ results: inout PipelineResults) -> ResultSet {
            defer { index += 1 }
            return results.take(index)
        }
        if !away.isEmpty { outcome.read(awaited: next(&results)) }
        if diverts { outcome.read(diverted: next(&results)) }
        if !suspects.isEmpty {
            let rows = next(&results)
            for row in 0..<rows.rowCount { outcome.windows[rows.int64(row, 0)] = rows.instant(row, 1) }
        }
        let claimable = wide.filter { !limited.contains($0.lot.id) }
        if !claimable.isEmpty {
            // The only lot that was asked needs no telling apart.
            let only = claimable.count == 1 ? claimable[0].lot.id : nil
            outcome.read(leased: next(&results), of: only, inOrder: holds)
        }
        if !narrow.isEmpty {
            _ = next(&results)
            outcome.read(permits: next(&results))
            outcome.read(leased: next(&results), of: nil, inOrder: false)
        }
        if countsRunning { outcome.uncountedCount = next(&results).int64(0, 0) }
        if lookAfter != nil { outcome.read(look: next(&results)) }
        return outcome
    }
}

extension Claims.Outcome {
    /// `inOrder`: the most urgent first; otherwise they begin at once, in whatever order.
    fileprivate mutating func read(leased rows: borrowing ResultSet, of only: Int64?, inOrder: Bool) {
        jobs.reserveCapacity(jobs.count + rows.rowCount)
        var order = Array(0..<rows.rowCount)
        if inOrder {
            // Without a node: it stays queued.
            order.removeAll { rows.isNull($0, 7) }
            passesOver = order.count < rows.rowCount
            let urgencies = (0..<rows.rowCount).map { rows.instant($0, 21) }
            order.sort { (urgencies[$0], $0) < (urgencies[$1], $1) }
        }
        for row in order {
            jobs.append(StoredJob(claimed: rows, row))
            let (lot, urgency) = (only ?? rows.int64(row, 20), rows.instant(row, 21))
            lots.append(lot)
            let before = leased[lot] ?? (0, nil)
            leased[lot] = (before.count + 1, max(urgency, before.last ?? urgency))
        }
    }

    fileprivate mutating func read(diverted rows: borrowing ResultSet) {
        for row in 0..<rows.rowCount {
            diverted.insert(rows.int64(row, 0))
            guard !rows.isNull(row, 1) else { continue }
            found.append(.init(lot: ClaimQueue(rows, row, at: 1), head: rows.instant(row, 7)))
        }
    }

    fileprivate mutating func read(permits rows: borrowing ResultSet) {
        guard rows.rowCount == 1, !rows.isNull(0, 0) else { return }
        let (lots, counts) = (rows.int64Array(0, 0), rows.int32Array(0, 1))
        let instants = rows.timestampArray(0, 2)
        for index in lots.indices {
            guard let lot = lots[index], let count = counts[index] else { continue }
            permits[lot] = (Int(count), instants[index].map(Timestamp.init(microseconds:)))
        }
    }

    fileprivate mutating func read(look rows: borrowing ResultSet) {
        found.reserveCapacity(found.count + rows.rowCount)
        for row in 0..<rows.rowCount {
            lookedUpTo = max(lookedUpTo ?? .min, rows.int64(row, 0))
            guard !rows.isNull(row, 1) else {
                lost.insert(rows.int64(row, 0))
                continue
            }
            found.append(
                .init(
                    lot: ClaimQueue(rows, row, at: 0), head: rows.instant(row, 6),
                    hostLimit: rows.int32OrNil(row, 7).map(Int.init),
                    blockedUntil: rows.instantOrNil(row, 8), isHomeGone: !rows.bool(row, 9)))
        }
        if rows.rowCount < Int(Limits.lookLotCountMax) { lookedUpTo = nil }
    }
}
