import Synchronization

/// Whether this node may begin downloads: closed while the disk that they would fill is nearly full.
package final class DownloadGate: Sendable {
    private let open = Atomic<Bool>(true)

    package init() {}

    package var isOpen: Bool { open.load(ordering: .relaxed) }

    package func set(isOpen: Bool) { open.store(isOpen, ordering: .relaxed) }

    /// Whether a job of this kind may begin now.
    package func admits(_ kind: JobKind) -> Bool { kind != .download || isOpen }
}
