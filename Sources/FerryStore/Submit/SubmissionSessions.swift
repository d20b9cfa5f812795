import FerryCore
import Postgres
import Synchronization

extension SubmissionWriter {
    /// The submissions that have room; the others are answered. Nil: there is no database, and nobody was
    /// answered.
    func admitted(_ batch: [Pending], _ lane: ReconnectingConnection) -> [Pending]? {
        let refused = batch.compactMap { pending in pending.refusal.map { (pending, $0) } }
        guard !refused.isEmpty else { return batch }
        guard let replays = replays(for: refused.map(\.0), lane) else { return nil }
        for ((pending, refusal), replay) in zip(refused, replays) {
            if replay == nil {
                context.metrics.surplusJobs.add(Int64(pending.submission.jobs.count), ordering: .relaxed)
            }
            reply(pending, replay ?? .failure(refusal))
        }
        return batch.filter { $0.refusal == nil }
    }

    /// The submissions whose sessions take them as they are, with the epoch that says so; the others are
    /// answered. Nil: there is no database, and nobody was answered.
    func acceptable(_ batch: [Pending], _ lane: ReconnectingConnection) -> (batch: [Pending], epoch: Int64)? {
        let sessions = context.sessions.current
        // Nobody has configured a session since these were read, in nearly every batch.
        if sessions.records.isEmpty,
            batch.allSatisfy({ $0.submission.sessionEpoch ?? sessions.epoch == sessions.epoch })
        {
            return (batch, sessions.epoch)
        }
        let parts = Verdicts(batch, sessions)
        guard parts.areRefused else { return (settle(parts, []), sessions.epoch) }
        // What is known may be old: a session that has ended can have been removed.
        do {
            try context.readSessions(lane)
        } catch {
            return nil
        }
        let newest = context.sessions.current
        let newParts = Verdicts(batch, newest)
        guard let replays = replays(for: newParts.invalidated, lane) else { return nil }
        return (settle(newParts, replays), newest.epoch)
    }

    /// Answers all but those that are accepted.
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

    /// What submissions get that are not to be accepted: whoever was accepted before gets that answer again.
    /// Nil for the others.
    private func replays(
        for refused: [Pending], _ lane: ReconnectingConnection
    ) -> [Result<Submission.Accepted, StoreError>?]? {
        let submissions = refused.map(\.submission)
        let keyed = submissions.indices.filter { submissions[$0].idempotency != nil }
        var known: [Int: Result<Submission.Accepted, StoreError>] = [:]
        if !keyed.isEmpty {
            do {
                known = try lane.withConnection { connection throws(PostgresError) in
                    try SubmissionBatch(refused: submissions, context).readReplays(keyed, &connection)
                }
            } catch {
                return nil
            }
        }
        return submissions.indices.map { index -> Result<Submission.Accepted, StoreError>? in
            // There is no such key.
            if case .failure(.idempotencyKeyInProgress)? = known[index] { nil } else { known[index] }
        }
    }
}
