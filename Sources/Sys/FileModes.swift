import Glibc

/// Permissions of the files and directories that the process creates.
public struct FileModes: Sendable, Equatable {
    /// Permissions of a file, as in open(2).
    public let file: UInt32
    /// Permissions of a directory, as in mkdir(2).
    public let directory: UInt32

    /// Creates the permissions that remain after removing the bits of `umask` (umask(2)).
    public init(umask: UInt32) {
        file = 0o666 & ~umask
        directory = 0o777 & ~umask
    }

    /// Access for the owner only.
    public static let own = FileModes(umask: 0o077)
}

/// Returns the umask of the process. umask(2) can only set it: for a moment, files that other threads create
/// are accessible to their owner only.
public func processUmask() -> UInt32 {
    let mask = umask(0o077)
    umask(mask)
    return UInt32(mask)
}
