import Glibc

/// Permissions of the files and directories that a process makes.
package struct FileModes: Sendable, Equatable {
    package let file: UInt32
    package let directory: UInt32

    /// `umask`: the bits that are taken away, as in umask(2).
    package init(umask: UInt32) {
        file = 0o666 & ~umask
        directory = 0o777 & ~umask
    }

    /// For the owner alone.
    package static let own = FileModes(umask: 0o077)
}

/// Returns the process's umask. umask(2) can only set it: for a moment files of other threads are made for
/// their owner alone.
package func processUmask() -> UInt32 {
    let mask = umask(0o077)
    umask(mask)
    return UInt32(mask)
}
