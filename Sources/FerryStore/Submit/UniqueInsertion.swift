import FerryCore
import Postgres
import Synchronization

/// Inserts submissions of which some have unique jobs, as a part of a transaction. First locks all keys, so
/// that no other transaction takes one of them before this one has ended. Then inserts the jobs whose keys
/// are free; in place of the others, the submission gets the jobs that have the keys.
struct UniqueInsertion {
    private let insertion: JobInsertion
    private let submissions: [Submission]
    /// Reason for which each submission may create no job; `nil`: it may.
    private let refusals: [StoreError?]
    private let now: Timestamp

    /// `refusals`: a submission with an error fails with it if one of its jobs would be new.
    init(_ submissions: [Submission], refusals: [StoreError?]? = nil, _ insertion: JobInsertion) {
        self.insertion = insertion
        self.submissions = submissions
        self.refusals = refusals ?? submissions.map { _ in nil }
        now = insertion.context.clock.now()
    }

    /// The place of a new job: its submission, and its number among the new jobs of that.
    private struct Place {
        let submission: Int
        let number: Int
    }

    /// Outcome for one job of a submission.
    private enum Item {
        case new(Place)
        /// Another job of this transaction has its key.
        case repeats(Place)
        case existing(Submission.Accepted.Job)
    }

    private struct Plan {
        var newJobs: [NewJob] = []
        var items: [Item] = []
        var refusal: StoreError?
    }

    /// Inserts what is new. Throws as `SubmissionBatch.commit`. Call in a transaction, before other locks.
    func commit(_ connection: inout Connection, epoch: Int64) throws(PostgresError) -> SubmissionBatch.Outcome
    {
        let plans = try plans(&connection)
        let replays = try refusedReplays(plans, &connection)
        let live = plans.indices.filter { plans[$0].refusal == nil }
        let draft = batch(of: live, plans)
        let known = try keepKeys(of: live, plans, draft, &connection)
        let chosen = live.filter { known[$0] == nil }
        let work = chosen.count == live.count ? draft : batch(of: chosen, plans)
        let isEmpty = work.submissions.allSatisfy { $0.jobs.isEmpty && $0.closedGroup == nil }
        var outcome = isEmpty ? .init() : try work.commit(&connection, epoch: epoch)
        outcome.results = plans.enumerated().map { index, plan in
            if let replay = known[index] ?? replays[index] { return replay }
            if let refusal = plan.refusal { return .failure(refusal) }
            let jobs = plan.items.map { accepted($0, plans, work) }
            return .success(Submission.Accepted(jobs: jobs, isReplay: false))
        }
        return outcome
    }

    private func batch(of chosen: [Int], _ plans: [Plan]) -> SubmissionBatch {
        SubmissionBatch(
            chosen.map { Submission(submissions[$0], inserting: plans[$0].newJobs) }, insertion,
            isAlone: false)
    }

    private func accepted(_ item: Item, _ plans: [Plan], _ work: SubmissionBatch) -> Submission.Accepted.Job {
        switch item {
        case .new(let place):
            work.acceptance(plans[place.submission].newJobs[place.number], begins: false)
        case .repeats(let place):
            work.acceptance(plans[place.submission].newJobs[place.number], begins: false, isNew: false)
        case .existing(let job): job
        }
    }

    // MARK: Keys

    private struct Key: Hashable {
        let tenant: String
        let key: String
    }

    private func plans(_ connection: inout Connection) throws(PostgresError) -> [Plan] {
        let found = try lock(&connection)
        var taken: [Key: Place] = [:]
        var plans: [Plan] = []
        for (index, submission) in submissions.enumerated() {
            var plan = Plan()
            // Identifiers that other jobs of the submission may name.
            var existing: [JobID: JobID] = [:]
            for (position, job) in submission.jobs.enumerated() {
                let key = job.spec.unique.map { Key(tenant: job.tenant, key: $0.key) }
                let before = found[index][position]
                let same = key.flatMap { taken[$0] }
                if let same {
                    plan.items.append(.repeats(same))
                    let jobs = same.submission == index ? plan.newJobs : plans[same.submission].newJobs
                    existing[job.id] = jobs[same.number].id
                } else if let before {
                    plan.items.append(.existing(before))
                    existing[job.id] = before.id
                } else {
                    let place = Place(submission: index, number: plan.newJobs.count)
                    if let key { taken[key] = place }
                    plan.items.append(.new(place))
                    plan.newJobs.append(job)
                }
                if job.retryOf != nil, let id = existing[job.id] { plan.refusal = .uniqueKeyTaken(id) }
            }
            if !existing.isEmpty { try refer(to: existing, &plan, submission.tenant, &connection) }
            if let refusal = refusals[index], !plan.newJobs.isEmpty {
                insertion.context.metrics.surplusJobs.add(Int64(submission.jobs.count), ordering: .relaxed)
                plan.refusal = refusal
            }
            plans.append(plan)
        }
        return plans
    }

    /// Locks all keys, and returns for each job of each submission the job that has its key.
    private func lock(
        _ connection: inout Connection
    ) throws(PostgresError) -> [[Submission.Accepted.Job?]] {
        var found = submissions.map { [Submission.Accepted.Job?](repeating: nil, count: $0.jobs.count) }
        var places: [(submission: Int, job: Int)] = []
        var (names, read) = (Parameters(), Parameters())
        var unique: [(tenant: String, rule: UniqueRule)] = []
        for (index, submission) in submissions.enumerated() where submission.hasUniqueJobs {
            for (position, job) in submission.jobs.enumerated() {
                guard let rule = job.spec.unique else { continue }
                places.append((index, position))
                unique.append((job.tenant, rule))
            }
        }
        names.appendArray(.text, unique) { $0.append(text: $1.tenant) }
        names.appendArray(.text, unique) { $0.append(text: $1.rule.key) }
        read = names
        read.appendArray(.timestamp, unique) { $0.append($1.rule.earliestEnd(now)) }
        var results = try connection.pipeline { [names, read] pipeline in
            pipeline.send(Statements.lockUniqueKeys, names)
            pipeline.send(Statements.readUniqueJobs, read)
        }
        let rows = results.take(1)
        for row in 0..<rows.rowCount {
            let place = places[Int(rows.int64(row, 0)) - 1]
            // The first one is unfinished, if there is one.
            guard found[place.submission][place.job] == nil else { continue }
            found[place.submission][place.job] = Submission.Accepted.Job(
                id: rows.identifier(row, 1), state: JobState(rawValue: rows.text(row, 2)) ?? .queued,
                waitingFor: nil, createdAt: rows.instant(row, 3), startedAt: nil, node: nil,
                nextAttemptAt: nil, isNew: false)
        }
        return found
    }

    /// Lets the new jobs of a submission refer to existing ones in place of those that are not inserted.
    private func refer(
        to existing: [JobID: JobID], _ plan: inout Plan, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) {
        var named: Set<JobID> = []
        for (number, job) in plan.newJobs.enumerated() {
            var request = job.request
            let references = request.spec.replaceReferences(existing)
            guard !references.isEmpty else { continue }
            named.formUnion(references)
            plan.newJobs[number] = NewJob(
                id: job.id, tenant: job.tenant, request,
                specJSON: request.spec.encodeStored(insertion.context.configuration.seal),
                sealedSecrets: job.sealedSecrets, traceparent: job.traceparent, retryOf: job.retryOf)
        }
        named.subtract(plan.newJobs.map(\.id))
        guard !named.isEmpty else { return }
        // A job that was deleted just now has no key any more: the next try finds that.
        let missing = try Dependencies.mark(Array(named), tenant: tenant, &connection)
        if (try? missing.get().isEmpty) != true { plan.refusal = .unavailable }
    }

    // MARK: Idempotency keys

    /// Returns the first replies to refused submissions that repeat accepted ones.
    private func refusedReplays(
        _ plans: [Plan], _ connection: inout Connection
    ) throws(PostgresError) -> [Int: Result<Submission.Accepted, StoreError>] {
        let refused = plans.indices.filter {
            plans[$0].refusal != nil && submissions[$0].idempotency != nil
        }
        return try replays(refused, &connection).filter { !$1.isUnknownKey }
    }

    private func replays(
        _ known: [Int], _ connection: inout Connection
    ) throws(PostgresError) -> [Int: Result<Submission.Accepted, StoreError>] {
        guard !known.isEmpty else { return [:] }
        return try SubmissionBatch(refused: submissions, insertion).readReplays(known, &connection)
    }

    /// Writes the idempotency keys of submissions. Returns the first replies to those whose keys exist.
    /// `draft`: a batch of these submissions.
    private func keepKeys(
        of live: [Int], _ plans: [Plan], _ draft: SubmissionBatch, _ connection: inout Connection
    ) throws(PostgresError) -> [Int: Result<Submission.Accepted, StoreError>] {
        let keyed = live.filter { submissions[$0].idempotency != nil }
        guard !keyed.isEmpty else { return [:] }
        let keys = keyed.map { submissions[$0].idempotency }
        let jobs = keyed.map { index in plans[index].items.map { accepted($0, plans, draft) } }
        var parameters = Parameters()
        parameters.appendArray(.int32, keyed) { $0.append(int32: Int32($1)) }
        parameters.appendArray(.text, keys) { $0.append(text: $1?.tenant) }
        parameters.appendArray(.text, keys) { $0.append(text: $1?.route) }
        parameters.appendArray(.text, keys) { $0.append(text: $1?.key) }
        parameters.appendArray(.bytea, keys) { $0.append(bytea: $1?.fingerprint) }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.existing) }
        let rows = zip(keyed, jobs).flatMap { index, jobs in jobs.map { (index, $0) } }
        parameters.appendArray(.int32, rows) { $0.append(int32: Int32($1.0)) }
        parameters.appendArray(.uuid, rows) { $0.append($1.1.id) }
        parameters.appendArray(.text, rows) { $0.append(text: $1.1.state.rawValue) }
        parameters.appendArray(.timestamp, rows) { $0.append($1.1.nextAttemptAt) }
        parameters.append(insertion.context.configuration.node)
        parameters.append(now)
        let inserted = try connection.execute(Statements.keepSubmissionKeys, parameters)
        let fresh = Set((0..<inserted.rowCount).map { Int(inserted.int32($0, 0)) })
        return try replays(keyed.filter { !fresh.contains($0) }, &connection)
    }
}

extension UniqueRule {
    /// Returns the earliest end of a succeeded job that has the key; `nil` if only an unfinished job has it.
    fileprivate func earliestEnd(_ now: Timestamp) -> Timestamp? {
        switch term {
        case .unfinished: return nil
        case .seconds(let seconds): return now + -seconds
        }
    }
}

extension [Submission.Accepted.Job] {
    /// The column `existing` of idempotency_keys: a byte for each job, or `nil` if all are new.
    fileprivate var existing: [UInt8]? { allSatisfy(\.isNew) ? nil : map { $0.isNew ? 0 : 1 } }
}

extension JobInsertion {
    /// Inserts submissions as a part of a transaction, with their unique jobs, if they have some.
    func insert(
        _ submissions: [Submission], refusals: [StoreError?]? = nil, _ connection: inout Connection,
        epoch: Int64
    ) throws(PostgresError) -> SubmissionBatch.Outcome {
        guard submissions.contains(where: \.hasUniqueJobs) else {
            return try SubmissionBatch(submissions, self, isAlone: false).commit(&connection, epoch: epoch)
        }
        return try UniqueInsertion(submissions, refusals: refusals, self).commit(&connection, epoch: epoch)
    }
}
