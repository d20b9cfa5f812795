import FerryCore
import Postgres

// The parameters of the statements of a submission.
extension SubmissionBatch {
    /// The parameters of submit_jobs.sql.
    func plainParameters(of chosen: [Int], _ queues: SubmissionQueues, epoch: Int64) -> Parameters {
        guard !chosen.isEmpty else { return Parameters(capacity: 0) }
        var parameters = parameters(of: chosen)
        appendHints(chosen, to: &parameters)
        appendClaimQueues(chosen, queues, to: &parameters)
        events(of: chosen).append(to: &parameters)
        parameters.append(int64: epoch)
        appendConfirmations(chosen, to: &parameters)
        appendScopePaths(chosen, to: &parameters)
        appendClaimFlags(chosen, to: &parameters)
        appendGroups(chosen, to: &parameters)
        appendUniqueKeys(chosen, to: &parameters)
        return parameters
    }

    /// $1 to $17 of submit_jobs.sql.
    private func parameters(of chosen: [Int]) -> Parameters {
        let jobs = chosen.flatMap { submissions[$0].jobs }
        let leased = chosen.flatMap { leases[$0] }
        var parameters = Parameters(capacity: jobs.count * 1024)
        parameters.appendArray(.uuid, jobs) { $0.append($1.id) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.spec.session) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.spec.kind.rawValue) }
        parameters.appendArray(.int32, leased) { $0.append(int32: $1.rawValue) }
        parameters.appendArray(.float32, jobs) { $0.append(float32: Float($1.spec.schedule.priority)) }
        parameters.appendArray(.timestamp, jobs) {
            $0.append(dueAt($1))
        }
        parameters.appendArray(.timestamp, jobs) { $0.append($1.spec.schedule.expiry(createdAt: now)) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.origin) }
        parameters.appendArray(.uuid, jobs) { $0.append($1.retryOf) }
        parameters.appendArray(.jsonb, jobs) { $0.append(jsonb: $1.spec.metadataJSON) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.storedSpec.json) }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.sealedSecrets) }
        parameters.appendArray(.bytea, jobs) { $0.append(bytea: $1.request.payload) }
        parameters.appendArray(.text, jobs) { $0.append(text: $1.traceparent) }
        parameters.append(now)
        parameters.append(insertion.context.configuration.node)
        return parameters
    }

    private func events(of chosen: [Int]) -> EventBatch {
        var events = EventBatch()
        for index in chosen {
            for (job, lease) in zip(submissions[index].jobs, leases[index]) {
                events.add(tenant: job.tenant, session: job.spec.session) {
                    pack(job, begins: lease == .begins, into: &$0)
                }
            }
        }
        return events
    }

    /// Appends the events that a job was created and, if it begins at once, has started.
    private func pack(_ job: NewJob, begins: Bool, into bytes: inout [UInt8]) {
        let waitingFor = shownReason(job)
        let state = state(job, begins: begins)
        let types: [EventType] = begins ? [.jobCreated, .jobStarted] : [.jobCreated]
        let node = begins ? insertion.context.configuration.node : nil
        var detail = EventDetail(node: node, nextAttemptAt: begins ? nil : dueAt(job))
        detail.questionJSON = questions[job.id]?.encodedWithoutSecrets
        let packed = detail.packed
        for type in types {
            EventRecord(
                type, job: job.id, at: now, wanted: job.spec.wantedEvents, attempt: begins ? 1 : 0,
                revision: 1, state: state, waitingFor: waitingFor, detail: packed
            ).pack(into: &bytes)
        }
    }

    /// The parameters of submit_keyed_jobs.sql.
    func keyedParameters(of chosen: [Int], _ queues: SubmissionQueues, epoch: Int64) -> Parameters {
        guard !chosen.isEmpty else { return Parameters(capacity: 0) }
        var parameters = parameters(of: chosen)
        parameters.beginArray(.int32)
        for index in chosen {
            for _ in submissions[index].jobs { parameters.append(int32: Int32(index)) }
        }
        parameters.endArray()
        let keys = chosen.map { submissions[$0].idempotency }
        parameters.appendArray(.int32, chosen) { $0.append(int32: Int32($1)) }
        parameters.appendArray(.text, keys) { $0.append(text: $1?.tenant) }
        parameters.appendArray(.text, keys) { $0.append(text: $1?.route) }
        parameters.appendArray(.text, keys) { $0.append(text: $1?.key) }
        parameters.appendArray(.bytea, chosen) { $0.append(bytea: submissions[$1].idempotency?.fingerprint) }
        appendHints(chosen, to: &parameters)
        var packed: [UInt8] = []
        parameters.beginArray(.bytea)
        for index in chosen {
            for (job, lease) in zip(submissions[index].jobs, leases[index]) {
                packed.removeAll(keepingCapacity: true)
                pack(job, begins: lease == .begins, into: &packed)
                parameters.append(bytea: packed)
            }
        }
        parameters.endArray()
        appendClaimQueues(chosen, queues, to: &parameters)
        parameters.append(int64: epoch)
        appendConfirmations(chosen, to: &parameters)
        appendScopePaths(chosen, to: &parameters)
        appendClaimFlags(chosen, to: &parameters)
        appendGroups(chosen, to: &parameters)
        return parameters
    }

    /// Appends what the jobs wait for or that they are suspended, and the events that their
    /// webhooks want.
    private func appendHints(_ chosen: [Int], to parameters: inout Parameters) {
        parameters.beginArray(.text)
        for index in chosen {
            for job in submissions[index].jobs {
                let isSuspended = job.spec.startsSuspended
                parameters.append(
                    text: isSuspended ? JobState.suspended.rawValue : waitingFor(job)?.rawValue)
            }
        }
        parameters.endArray()
        parameters.beginArray(.int32)
        for index in chosen {
            for job in submissions[index].jobs { parameters.append(int32: job.spec.wantedEvents) }
        }
        parameters.endArray()
    }

    private func appendScopePaths(_ chosen: [Int], to parameters: inout Parameters) {
        parameters.beginArray(.text)
        for index in chosen {
            for job in submissions[index].jobs {
                parameters.append(text: insertion.queueState.scope(of: job).path)
            }
        }
        parameters.endArray()
    }

    private func appendClaimFlags(_ chosen: [Int], to parameters: inout Parameters) {
        let specs = chosen.flatMap { submissions[$0].jobs.map(\.spec) }
        parameters.appendArray(.bool, specs) { $0.append(bool: $1.isRequestRepeatable) }
        parameters.appendArray(.bool, specs) { $0.append(bool: $1.awaitsHost) }
    }

    /// Appends claim queues and urgencies.
    private func appendClaimQueues(
        _ chosen: [Int], _ queues: SubmissionQueues, to parameters: inout Parameters
    ) {
        parameters.beginArray(.int64)
        for index in chosen {
            for number in queues.numbers[index] { parameters.append(int64: number) }
        }
        parameters.endArray()
        parameters.beginArray(.timestamp)
        for index in chosen {
            for job in submissions[index].jobs {
                parameters.append(urgency(job))
            }
        }
        parameters.endArray()
    }

    /// Appends the unique keys of the jobs, or null if none has one.
    private func appendUniqueKeys(_ chosen: [Int], to parameters: inout Parameters) {
        guard chosen.contains(where: { submissions[$0].hasUniqueJobs }) else {
            return parameters.appendNull()
        }
        parameters.appendArray(.text, chosen.flatMap { submissions[$0].jobs }) {
            $0.append(text: $1.spec.unique?.key)
        }
    }

    /// Appends whether each job is to be confirmed before it begins.
    private func appendConfirmations(_ chosen: [Int], to parameters: inout Parameters) {
        parameters.appendArray(.bool, chosen.flatMap { submissions[$0].jobs }) {
            $0.append(bool: $1.spec.schedule.confirmsBeforeBegin)
        }
    }
}

extension Parameters {
    /// The parameters of read_keys.sql.
    mutating func append(keys: [Submission.Idempotency?], numbered numbers: [Int]) {
        appendArray(.int32, numbers) { $0.append(int32: Int32($1)) }
        appendArray(.text, keys) { $0.append(text: $1?.tenant) }
        appendArray(.text, keys) { $0.append(text: $1?.key) }
    }
}
