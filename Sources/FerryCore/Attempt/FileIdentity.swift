/// By what a published file is known again, beside its size: whoever puts another one in its place, or writes
/// into it, leaves another inode or another time.
package struct FileIdentity: Sendable, Equatable {
    package let inode: UInt64
    /// Nanoseconds since 1970, of the last change of its bytes (stat(2), `st_mtim`).
    package let modified: Int64

    package init(inode: UInt64, modified: Int64) {
        self.inode = inode
        self.modified = modified
    }

    /// Reads `text`.
    package init?(_ text: String) {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, let inode = UInt64(parts[0]), let modified = Int64(parts[1]) else {
            return nil
        }
        self.init(inode: inode, modified: modified)
    }

    /// Digits, `-` and `@` only.
    package var text: String { "\(inode)@\(modified)" }
}
