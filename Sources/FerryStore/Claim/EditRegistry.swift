import FerryCore
import Synchronization

/// Edits of jobs that run on this node, so that attempts that are about to begin use the edited fields, and
/// results carry them. May be used from any thread.
final class EditRegistry: Sendable {
    /// Number of edits above which those of jobs that no longer run here are removed.
    private static let countMax = 1_000

    private let edits = Mutex<[JobID: AttemptEdit]>([:])
    /// `true` while there are no edits. Lets the other methods skip the lock.
    private let isEmpty = Atomic<Bool>(true)

    /// Registers an edit and calls `body` under the lock, unless a later edit is registered. Calls of `body`
    /// for one job therefore come in the order of its revisions.
    func insert(_ edit: AttemptEdit, of job: JobID, leases: LeaseRegistry, _ body: () -> Void) {
        edits.withLock { edits in
            if edits.count >= Self.countMax { edits = edits.filter { leases.contains($0.key) } }
            if let known = edits[job], known.revision > edit.revision { return }
            edits[job] = edit
            isEmpty.store(false, ordering: .relaxed)
            body()
        }
    }

    /// Returns attempts that are about to begin with the edits that came after their lease.
    func apply(to attempts: [Attempt]) -> [Attempt] {
        guard !isEmpty.load(ordering: .relaxed) else { return attempts }
        return edits.withLock { edits in
            attempts.map { attempt in
                guard let edit = edits[attempt.job], edit.attempt == attempt.number else { return attempt }
                return attempt.edited(by: edit)
            }
        }
    }

    /// Calls `body` with the edits that came after `apply(to:)` returned these attempts. Holds the lock, so
    /// that a later edit reaches the runner after this one.
    func later(than attempts: [Attempt], _ body: (JobID, AttemptEdit) -> Void) {
        guard !isEmpty.load(ordering: .relaxed) else { return }
        edits.withLock { edits in
            for attempt in attempts {
                guard let edit = edits[attempt.job], edit.attempt == attempt.number,
                    edit.revision > attempt.revision
                else { continue }
                body(attempt.job, edit)
            }
        }
    }

    /// Returns the result with the edited fields of the job, and forgets the edit.
    func apply(to result: AttemptResult) -> AttemptResult {
        guard !isEmpty.load(ordering: .relaxed) else { return result }
        let edit = edits.withLock { edits in
            let edit = edits.removeValue(forKey: result.attempt.job)
            isEmpty.store(edits.isEmpty, ordering: .relaxed)
            return edit
        }
        guard let edit, edit.attempt == result.attempt.number else { return result }
        return result.edited(by: edit)
    }
}
