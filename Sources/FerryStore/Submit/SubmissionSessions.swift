import FerryCore
import Postgres
import Synchronization

extension SubmissionWriter {
    /// Returns the submissions whose tenants may have more jobs, and replies to the others. `nil` if the
    /// database does not answer; then none is replied to.
    func admitted(_ batch: [Pending], _ database: ReconnectingConnection) -> [Pending]? {
        // Of unique jobs, the transaction tells whether all exist.
        let refused = batch.compactMap { pending in
            pending.submission.hasUniqueJobs ? nil : pending.refusal.map { (pending, $0) }
        }
        guard !refused.isEmpty else { return batch }
        guard let replays = replays(for: refused.map(\.0), database) else { return nil }
        for ((pending, refusal), replay) in zip(refused, replays) {
            if replay == nil {
                insertion.context.metrics.surplusJobs.add(
                    Int64(pending.submission.jobs.count), ordering: .relaxed)
            }
            reply(pending, replay ?? .failure(refusal))
        }
        return batch.filter { $0.refusal == nil || $0.submission.hasUniqueJobs }
    }

    /// Returns the submissions that their sessions accept, with the epoch of those sessions, and replies to
    /// the others. `nil` if the database does not answer; then none is replied to.
    func acceptable(_ batch: [Pending], _ database: ReconnectingConnection) -> (
        batch: [Pending], epoch: Int64
    )? {
        let sessions = insertion.context.sessions.current
        // True of nearly every batch: no session has a configuration or has changed.
        if sessions.records.isEmpty,
            batch.allSatisfy({ $0.submission.sessionEpoch ?? sessions.epoch == sessions.epoch })
        {
            return (batch, sessions.epoch)
        }
        let parts = Verdicts(batch, sessions)
        guard parts.areRefused else { return (settle(parts, []), sessions.epoch) }
        // This node's sessions may be old: a session that has ended may be removed by now.
        do {
            try insertion.sessionLoader.readSessions(database)
        } catch {
            return nil
        }
        let newest = insertion.context.sessions.current
        let newParts = Verdicts(batch, newest)
        guard let replays = replays(for: newParts.invalidated, database) else { return nil }
        return (settle(newParts, replays), newest.epoch)
    }

    /// Replies to all submissions but the accepted ones, and returns these.
    private func settle(
        _ parts: Verdicts, _ replays: [Result<Submission.Accepted, StoreError>?]
    ) -> [Pending] {
        for pending in parts.unreadable { reply(pending, .failure(.failed)) }
        for pending in parts.changed { reply(pending, .failure(.sessionsChanged)) }
        for (pending, replay) in zip(parts.invalidated, replays) {
            reply(pending, replay ?? .failure(.sessionInvalidated))
        }
        return parts.accepted
    }

    private struct Verdicts {
        var accepted: [Pending] = []
        var changed: [Pending] = []
        var invalidated: [Pending] = []
        var unreadable: [Pending] = []
        var areRefused: Bool { !invalidated.isEmpty || !unreadable.isEmpty }

        init(_ batch: [Pending], _ sessions: SessionSnapshot) {
            for pending in batch {
                let submission = pending.submission
                switch sessions.verdict(on: submission.jobs, known: submission.sessionEpoch) {
                case .acceptable: accepted.append(pending)
                case .changed: changed.append(pending)
                case .invalidated: invalidated.append(pending)
                case .unreadable: unreadable.append(pending)
                }
            }
        }
    }

    /// Returns the first reply to each refused submission whose idempotency key was accepted before, and
    /// `nil` for each other one. Returns `nil` if the database does not answer.
    func replays(
        for refused: [Pending], _ database: ReconnectingConnection
    ) -> [Result<Submission.Accepted, StoreError>?]? {
        let submissions = refused.map(\.submission)
        let keyed = submissions.indices.filter { submissions[$0].idempotency != nil }
        var known: [Int: Result<Submission.Accepted, StoreError>] = [:]
        if !keyed.isEmpty {
            do {
                known = try database.withConnection { connection throws(PostgresError) in
                    try SubmissionBatch(refused: submissions, insertion).readReplays(keyed, &connection)
                }
            } catch {
                return nil
            }
        }
        return submissions.indices.map { index -> Result<Submission.Accepted, StoreError>? in
            known[index].flatMap { $0.isUnknownKey ? nil : $0 }
        }
    }
}

extension Result<Submission.Accepted, StoreError> {
    /// `true` for a reply of `readReplays` to a key that does not exist.
    var isUnknownKey: Bool { if case .failure(.idempotencyKeyInProgress) = self { true } else { false } }
}
