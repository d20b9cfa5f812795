import FerryCore
import Postgres

/// Submits finished jobs again in a step of a bulk operation, each once: a job that another one has retried
/// is skipped.
struct BulkRetry {
    /// Seconds after which a retry that waits for a limit of its tenant is tried again: limits change.
    private static let waitMax = 60.0

    let insertion: JobInsertion
    let tenant: String
    /// Trace context of the new jobs.
    let traceparent: String

    struct Outcome {
        /// The new jobs; `nil` if there are none.
        var submitted: SubmissionBatch.Outcome?
        /// The first job that was not looked at, and the seconds until it can be.
        var stoppedBefore: (job: JobID, seconds: Double)?
    }

    /// Submits jobs in their order, and counts the others. Call in a transaction. Throws an error with
    /// `isSessionChange` if sessions have changed since this node has read them. `admitted`: to be settled
    /// after the transaction, also if it throws.
    func commit(
        _ jobs: [JobID], _ counts: inout BulkCounts, admitted: inout AdmittedJobs,
        _ connection: inout Connection
    ) throws(PostgresError) -> Outcome {
        var outcome = Outcome()
        guard !jobs.isEmpty else { return outcome }
        var tenantOnly = Parameters()
        tenantOnly.append(text: tenant)
        _ = try connection.execute(Statements.lockRetries, tenantOnly)
        var found = try insertion.context.jobs(jobs, withBodies: false, &connection)
        let taken = Self.part(jobs, found)
        if taken.count < jobs.count { outcome.stoppedBefore = (jobs[taken.count], 0) }
        let sources = try sources(taken, &connection)
        let files = try knownSources(taken.compactMap { found[$0]?.record.spec }, &connection)
        let sessions = insertion.context.sessions.current
        var new: [NewJob] = []
        retrying: for id in taken {
            guard let stored = found.removeValue(forKey: id), stored.record.state.isTerminal,
                let source = sources[id]
            else {
                // Deleted meanwhile.
                counts.add(.invalidState)
                continue
            }
            switch repeated(stored.record, source, sessions, files) {
            case .failure(let refusal): counts.add(refusal.reason)
            case .success(let job):
                if let refusal = try insertion.admission.refusal(of: [job], &admitted, &connection) {
                    // A limit of the tenant is reached: the operation waits until jobs have ended, or the
                    // next day has begun.
                    outcome.stoppedBefore = (id, min(Self.waitMax, max(1, refusal.retryAfter ?? 1)))
                    break retrying
                }
                new.append(job)
            }
        }
        guard !new.isEmpty else { return outcome }
        // A unique job is a submission of its own, which is refused if its key is taken.
        let parts = new.contains(where: \.spec.isUnique) ? new.map { [$0] } : [new]
        let submitted = try insertion.insert(
            parts.map { Submission(jobs: $0, idempotency: nil) { _ in } }, &connection,
            epoch: sessions.epoch)
        counts.changed += Int64(submitted.jobCount)
        counts.add(.uniqueKeyTaken, count: Int64(new.count - submitted.jobCount))
        insertion.admission.withdraw(new.count - submitted.jobCount, of: tenant, &admitted)
        outcome.submitted = submitted
        return outcome
    }

    /// Returns the first jobs, of which few have inline bytes, so that a step needs little memory.
    private static func part(_ jobs: [JobID], _ found: [JobID: StoredJob]) -> ArraySlice<JobID> {
        var payloadCount = 0
        let end = jobs.firstIndex { id in
            if found[id]?.record.spec?.hasPayload ?? false { payloadCount += 1 }
            return payloadCount > Limits.bulkStepPayloadCount
        }
        return jobs[..<(end ?? jobs.endIndex)]
    }

    /// Row of read_retry_sources.sql.
    private struct Source {
        let isRetried: Bool
        let sealedSecrets: [UInt8]?
        let payload: [UInt8]?
    }

    private func sources(
        _ jobs: ArraySlice<JobID>, _ connection: inout Connection
    ) throws(PostgresError) -> [JobID: Source] {
        let rows = try connection.execute(Statements.readRetrySources, .identifiers(Array(jobs)))
        var sources: [JobID: Source] = [:]
        for row in 0..<rows.rowCount {
            sources[rows.identifier(row, 0)] = Source(
                isRetried: rows.bool(row, 1), sealedSecrets: rows.bytesOrNil(row, 2),
                payload: rows.bytesOrNil(row, 3))
        }
        return sources
    }

    /// Reason for which a job is not submitted again.
    private struct Refusal: Error {
        let reason: BulkReason
    }

    private func repeated(
        _ record: JobRecord, _ source: Source, _ sessions: SessionSnapshot, _ files: KnownSources
    ) -> Result<NewJob, Refusal> {
        guard !source.isRetried else { return .failure(Refusal(reason: .alreadyRetried)) }
        var secrets: JobSecrets? = JobSecrets()
        if let sealed = source.sealedSecrets { secrets = insertion.context.configuration.openSecrets(sealed) }
        guard let secrets else { return .failure(Refusal(reason: .internalError)) }
        let configuration = insertion.context.configuration
        let repetition = JobRepetition(
            egress: configuration.egress, secrets: configuration.seal,
            openResumeData: configuration.openResumePoint)
        do throws(JobRepetition.Refusal) {
            let job = try repetition.job(
                repeating: RetrySource(record: record, secrets: secrets, payload: source.payload),
                as: insertion.context.identifiers.make(), at: insertion.context.clock.now(),
                traceparent: traceparent)
            guard job.spec.sourceJobs.allSatisfy({ files.jobs.contains($0.job) }),
                files.uploads.isSuperset(of: job.spec.sourceUploadIDs)
            else { return .failure(Refusal(reason: .sourceMissing)) }
            switch sessions.verdict(on: [job], known: nil) {
            case .acceptable, .changed: return .success(job)
            case .invalidated: return .failure(Refusal(reason: .sessionInvalidated))
            case .unreadable: return .failure(Refusal(reason: .internalError))
            }
        } catch {
            switch error {
            case .unreadable: return .failure(Refusal(reason: .internalError))
            case .blockedURL, .blockedOtherEnd, .blockedProxy:
                return .failure(Refusal(reason: .blockedAddress))
            case .bytesNotKept: return .failure(Refusal(reason: .notRepeatable))
            }
        }
    }

    /// Sources of jobs that exist.
    private struct KnownSources {
        var jobs: Set<JobID> = []
        var uploads: Set<UploadID> = []
    }

    /// Returns which of the jobs exist whose files `specs` send, and which of the uploads are complete.
    private func knownSources(
        _ specs: [JobSpec], _ connection: inout Connection
    ) throws(PostgresError) -> KnownSources {
        var known = KnownSources()
        let uploads = Set(specs.flatMap(\.sourceUploadIDs))
        if !uploads.isEmpty {
            let found = try UploadCommands.prepare(uploads.map { .id($0) }, of: tenant, &connection)
            known.uploads = Set(found.lazy.filter(\.isComplete).map(\.id))
        }
        let named = Set(specs.flatMap { $0.sourceJobs.map(\.job) })
        guard !named.isEmpty else { return known }
        var parameters = Parameters.identifiers(Array(named))
        parameters.append(text: tenant)
        known.jobs = Set(try connection.execute(Statements.knownJobs, parameters).identifiers())
        return known
    }
}
