import FerryCore
import FerryScheduler
import Logging
import Postgres
import Synchronization
import Sys

/// Tells the other nodes how hosts do, decides about those that are due, and probes the ones nobody reaches.
/// On a connection of its own, which it opens with the first look.
final class HostLane: Sendable {
    /// Milliseconds between looks while hosts are in trouble, and otherwise.
    private static let busyMilliseconds: Int32 = 1_000
    private static let idleMilliseconds: Int32 = 3_000
    /// Hosts of one round.
    private static let reportMax = 500
    /// Probes that one node has under way.
    private static let probeMax = 64
    /// Nanoseconds between two looks for jobs that nobody lets go.
    private static let strandedInterval: Int64 = 10_000_000_000
    /// What is notified when something has changed that claims depend on.
    static let notification = "hosts"

    private let context: StoreContext
    private let wakeDispatcher: @Sendable () -> Void

    init(_ context: StoreContext, wakeDispatcher: @escaping @Sendable () -> Void) {
        self.context = context
        self.wakeDispatcher = wakeDispatcher
    }

    private var health: HostHealth { context.health }

    func close() { health.messages.close() }

    /// Somebody else has changed something.
    func changed() { health.messages.send(.changed) }

    /// What one thread keeps between its rounds.
    private struct Progress {
        var probes: [String: TransferError.Code?] = [:]
        /// Asked of the prober and not answered yet.
        var runningCount = 0
        var nextDue: Timestamp?
        var nextStranded: Int64 = 0
        var hasRows = false
    }

    /// The thread's body.
    func run() {
        let lane = context.connection(
            "hosts",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(10)
            })
        var progress = Progress()
        while true {
            let messages = health.messages.wait(milliseconds: patience(progress, lane))
            if health.messages.isClosed { return }
            for case .probed(let origin, let code) in messages {
                progress.probes[origin] = .some(code)
                progress.runningCount -= 1
            }
            do {
                try step(&progress, lane)
            } catch {
                if !error.isConnectionLost && !error.isRetryable {
                    context.logger.error("looking after hosts failed", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    private func patience(_ progress: Progress, _ lane: LaneConnection) -> Int32 {
        let retry = Int32(lane.retryIn / .milliseconds(1))
        if retry > 0 { return retry + 1 }
        let idle = progress.hasRows || !health.isQuiet ? Self.busyMilliseconds : Self.idleMilliseconds
        guard let due = progress.nextDue else { return idle }
        return min(idle, max(10, Int32(clamping: Int64((due - context.clock.now()) * 1_000) + 1)))
    }

    private func step(_ progress: inout Progress, _ lane: LaneConnection) throws(PostgresError) {
        let now = context.clock.now()
        let reports = health.takeReports(Self.reportMax)
        let isDue = progress.nextDue.map { $0 <= now } ?? false
        if !reports.isEmpty || !progress.probes.isEmpty || isDue {
            let round = HostRound(
                reports: reports, probes: progress.probes, probeCountMax: freeProbeCount(progress), now: now,
                jitter: Double.random(in: 0...1))
            do {
                let outcome = try lane.withConnection { connection throws(PostgresError) in
                    try commit(round, &connection)
                }
                progress.probes = [:]
                finish(outcome, &progress)
            } catch {
                health.putBack(reports)
                throw error
            }
        }
        try look(&progress, lane)
        try releaseStranded(&progress, lane)
    }

    private func commit(
        _ round: HostRound, _ connection: inout Connection
    ) throws(PostgresError) -> HostRound.Outcome {
        try connection.transaction { connection throws(PostgresError) in
            let outcome = try round.commit(&connection)
            if outcome.isNews || outcome.releasedCount > 0 && context.hasPeers.load(ordering: .relaxed) {
                var parameters = Parameters()
                parameters.append(text: outcome.isNews ? Self.notification : "work")
                _ = try connection.execute(Statements.notify, parameters)
            }
            return outcome
        }
    }

    private func finish(_ outcome: HostRound.Outcome, _ progress: inout Progress) {
        for (origin, decision) in outcome.decisions {
            context.metrics.hostDecided(decision.kind)
            context.logger.notice(
                "a decision about a host",
                metadata: ["host": "\(origin)", "decision": "\(decision.sentence)"])
        }
        // Before they are claimed.
        health.noteReachable(outcome.hosts.filter { $0.value.unreachableSince == nil }.map(\.key))
        if outcome.releasedCount > 0 {
            context.backlog.addUnknown()
            wakeDispatcher()
        }
        for origin in outcome.probes { probe(origin, &progress) }
    }

    /// Probes that this node may begin. The others stay due, for other nodes or until one of its own has
    /// ended.
    private func freeProbeCount(_ progress: Progress) -> Int {
        context.hostProber == nil ? 0 : max(0, Self.probeMax - progress.runningCount)
    }

    private func probe(_ origin: String, _ progress: inout Progress) {
        guard let prober = context.hostProber else { return }
        progress.runningCount += 1
        context.metrics.hostProbes.add(1, ordering: .relaxed)
        prober.probe(origin) { [health] error in
            let isAway = error.map { HostSignal.isUnreachable($0) } ?? false
            health.messages.send(.probed(origin, isAway ? error?.code : nil))
        }
    }

    /// Learns what every node has to know.
    private func look(_ progress: inout Progress, _ lane: LaneConnection) throws(PostgresError) {
        let rows = try lane.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.loadHosts, .int32(Int32(HostHealth.rowCountMax)))
        }
        var known: Set<String> = []
        var unreachable: [String: TransferError.Code] = [:]
        var unreachableDue: [String: Timestamp] = [:]
        var rates: [String: Int64] = [:]
        progress.nextDue = nil
        let mayProbe = freeProbeCount(progress) > 0
        for row in 0..<rows.rowCount {
            let origin = rows.text(row, 0)
            known.insert(origin)
            if let code = rows.textOrNil(row, 1) {
                unreachable[origin] = TransferError.Code(rawValue: code) ?? .couldNotConnect
            }
            if let rate = rows.int64OrNil(row, 2) { rates[origin] = rate }
            guard let due = rows.instantOrNil(row, 3) else { continue }
            if unreachable[origin] != nil { unreachableDue[origin] = due }
            if mayProbe || unreachable[origin] == nil {
                progress.nextDue = min(progress.nextDue ?? due, due)
            }
        }
        progress.hasRows = !known.isEmpty
        health.replace(known: known, unreachable: unreachable, due: unreachableDue)
        context.attemptRunner?.setHostRates(rates)
    }

    /// Lets jobs go that wait for a host that nobody looks for.
    private func releaseStranded(
        _ progress: inout Progress, _ lane: LaneConnection
    ) throws(PostgresError) {
        let now = Sys.monotonicNanoseconds()
        guard now >= progress.nextStranded else { return }
        progress.nextStranded = now + Self.strandedInterval
        let released = try lane.withConnection { connection throws(PostgresError) in
            let found = try connection.execute(Statements.strandedHosts, .int32(HostRound.dueMax))
            var count = 0
            for row in 0..<found.rowCount {
                count += try HostRound.release(found.text(row, 0), Int(HostRound.dueMax), &connection)
            }
            return count
        }
        guard released > 0 else { return }
        context.backlog.addUnknown()
        wakeDispatcher()
    }
}
