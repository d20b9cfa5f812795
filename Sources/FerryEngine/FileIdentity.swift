package import FerryCore
package import Glibc

extension FileIdentity {
    /// Of an open file.
    package init(_ status: stat) {
        self.init(
            inode: UInt64(status.st_ino),
            modified: Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec))
    }
}
