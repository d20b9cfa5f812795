import FerryCore
import Synchronization

/// What was changed about jobs while they run here, so that their end tells of it. Any thread.
final class EditRegistry: Sendable {
    private struct Edit {
        let attempt: Int32
        let revision: Int32
        let spec: JobSpec
        let specJSON: [UInt8]
    }

    /// Edits that are kept before those of jobs that run here no more are forgotten.
    private static let countMax = 1_000

    private let edits = Mutex<[JobID: Edit]>([:])
    /// What every ending looks at.
    private let isEmpty = Atomic<Bool>(true)

    /// Calls `tell` unless a later change is known: under the lock, so that whoever tells of that one does so
    /// after it.
    func insert(_ record: JobRecord, _ spec: JobSpec, book: LeaseRegistry, _ tell: () -> Void) {
        let edit = Edit(
            attempt: record.attempt, revision: record.revision, spec: spec, specJSON: record.specJSON)
        edits.withLock { edits in
            if edits.count >= Self.countMax { edits = edits.filter { book.contains($0.key) } }
            if let known = edits[record.id], known.revision > edit.revision { return }
            edits[record.id] = edit
            isEmpty.store(false, ordering: .relaxed)
            tell()
        }
    }

    /// Tells what has become of `bytesPerSecondMax` of attempts that begin, where it was changed since they
    /// were leased. Under the lock: who changes it again tells the runner later than this.
    func rates(of attempts: [Attempt], _ tell: (JobID, Int64?) -> Void) {
        guard !isEmpty.load(ordering: .relaxed) else { return }
        edits.withLock { edits in
            for attempt in attempts {
                guard let edit = edits[attempt.job], edit.attempt == attempt.number,
                    edit.spec.bytesPerSecondMax != attempt.spec.bytesPerSecondMax
                else { continue }
                tell(attempt.job, edit.spec.bytesPerSecondMax)
            }
        }
    }

    /// The result as one of the job as it is now.
    func apply(to result: AttemptResult) -> AttemptResult {
        guard !isEmpty.load(ordering: .relaxed) else { return result }
        let edit = edits.withLock { edits in
            let edit = edits.removeValue(forKey: result.attempt.job)
            isEmpty.store(edits.isEmpty, ordering: .relaxed)
            return edit
        }
        guard let edit, edit.attempt == result.attempt.number else { return result }
        return result.edited(spec: edit.spec, specJSON: edit.specJSON, revision: edit.revision)
    }
}
