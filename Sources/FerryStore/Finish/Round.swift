import FerryCore
import FerryScheduler
import Postgres

/// One transaction of the dispatcher.
struct Round {
    let endings: [JobTransition]
    let promotes: Bool
    let reconciles: Bool
    /// What it leases and scans for.
    let claims: Claims

    /// Names of the statements that write results of attempts.
    static let endingStatements = Set(
        [
            Statements.finishJobs, Statements.retryJobs, Statements.suspendJobs, Statements.awaitConnectivity,
            Statements.askJobs, Statements.releaseJobs,
        ].map(\.name))

    struct Outcome {
        var claims = Claims.Outcome()
        /// Results that changed nothing, because their lease was lost.
        var fenced: [Lease] = []
        var promotedCount = 0
        var reconciledCount = 0
        /// Claim queues of jobs that were queued (promoted or given back), with the urgency of the first one.
        var queued: [ClaimQueue: Timestamp] = [:]
        var nextDue: Timestamp?
        /// Next attempt of the jobs that wait for connectivity with a pause.
        var nextWait: Timestamp?
        /// `true` if other jobs depend on finished ones.
        var hasDependencyNews = false

        /// Rows of next_due.sql.
        fileprivate mutating func noteDue(_ rows: borrowing ResultSet) {
            nextDue = rows.rowCount > 0 ? rows.instantOrNil(0, 0) : nil
        }

        /// Rows of await_connectivity.sql. Returns the jobs.
        fileprivate mutating func noteWaits(_ rows: borrowing ResultSet) -> [JobID] {
            nextWait = (0..<rows.rowCount).compactMap { rows.instantOrNil($0, 1) }.min()
            return rows.identifiers()
        }

        fileprivate mutating func noteQueued(_ rows: borrowing ResultSet) {
            for row in 0..<rows.rowCount {
                let (queue, urgency) = (ClaimQueue(rows, row, at: 1), rows.instant(row, 7))
                queued[queue] = min(urgency, queued[queue] ?? urgency)
            }
        }
        /// `true` if jobs are due about which a question is to be asked, or was not answered in time.
        var hasDueQuestions = false
    }

    /// Gives back, retries, promotes, finishes and claims, in this order, in one transaction.
    func commit(_ connection: inout Connection, _ context: StoreContext) throws(PostgresError) -> Outcome {
        var unknown: [Lease] = []
        if reconciles { unknown = try unknownLeases(&connection, context) }
        var outcome = Outcome(reconciledCount: unknown.count)
        let parts = Parts(endings)
        let releases = parts.releases + unknown.map { ($0, nil, false, nil) }
        let queues = try queues(ofHomes: releases, &connection, context)
        var results = try connection.pipeline { pipeline in
            if !releases.isEmpty { pipeline.send(Statements.releaseJobs, .releases(releases, queues)) }
            if !parts.suspensions.isEmpty {
                pipeline.send(Statements.suspendJobs, .stops(parts.suspensions))
            }
            if !parts.retries.isEmpty { pipeline.send(Statements.retryJobs, .retries(parts.retries)) }
            if !parts.waits.isEmpty { pipeline.send(Statements.awaitConnectivity, .waits(parts.waits)) }
            if !parts.asks.isEmpty { pipeline.send(Statements.askJobs, .asks(parts.asks)) }
            if promotes { pipeline.send(Statements.promoteJobs, .int32(500)) }
            if !parts.finished.isEmpty { pipeline.send(Statements.finishJobs, .finished(parts.finished)) }
            if promotes {
                pipeline.send(Statements.nextDue)
                pipeline.send(Statements.hasDependencyNews)
                pipeline.send(Statements.hasDueQuestions)
            }
            claims.send(to: &pipeline, context)
        }
        var changed: Set<JobID> = []
        var index = 0
        func next(_ results: inout PipelineResults) -> ResultSet {
            defer { index += 1 }
            return results.take(index)
        }
        if !releases.isEmpty {
            let rows = next(&results)
            changed.formUnion(rows.identifiers())
            outcome.noteQueued(rows)
        }
        if !parts.suspensions.isEmpty { changed.formUnion(next(&results).identifiers()) }
        if !parts.retries.isEmpty { changed.formUnion(next(&results).identifiers()) }
        if !parts.waits.isEmpty { changed.formUnion(outcome.noteWaits(next(&results))) }
        if !parts.asks.isEmpty { changed.formUnion(next(&results).identifiers()) }
        if promotes {
            let rows = next(&results)
            outcome.promotedCount = rows.rowCount
            outcome.noteQueued(rows)
        }
        if !parts.finished.isEmpty {
            let finished = next(&results)
            changed.formUnion(finished.identifiers())
            outcome.hasDependencyNews = finished.hasDependents
        }
        if promotes {
            outcome.noteDue(next(&results))
            if next(&results).bool(0, 0) { outcome.hasDependencyNews = true }
            outcome.hasDueQuestions = next(&results).bool(0, 0)
        }
        if !claims.isEmpty { outcome.claims = claims.read(&results, from: index, context.damagedRows) }
        if changed.count < endings.count + unknown.count {
            outcome.fenced = endings.map(\.lease).filter { !changed.contains($0.job) }
        }
        return outcome
    }

    /// Returns the claim queues of given back jobs that one node alone can run.
    private func queues(
        ofHomes releases: [Parts.Stop], _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> [JobID: Int64] {
        var names: [JobID: ClaimQueueCache.Name] = [:]
        for release in releases {
            guard let home = release.home else { continue }
            names[release.lease.job] = context.claimQueueName(
                home.scope, session: home.session, home: home.node, context.sessions.current)
        }
        guard !names.isEmpty else { return [:] }
        let found = try context.claimQueues.find(Set(names.values), &connection, isCommitted: true)
        return names.compactMapValues { found[$0]?.id }
    }

    /// Returns leases of this node in the database that this process does not know: the outcome of their
    /// commit was unknown.
    private func unknownLeases(
        _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> [Lease] {
        var parameters = Parameters()
        parameters.append(context.configuration.node)
        let rows = try connection.execute(Statements.heldJobs, parameters)
        var unknown: [Lease] = []
        for row in 0..<rows.rowCount {
            let job: JobID = rows.identifier(row, 0)
            guard !context.leaseRegistry.contains(job) else { continue }
            unknown.append(Lease(job: job, attempt: rows.int32(row, 1), revision: rows.int32(row, 2)))
        }
        return unknown
    }
}

/// Results of attempts by the statement that writes them.
private struct Parts {
    /// An attempt that was stopped.
    typealias Stop = (lease: Lease, ended: [UInt8]?, leavesBytes: Bool, home: JobTransition.Home?)
    var finished: [FinishedJob] = []
    var retries: [JobTransition.Retry] = []
    var waits: [JobTransition.Wait] = []
    var suspensions: [Stop] = []
    var releases: [Stop] = []
    var asks: [JobTransition.Ask] = []

    init(_ endings: [JobTransition]) {
        for ending in endings {
            switch ending {
            case .finish(let job): finished.append(job)
            case .retry(let retry): retries.append(retry)
            case .wait(let wait): waits.append(wait)
            case .suspend(let lease, let ended, let leavesBytes):
                suspensions.append((lease, ended, leavesBytes, nil))
            case .release(let lease, let ended, let leavesBytes, let home):
                releases.append((lease, ended, leavesBytes, home))
            case .ask(let ask): asks.append(ask)
            }
        }
    }
}

extension JobTransition {
    /// The statement that writes this alone. Leaves out that only one node can run the job: a later attempt
    /// finds that again.
    var statement: (Statement, Parameters) {
        let parts = Parts([self])
        return switch self {
        case .finish: (Statements.finishJobs, .finished(parts.finished))
        case .retry: (Statements.retryJobs, .retries(parts.retries))
        case .wait: (Statements.awaitConnectivity, .waits(parts.waits))
        case .suspend: (Statements.suspendJobs, .stops(parts.suspensions))
        case .release:
            (
                Statements.releaseJobs,
                .releases(parts.releases.map { ($0.lease, $0.ended, $0.leavesBytes, nil) }, [:])
            )
        case .ask: (Statements.askJobs, .asks(parts.asks))
        }
    }
}

extension ResultSet {
    /// Of finish_jobs.sql: `true` if other jobs depend on a finished one.
    var hasDependents: Bool { (0..<rowCount).contains { bool($0, 1) } }
}

extension Parameters {
    static func int32(_ value: Int32) -> Parameters {
        var parameters = Parameters()
        parameters.append(int32: value)
        return parameters
    }

    static func int64(_ value: Int64) -> Parameters {
        var parameters = Parameters()
        parameters.append(int64: value)
        return parameters
    }

    /// The parameters of reclaim_jobs.sql.
    static func lost(by node: NodeID) -> Parameters {
        var parameters = Parameters()
        parameters.append(node)
        parameters.append(text: TransferError.attemptLostText)
        return parameters
    }

    static func identifier<Kind>(_ value: Identifier<Kind>) -> Parameters {
        var parameters = Parameters()
        parameters.append(value)
        return parameters
    }

    /// The parameters of check_leases.sql.
    static func leases(_ jobs: some Sequence<JobID>, of node: NodeID) -> Parameters {
        var parameters = identifier(node)
        parameters.appendArray(.uuid, jobs) { $0.append($1) }
        return parameters
    }

    /// The parameters of release_jobs.sql.
    fileprivate static func releases(_ releases: [Parts.Stop], _ queues: [JobID: Int64]) -> Parameters {
        var parameters = stops(releases)
        parameters.appendArray(.uuid, releases) { $0.append($1.home?.node) }
        parameters.appendArray(.int64, releases) { $0.append(int64: queues[$1.lease.job]) }
        return parameters
    }

    /// The parameters of suspend_jobs.sql.
    fileprivate static func stops(_ stops: [Parts.Stop]) -> Parameters {
        var parameters = Parameters(capacity: stops.count * 160)
        parameters.append(stops.map(\.lease))
        parameters.appendArray(.bytea, stops) { $0.append(bytea: $1.ended) }
        parameters.appendArray(.bool, stops) { $0.append(bool: $1.leavesBytes) }
        return parameters
    }

    mutating func append(_ leases: [Lease]) {
        appendArray(.uuid, leases) { $0.append($1.job) }
        appendArray(.int32, leases) { $0.append(int32: $1.attempt) }
        appendArray(.int32, leases) { $0.append(int32: $1.revision) }
    }

    /// The parameters of retry_jobs.sql.
    fileprivate static func retries(_ retries: [JobTransition.Retry]) -> Parameters {
        var parameters = Parameters(capacity: retries.count * 256)
        parameters.append(retries.map(\.lease))
        parameters.appendArray(.int32, retries) { $0.append(int32: $1.failedAttemptCount) }
        parameters.appendArray(.timestamp, retries) { $0.append($1.instant) }
        parameters.appendArray(.text, retries) { $0.append(text: $1.errorJSON) }
        parameters.appendArray(.bytea, retries) { $0.append(bytea: $1.ended) }
        parameters.appendArray(.bool, retries) { $0.append(bool: $1.leavesBytes) }
        parameters.appendArray(.timestamp, retries) { $0.append($1.endedAt) }
        return parameters
    }

    /// The parameters of finish_jobs.sql.
    static func finished(_ jobs: [FinishedJob]) -> Parameters {
        var parameters = Parameters(capacity: jobs.count * 512)
        parameters.append(jobs.map(\.lease))
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.state.rawValue) }
        parameters.appendArray(.int32, jobs) { $0.append(int32: $1.record.failedAttemptCount) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.responseJSON) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.resultJSON) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.errorJSON) }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.record.body) }
        parameters.appendArray(.timestamp, jobs) { $0.append($1.record.finishedAt ?? $1.record.createdAt) }
        parameters.appendArray(.uuid, jobs) { $0.append($1.record.node) }
        var events: [UInt8] = []
        parameters.appendArray(.bytea, jobs) { parameters, job in
            events.removeAll(keepingCapacity: true)
            job.packEvents(into: &events)
            parameters.append(bytea: events)
        }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.lastAttempt) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.record.resumeData) }
        let awaiting = jobs.filter { $0.acknowledgement != nil }
        parameters.appendArray(.uuid, awaiting) { $0.append($1.lease.job) }
        parameters.appendArray(.text, awaiting) { $0.append(text: $1.acknowledgement?.encode()) }
        parameters.appendArray(.int32, awaiting) { $0.append(int32: $1.wanted) }
        let declining = jobs.filter { $0.declinesAcknowledgement }
        parameters.appendArray(.uuid, declining) { $0.append($1.lease.job) }
        return parameters
    }
}
