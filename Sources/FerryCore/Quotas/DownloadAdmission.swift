import Synchronization

/// Decides whether this node may begin downloads: not while a disk for downloads is nearly full or cannot be
/// written to. May be used on any thread.
public final class DownloadAdmission: Sendable {
    /// Reason why downloads may not begin.
    public enum Hold: Int, Sendable {
        /// Less free space than must stay free.
        case noSpace = 1
        /// A file system that is read-only or fails.
        case unwritable
    }

    private let state = Atomic<Int>(0)

    /// Creates a value that admits downloads.
    public init() {}

    /// The reason, or `nil` if downloads may begin.
    public var hold: Hold? { Hold(rawValue: state.load(ordering: .relaxed)) }

    /// `true` if downloads may begin.
    public var isOpen: Bool { hold == nil }

    /// Sets or removes the reason.
    public func set(_ hold: Hold?) { state.store(hold?.rawValue ?? 0, ordering: .relaxed) }

    /// Returns `true` if a job of this kind may begin now.
    public func admits(_ kind: JobKind) -> Bool { kind != .download || isOpen }
}
