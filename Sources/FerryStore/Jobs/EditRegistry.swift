import FerryCore
import Synchronization

/// Edits of jobs that run on this node, so that their results carry the edited spec. May be used from any
/// thread.
final class EditRegistry: Sendable {
    private struct Edit {
        let attempt: Int32
        let revision: Int32
        let spec: JobSpec
        let storedSpec: StoredSpec
    }

    /// Number of edits above which those of jobs that no longer run here are removed.
    private static let countMax = 1_000

    private let edits = Mutex<[JobID: Edit]>([:])
    /// `true` while there are no edits. Lets `apply(to:)` and `rates(of:)` skip the lock.
    private let isEmpty = Atomic<Bool>(true)

    /// Registers an edit and calls `body` under the lock, unless a later edit is registered. Calls of `body`
    /// for one job therefore come in the order of its revisions.
    func insert(_ record: JobRecord, _ spec: JobSpec, leases: LeaseRegistry, _ body: () -> Void) {
        let edit = Edit(
            attempt: record.attempt, revision: record.revision, spec: spec, storedSpec: record.storedSpec)
        edits.withLock { edits in
            if edits.count >= Self.countMax { edits = edits.filter { leases.contains($0.key) } }
            if let known = edits[record.id], known.revision > edit.revision { return }
            edits[record.id] = edit
            isEmpty.store(false, ordering: .relaxed)
            body()
        }
    }

    /// Calls `body` with the current `bytesPerSecondMax` of attempts that are about to begin, if it was
    /// edited after they were leased. Holds the lock, so that a later edit reaches the runner after this one.
    func rates(of attempts: [Attempt], _ body: (JobID, Int64?) -> Void) {
        guard !isEmpty.load(ordering: .relaxed) else { return }
        edits.withLock { edits in
            for attempt in attempts {
                guard let edit = edits[attempt.job], edit.attempt == attempt.number,
                    edit.spec.bytesPerSecondMax != attempt.spec.bytesPerSecondMax
                else { continue }
                body(attempt.job, edit.spec.bytesPerSecondMax)
            }
        }
    }

    /// Returns the result with the edited spec of the job, and forgets the edit.
    func apply(to result: AttemptResult) -> AttemptResult {
        guard !isEmpty.load(ordering: .relaxed) else { return result }
        let edit = edits.withLock { edits in
            let edit = edits.removeValue(forKey: result.attempt.job)
            isEmpty.store(edits.isEmpty, ordering: .relaxed)
            return edit
        }
        guard let edit, edit.attempt == result.attempt.number else { return result }
        return result.edited(spec: edit.spec, storedSpec: edit.storedSpec, revision: edit.revision)
    }
}
