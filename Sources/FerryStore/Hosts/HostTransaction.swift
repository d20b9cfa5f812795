import FerryCore
import FerryScheduler
import Postgres

/// One transaction of a node about hosts: adds its reports, makes decisions and releases waiting jobs. The
/// lock of a host's row makes it the only one for that host at a time.
struct HostTransaction {
    /// Maximum number of due hosts of one transaction.
    static let dueMax: Int32 = 200
    /// Number of decisions that are kept of each host.
    static let decisionCountMax = 50

    let node: NodeID
    let reports: [String: [HostScope: ScopeReport]]
    let probes: [String: TransferError.Code?]
    /// Maximum number of probes that this node may begin.
    let probeCountMax: Int
    /// Hosts that other nodes probe first, since this node did not reach them.
    let leftToOthers: Set<String>
    /// Since when this node reaches no host; `nil` if it reaches some, or if there is no other node.
    let missingSince: Timestamp?
    let now: Timestamp

    struct Outcome {
        var hosts: [String: HostControl] = [:]
        /// Hosts that this node has to probe.
        var probes: [String] = []
        var releasedCount = 0
        var decisions: [(origin: String, decision: HostDecision)] = []
        var announcements: [HostAnnouncement] = []
        /// `true` if something has changed that other nodes have to know.
        var concernsOthers = false
        /// Hosts that this node has not reached while another one has.
        var reachedByOthers: [String] = []
        /// Hosts that became unreachable because of this node's reports.
        var lost: [String] = []
        fileprivate var forgotten: [String] = []
        fileprivate var releases: [(origin: String, count: Int)] = []
    }

    /// Row of a host.
    struct Row {
        let origin: String
        var control: HostControl
        /// Connections of running attempts by scope.
        let inFlight: [HostScope: Int]
        let isAwaited: Bool
    }

    /// Adds the reports and probes, decides, and writes the rows. Call in a transaction.
    func commit(_ connection: inout Connection) throws(PostgresError) -> Outcome {
        let origins = Array(Set(reports.keys).union(probes.keys)).sorted()
        let hosts = origins.map {
            (origin: $0, countMax: reports[$0]?.hostCountMax ?? HostHealth.countMax)
        }
        let rows = try Self.lock(
            hosts, now, dueMax: Self.dueMax, probeCountMax: probeCountMax, &connection)
        var outcome = Outcome()
        for row in rows { decide(row, &outcome) }
        for (origin, count) in outcome.releases {
            let released = try Self.release(origin, count, &connection)
            outcome.hosts[origin]?.released(released, of: count)
            outcome.releasedCount += released
        }
        try Self.save(outcome.hosts, outcome.forgotten, outcome.decisions, now, &connection)
        for announcement in outcome.announcements { try announcement.tell(at: now, &connection) }
        return outcome
    }

    private func decide(_ row: Row, _ outcome: inout Outcome) {
        var host = row.control
        let origin = row.origin
        var decisions: [HostDecision] = []
        if let code = probes[origin], let decision = host.probed(code, by: node, at: now) {
            decisions.append(decision)
        }
        var reported = reports[origin] ?? [:]
        if reported.values.contains(where: { $0.unreachable > 0 }), let missingSince,
            host.isReached(byOthersThan: node, after: missingSince + PartitionDetector.witnessSeconds)
        {
            outcome.reachedByOthers.append(origin)
            reported = reported.mapValues(\.withoutFailedConnections)
        }
        decisions += host.take(reported, by: node, inFlight: row.inFlight, now: now)
        if host.unreachableSince == now { outcome.lost.append(origin) }
        if let announcement = announcement(of: origin, &host) { outcome.announcements.append(announcement) }
        let mayProbe = outcome.probes.count < probeCountMax && !leftToOthers.contains(origin)
        let dueActions = host.dueActions(at: now, mayProbe: mayProbe)
        if dueActions.probes {
            if row.isAwaited { outcome.probes.append(origin) } else { host.stopProbing(at: now) }
        }
        if dueActions.releases > 0 { outcome.releases.append((origin, dueActions.releases)) }
        outcome.decisions += decisions.map { (origin, $0) }
        outcome.concernsOthers = outcome.concernsOthers || host.concernsOthers(after: row.control, at: now)
        if host.isForgettable(at: now) {
            outcome.forgotten.append(origin)
        } else {
            outcome.hosts[origin] = host
        }
    }

    // MARK: Rows

    /// Locks the rows of `hosts`, and of hosts that are due. Creates missing rows unless there are `countMax`
    /// rows already.
    static func lock(
        _ hosts: [(origin: String, countMax: Int)], _ now: Timestamp, dueMax: Int32, probeCountMax: Int,
        _ connection: inout Connection
    ) throws(PostgresError) -> [Row] {
        if !hosts.isEmpty {
            var created = Parameters()
            created.appendArray(.text, hosts) { $0.append(text: $1.origin) }
            created.appendArray(.int64, hosts) { $0.append(int64: Int64($1.countMax)) }
            _ = try connection.execute(Statements.createHosts, created)
        }
        var parameters = Parameters()
        parameters.appendArray(.text, hosts) { $0.append(text: $1.origin) }
        parameters.append(now)
        parameters.append(int32: dueMax)
        parameters.append(int32: Int32(clamping: probeCountMax))
        let found = try connection.execute(Statements.lockHosts, parameters)
        return (0..<found.rowCount).map { row in
            Row(
                origin: found.text(row, 0),
                control: HostControl(json: found.bytes(row, 1)) ?? HostControl(),
                inFlight: found.inFlight(row), isAwaited: found.bool(row, 2))
        }
    }

    static func save(
        _ hosts: [String: HostControl], _ forgotten: [String],
        _ decisions: [(origin: String, decision: HostDecision)], _ now: Timestamp,
        _ connection: inout Connection
    ) throws(PostgresError) {
        if !hosts.isEmpty {
            _ = try connection.execute(Statements.saveHosts, .hosts(hosts, now))
            _ = try connection.execute(Statements.saveHostLimits, .limits(of: hosts, now))
        }
        if !forgotten.isEmpty {
            var parameters = Parameters()
            parameters.appendArray(.text, forgotten) { $0.append(text: $1) }
            _ = try connection.execute(Statements.forgetHosts, parameters)
        }
        if !decisions.isEmpty {
            var parameters = Parameters()
            parameters.appendArray(.text, decisions) { $0.append(text: $1.origin) }
            parameters.appendArray(.text, decisions) { $0.append(text: $1.decision.json) }
            parameters.append(int32: Int32(decisionCountMax))
            _ = try connection.execute(Statements.keepDecisions, parameters)
        }
    }

    /// Queues jobs that wait for the host. Call in a transaction. Returns their number.
    static func release(
        _ origin: String, _ count: Int, _ connection: inout Connection
    ) throws(PostgresError) -> Int {
        var parameters = Parameters()
        parameters.append(text: origin)
        parameters.append(int32: Int32(clamping: count))
        let jobs: [JobID] = try connection.execute(Statements.lockWaitingJobs, parameters).identifiers()
        return try ChangedJob.commit(jobs.map { JobChange(.reachOrigin, $0) }, &connection).count
    }
}

extension ResultSet {
    /// Returns the connections by scope of a row of lock_hosts.sql.
    fileprivate func inFlight(_ row: Int) -> [HostScope: Int] {
        guard !isNull(row, 3) else { return [:] }
        let (tenants, paths, counts) = (textArray(row, 3), textArray(row, 4), int32Array(row, 5))
        var all: [HostScope: Int] = [:]
        for index in tenants.indices {
            guard let tenant = tenants[index], let path = paths[index], let count = counts[index] else {
                continue
            }
            all[HostScope(tenant: tenant, path: path)] = Int(count)
        }
        return all
    }
}

extension [HostScope: ScopeReport] {
    /// Number of rows from which this host gets no row. It is lower for a name without a DNS record: anybody
    /// can make one up.
    fileprivate var hostCountMax: Int {
        let isUnknown = values.allSatisfy {
            $0.unreachableCode == .hostNotFound && $0.answered == 0 && $0.throttled == 0 && $0.lost == 0
        }
        return isUnknown ? HostHealth.unknownCountMax : HostHealth.countMax
    }
}

extension HostControl {
    /// Returns whether other nodes have to know the difference.
    func concernsOthers(after before: HostControl, at now: Timestamp) -> Bool {
        unreachableSince != before.unreachableSince
            || settings.bytesPerSecondMax != before.settings.bytesPerSecondMax
            || differs(limits(at: now), from: before.limits(at: now))
    }

    /// A changed rate is not notified: claims read it from its row.
    private func differs(_ limits: [HostScope: HostLimit], from before: [HostScope: HostLimit]) -> Bool {
        guard limits.count == before.count else { return true }
        return limits.contains { scope, limit in
            guard let old = before[scope] else { return true }
            return limit.connectionLimit != old.connectionLimit || limit.blockedUntil != old.blockedUntil
                || (limit.requestRate == nil) != (old.requestRate == nil)
        }
    }
}

extension Parameters {
    /// The parameters of save_hosts.sql.
    fileprivate static func hosts(_ hosts: [String: HostControl], _ now: Timestamp) -> Parameters {
        let all = Array(hosts)
        var parameters = Parameters(capacity: all.count * 512)
        parameters.appendArray(.text, all) { $0.append(text: $1.key) }
        parameters.appendArray(.text, all) { $0.append(text: $1.value.json) }
        parameters.appendArray(.timestamp, all) { $0.append($1.value.dueAt(now)) }
        parameters.appendArray(.text, all) { parameters, host in
            let code = host.value.unreachableCode ?? .couldNotConnect
            parameters.append(text: host.value.unreachableSince == nil ? nil : code.rawValue)
        }
        parameters.appendArray(.int64, all) { $0.append(int64: $1.value.settings.bytesPerSecondMax) }
        parameters.appendArray(.bool, all) {
            $0.append(bool: $1.value.unreachableSince != nil || $1.value.releaseCount > 0)
        }
        return parameters
    }

    /// The parameters of save_host_limits.sql.
    fileprivate static func limits(of hosts: [String: HostControl], _ now: Timestamp) -> Parameters {
        let all = hosts.flatMap { origin, host in
            host.limits(at: now).map { (origin: origin, scope: $0, limit: $1) }
        }
        var parameters = Parameters()
        parameters.appendArray(.text, Array(hosts.keys)) { $0.append(text: $1) }
        parameters.appendArray(.text, all) { $0.append(text: $1.origin) }
        parameters.appendArray(.text, all) { $0.append(text: $1.scope.tenant) }
        parameters.appendArray(.text, all) { $0.append(text: $1.scope.path) }
        parameters.appendArray(.int32, all) { parameters, one in
            parameters.append(int32: one.limit.connectionLimit.map { Int32(clamping: $0) })
        }
        parameters.appendArray(.timestamp, all) { $0.append($1.limit.blockedUntil) }
        parameters.appendArray(.float64, all) { $0.append(float64: $1.limit.requestRate) }
        return parameters
    }
}
