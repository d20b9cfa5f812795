import Synchronization

/// Findings of the sweeps and reads of the content store on this node since its start. Any thread.
package final class ContentCounts: Sendable {
    private let removed = Atomic<Int64>(0)
    private let missing = Atomic<Int64>(0)
    private let restored = Atomic<Bool>(false)

    /// Objects and incomplete multipart uploads that sweeps have removed.
    package var removedCount: Int64 { removed.load(ordering: .relaxed) }
    /// Reads of contents whose object the store no longer has.
    package var missingCount: Int64 { missing.load(ordering: .relaxed) }
    /// `true` while the database has a lower generation than the store: the database was restored.
    package var isRestored: Bool { restored.load(ordering: .relaxed) }

    func noteRemoval() { removed.add(1, ordering: .relaxed) }
    func noteMissing() { missing.add(1, ordering: .relaxed) }
    /// Returns whether the value has changed.
    package func note(isRestored: Bool) -> Bool {
        restored.exchange(isRestored, ordering: .relaxed) != isRestored
    }
}
