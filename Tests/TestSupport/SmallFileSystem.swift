import Glibc
import Sys

/// A tmpfs of a fixed size. Needs root.
package struct SmallFileSystem {
    package let path: String
    private let data: String

    package init(_ path: String, byteCount: Int) throws {
        self.path = path
        data = "size=\(byteCount),mode=777"
        mkdir(path, 0o777)
        try mount(flags: 0)
    }

    /// Remounts read-only, like a kernel that finds errors on a disk. Waits while a file is open for writing.
    package func remount(isReadOnly: Bool) throws {
        let flags = UInt(MS_REMOUNT) | (isReadOnly ? UInt(MS_RDONLY) : 0)
        _ = eventually {
            Glibc.mount("ferry-test", path, "tmpfs", flags, data) == 0 || errno != EBUSY
        }
        try mount(flags: flags)
    }

    private func mount(flags: UInt) throws {
        guard Glibc.mount("ferry-test", path, "tmpfs", flags, data) == 0 else { throw SystemError("mount") }
    }

    package func remove() {
        // Unmounts lazily: the service may still have open descriptors in it.
        umount2(path, Int32(MNT_DETACH))
        rmdir(path)
    }
}
