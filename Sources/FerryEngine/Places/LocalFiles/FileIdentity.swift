package import FerryCore
package import Glibc

extension FileIdentity {
    /// The identity of an open file.
    package init(_ status: stat) {
        self.init(
            inode: UInt64(status.st_ino),
            // Before 1677 and after 2262 the product overflows to another number, which compares as well.
            modified: Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec))
    }
}
