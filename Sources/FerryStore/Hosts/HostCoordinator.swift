import FerryCore
import FerryScheduler
import Logging
import Postgres
import Synchronization
import Sys

/// Reports the state of hosts to the other nodes, makes the decisions that are due, and probes unreachable
/// hosts. Has its own thread and connection.
///
/// Each step of a worker is one `HostTransaction` with what `HostHealth` has gathered, if there is something
/// to report or to decide. Then the node reads what all nodes have to know of hosts (`look`). A node that is
/// no worker only reads.
final class HostCoordinator: Sendable {
    /// Milliseconds between checks, while hosts are in trouble and otherwise.
    private static let busyMilliseconds: Int32 = 1_000
    private static let idleMilliseconds: Int32 = 3_000
    /// Maximum number of hosts that one transaction reports.
    private static let reportMax = 500
    /// Maximum number of probes of this node in flight.
    private static let probeMax = 64
    /// Nanoseconds between two searches for jobs that wait for a host without a row.
    private static let strandedInterval: Int64 = 10_000_000_000
    /// Seconds that other nodes have to probe a host that this node could not reach.
    private static let othersFirstSeconds = 4.0
    /// Payload of the notification that limits, rates or reachability of hosts have changed.
    static let notification = "hosts"

    private let context: StoreContext
    private let signals: StoreSignals
    private let nodeState: NodeState
    private let health: HostHealth

    init(_ context: StoreContext, _ signals: StoreSignals, _ nodeState: NodeState, _ health: HostHealth) {
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
        self.health = health
    }

    func close() { health.messages.close() }

    /// Checks hosts now. Call when another node has changed something.
    func changed() { health.messages.send(.changed) }

    /// State of the thread between its steps.
    private struct Progress {
        var probes: [String: TransferError.Code?] = [:]
        /// Probes in flight.
        var runningCount = 0
        var nextDue: Timestamp?
        var nextStranded: Int64 = 0
        var hasRows = false
        var reach = PartitionDetector()
        /// Until when other nodes are to probe hosts that this node has not reached.
        var leftToOthers: [String: Timestamp] = [:]
    }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection(
            "hosts",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(10)
            })
        var progress = Progress()
        while true {
            let messages = health.messages.wait(milliseconds: waitMilliseconds(progress, database))
            if health.messages.isClosed { return }
            for message in messages {
                switch message {
                case .probed(let origin, let code):
                    progress.probes[origin] = .some(code)
                    progress.runningCount -= 1
                case .looked(let isReached):
                    if progress.reach.looked(isReached: isReached, at: context.clock.now()) {
                        endPartition("a host is reachable again")
                    }
                case .trouble, .changed: break
                }
            }
            do {
                try step(&progress, database)
            } catch {
                if !error.isConnectionLost && !error.isRetryable {
                    context.logger.error("host control failed", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    private func waitMilliseconds(_ progress: Progress, _ database: ReconnectingConnection) -> Int32 {
        let retry = Int32(database.retryIn / .milliseconds(1))
        if retry > 0 { return retry + 1 }
        let isBusy = progress.hasRows || !health.isQuiet || progress.reach.isCutOff
        let idle = isBusy ? Self.busyMilliseconds : Self.idleMilliseconds
        let dues = [progress.nextDue, progress.reach.dueAt].compactMap(\.self)
        guard let due = dues.min() else { return idle }
        return min(idle, max(10, Int32(clamping: Int64((due - context.clock.now()) * 1_000) + 1)))
    }

    private func step(_ progress: inout Progress, _ database: ReconnectingConnection) throws(PostgresError) {
        guard context.configuration.isWorker else { return try look(&progress, database) }
        let now = context.clock.now()
        updatePartition(&progress, now)
        var reports = health.takeReports(Self.reportMax)
        // Failures to reach hosts are no evidence while this node is cut off.
        if progress.reach.isCutOff {
            reports = reports.mapValues { $0.mapValues(\.withoutFailedConnections).filter { !$1.isEmpty } }
                .filter { !$1.isEmpty }
        }
        let isDue = progress.nextDue.map { $0 <= now } ?? false
        if !reports.isEmpty || !progress.probes.isEmpty || isDue {
            let transaction = HostTransaction(
                node: context.configuration.node, reports: reports, probes: progress.probes,
                probeCountMax: freeProbeCount(progress),
                leftToOthers: Set(progress.leftToOthers.keys),
                missingSince: hasOthers ? health.missingSeconds.map { now + -$0 } : nil, now: now)
            do {
                let outcome = try database.withConnection { connection throws(PostgresError) in
                    try commit(transaction, &connection)
                }
                progress.probes = [:]
                finish(outcome, &progress)
                detectPartition(outcome, &progress, now)
            } catch {
                health.putBack(reports)
                throw error
            }
        }
        try look(&progress, database)
        try releaseStranded(&progress, database)
    }

    private func commit(
        _ transaction: HostTransaction, _ connection: inout Connection
    ) throws(PostgresError) -> HostTransaction.Outcome {
        try connection.transaction { connection throws(PostgresError) in
            let outcome = try transaction.commit(&connection)
            if outcome.concernsOthers
                || outcome.releasedCount > 0 && nodeState.hasPeers.load(ordering: .relaxed)
            {
                var parameters = Parameters()
                parameters.append(text: outcome.concernsOthers ? Self.notification : "work")
                _ = try connection.execute(Statements.notify, parameters)
            }
            return outcome
        }
    }

    private func finish(_ outcome: HostTransaction.Outcome, _ progress: inout Progress) {
        for (origin, decision) in outcome.decisions {
            context.metrics.hostDecided(decision.kind)
            context.logger.notice(
                "host control made a decision",
                metadata: ["host": "\(origin)", "decision": "\(decision.sentence)"])
        }
        if !outcome.announcements.isEmpty { signals.events.written(isWanted: true) }
        // Before the released jobs are claimed.
        health.noteReachable(outcome.hosts.filter { $0.value.unreachableSince == nil }.map(\.key))
        if outcome.releasedCount > 0 {
            signals.lookForJobs()
        }
        for origin in outcome.probes { probe(origin, &progress) }
    }

    /// Returns the number of probes that this node may begin. Further hosts stay due, for other nodes or
    /// until one of its probes has ended.
    private func freeProbeCount(_ progress: Progress) -> Int {
        signals.hostProber == nil || progress.reach.isCutOff || isHeld
            ? 0 : max(0, Self.probeMax - progress.runningCount)
    }

    private var isHeld: Bool { nodeState.isHeld.load(ordering: .relaxed) }

    private func probe(_ origin: String, _ progress: inout Progress) {
        guard let prober = signals.hostProber else { return }
        progress.runningCount += 1
        context.metrics.hostProbes.add(1, ordering: .relaxed)
        prober.probe(origin) { [health] error in
            let isUnreachable = error.map { HostSignal.isUnreachable($0) } ?? false
            health.messages.send(.probed(origin, isUnreachable ? error?.code : nil))
        }
    }

    // MARK: Network partitions

    private var hasOthers: Bool { nodeState.workers.others ?? 0 > 0 }

    /// Ends or continues the state "cut off" according to the time and to what attempts have reached
    /// meanwhile.
    private func updatePartition(_ progress: inout Progress, _ now: Timestamp) {
        progress.leftToOthers = progress.leftToOthers.filter { $0.value > now }
        guard progress.reach.isCutOff else { return }
        if !hasOthers {
            progress.reach.end()
            return endPartition("no other node is left")
        }
        if health.hasReached {
            progress.reach.end()
            return endPartition("a host is reachable again")
        }
        if progress.reach.triesAgain(at: now) { return endPartition("the next attempt is due") }
        guard !isHeld, let origin = progress.reach.look(at: now), let prober = signals.hostProber else {
            return
        }
        prober.probe(origin) { [health] error in
            let isUnreachable = error.map { HostSignal.isUnreachable($0) } ?? false
            health.messages.send(.looked(isReached: !isUnreachable))
        }
    }

    /// Lets other nodes probe first the hosts that are unreachable because of this node's reports. If other
    /// nodes reach a host that this node does not reach, and this node reaches no host, it is cut off.
    private func detectPartition(
        _ outcome: HostTransaction.Outcome, _ progress: inout Progress, _ now: Timestamp
    ) {
        guard hasOthers else { return }
        for origin in outcome.lost { progress.leftToOthers[origin] = now + Self.othersFirstSeconds }
        guard let origin = outcome.reachedByOthers.first, !progress.reach.isCutOff else { return }
        progress.reach.begin(origin, at: now)
        _ = nodeState.setCutOff(true)
        signals.wakeDispatcher()
        context.logger.error(
            "this node reaches no host although other nodes do: it begins no transfers until it reaches one",
            metadata: ["host": "\(origin)"])
    }

    private func endPartition(_ reason: String) {
        health.forgetUnreachableAttempts()
        let mayLease = nodeState.setCutOff(false)
        context.logger.notice("this node begins transfers again", metadata: ["reason": "\(reason)"])
        guard mayLease else { return }
        signals.lookForJobs()
    }

    /// Reads the state of all hosts that have a row, and updates `HostHealth` and the rates of the attempt
    /// runner.
    private func look(_ progress: inout Progress, _ database: ReconnectingConnection) throws(PostgresError) {
        let rows = try database.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.loadHosts, .int32(Int32(HostHealth.rowCountMax)))
        }
        var known: Set<String> = []
        var unreachable: [String: TransferError.Code] = [:]
        var unreachableDue: [String: Timestamp] = [:]
        var rates: [String: Int64] = [:]
        progress.nextDue = nil
        let (isWorker, mayProbe) = (context.configuration.isWorker, freeProbeCount(progress) > 0)
        for row in 0..<rows.rowCount {
            let origin = rows.text(row, 0)
            known.insert(origin)
            if let code = rows.textOrNil(row, 1) {
                unreachable[origin] = TransferError.Code(rawValue: code) ?? .couldNotConnect
            }
            if let rate = rows.int64OrNil(row, 2) { rates[origin] = rate }
            guard let due = rows.instantOrNil(row, 3) else { continue }
            if unreachable[origin] != nil { unreachableDue[origin] = due }
            if isWorker, mayProbe || unreachable[origin] == nil {
                let turn = max(due, progress.leftToOthers[origin] ?? due)
                progress.nextDue = min(progress.nextDue ?? turn, turn)
            }
        }
        progress.hasRows = !known.isEmpty
        health.replace(known: known, unreachable: unreachable, due: unreachableDue)
        signals.attemptRunner?.setHostRates(rates)
    }

    /// Releases jobs that wait for a host which no node probes.
    private func releaseStranded(
        _ progress: inout Progress, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        let now = Sys.monotonicNanoseconds()
        guard now >= progress.nextStranded else { return }
        progress.nextStranded = now + Self.strandedInterval
        let released = try database.withConnection { connection throws(PostgresError) in
            let found = try connection.execute(Statements.strandedHosts, .int32(HostTransaction.dueMax))
            var count = 0
            for row in 0..<found.rowCount {
                let host = found.text(row, 0)
                count += try connection.transaction { connection throws(PostgresError) in
                    try HostTransaction.release(host, Int(HostTransaction.dueMax), &connection)
                }
            }
            return count
        }
        guard released > 0 else { return }
        signals.lookForJobs()
    }
}
