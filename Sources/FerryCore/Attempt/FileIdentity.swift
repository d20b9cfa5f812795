/// Identity of a published file besides its size. A file that was replaced or written to has another inode or
/// modification time.
public struct FileIdentity: Sendable, Equatable {
    /// Inode number (stat(2)).
    public let inode: UInt64
    /// Modification time in nanoseconds since 1970 (stat(2), `st_mtim`).
    public let modified: Int64

    /// Creates an identity.
    public init(inode: UInt64, modified: Int64) {
        self.inode = inode
        self.modified = modified
    }

    /// Reads what `text` returned; `nil` if it is something else.
    public init?(_ text: String) {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, let inode = UInt64(parts[0]), let modified = Int64(parts[1]) else {
            return nil
        }
        self.init(inode: inode, modified: modified)
    }

    /// Text of digits, `-` and `@`.
    public var text: String { "\(inode)@\(modified)" }
}
