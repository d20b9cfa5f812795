import Synchronization

/// Whether this node may begin downloads, and why not: it is closed while a disk that they would fill is
/// nearly full, or cannot be written to.
package final class DownloadAdmission: Sendable {
    package enum Hold: Int, Sendable {
        /// Less room than is to be kept.
        case noRoom = 1
        /// A file system that became read-only, or fails.
        case unwritable
    }

    private let state = Atomic<Int>(0)

    package init() {}

    /// Nil: downloads may begin.
    package var hold: Hold? { Hold(rawValue: state.load(ordering: .relaxed)) }

    package var isOpen: Bool { hold == nil }

    package func set(_ hold: Hold?) { state.store(hold?.rawValue ?? 0, ordering: .relaxed) }

    /// Whether a job of this kind may begin now.
    package func admits(_ kind: JobKind) -> Bool { kind != .download || isOpen }
}
