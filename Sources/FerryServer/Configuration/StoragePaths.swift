import CSys
import FerryCore
import Glibc
import Sys

/// Directories for files. The tenant `default` belongs to the operator; each other tenant has a directory of
/// its own.
struct StoragePaths: Sendable {
    let storageRoot: String
    let tenantStorageRoot: String
    private let dataDirectory: String
    /// Value of FERRY_UMASK; `nil` if not set.
    private let umask: UInt32?
    private let modes: FileModes
    private let tenantModes: FileModes

    init(_ configuration: Configuration) {
        umask = configuration.umask
        modes = Self.modes(umask, isNamed: configuration.isStorageRootNamed)
        tenantModes = Self.modes(umask, isNamed: configuration.isTenantStorageRootNamed)
        storageRoot = configuration.storageRoot
        tenantStorageRoot = configuration.tenantStorageRoot
        dataDirectory = configuration.dataDirectory
        managedFiles = configuration.contentStore.directory ?? dataDirectory + "/results"
    }

    /// Directory of the results of jobs without a destination.
    let managedFiles: String

    /// Directory of staged uploads.
    var uploads: String { dataDirectory + "/uploads" }

    /// All directories that attempts write to, without those below another one.
    var roots: [String] {
        [storageRoot]
            // A directory that cannot be compared is listed: reading it will fail in the same way.
            + [managedFiles, tenantStorageRoot].filter {
                (try? isDirectory($0, atOrBelow: storageRoot)) != true
            }
    }

    /// Directories whose disks need free space.
    var watched: [String] {
        let isElsewhere = !managedFiles.hasPrefix(dataDirectory + "/")
        return [storageRoot, tenantStorageRoot, dataDirectory] + (isElsewhere ? [managedFiles] : [])
    }

    func root(of tenant: String) -> String {
        tenant == APIKey.defaultTenant ? storageRoot : "\(tenantStorageRoot)/\(tenant)/files"
    }

    /// Permissions of a tenant's files. In Ferry's own directories, owner and group may read them; in a
    /// configured root, the umask of the process decides.
    func fileModes(of tenant: String) -> FileModes {
        tenant == APIKey.defaultTenant ? modes : tenantModes
    }

    private static func modes(_ umask: UInt32?, isNamed: Bool) -> FileModes {
        FileModes(umask: umask ?? ((isNamed ? 0o022 : 0o027) | processUmask()))
    }

    /// Creates missing directories, and sets FERRY_UMASK as the umask of the process. Throws if a tenant
    /// could name files of others, or the kernel cannot restrict paths to a root.
    func prepare() throws {
        if let umask { Glibc.umask(mode_t(umask)) }
        // Others may pass through but not list it: the private PostgreSQL runs as another user if Ferry runs
        // as root.
        try createDirectory(dataDirectory, mode: 0o711)
        try createDirectory(managedFiles, mode: 0o700)
        try createDirectory(uploads, mode: 0o700)
        try createDirectory(storageRoot, mode: modes.directory)
        try createDirectory(tenantStorageRoot, mode: tenantModes.directory)
        try checkNesting()
        try checkKernel()
    }

    /// Without openat2(2) no file could be opened later, and all jobs would fail.
    private func checkKernel() throws {
        let directory = open(managedFiles, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw SystemError("open \(managedFiles)") }
        defer { close(directory) }
        let opened = csys_open_beneath(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0)
        guard opened < 0 else {
            close(opened)
            return
        }
        throw Configuration.Failure(
            description:
                "\(SystemError("openat2 \(managedFiles)")). Ferry opens files with openat2(2): it needs "
                + "Linux 5.6 or later, and a seccomp profile that allows it.")
    }

    /// Throws if roots contain each other: names directly below the tenants' root are tenants, and a tenant
    /// can name each path below its own root.
    private func checkNesting() throws {
        for (root, others) in [
            (tenants, [data, results, staged, storage]), (results, [storage, tenants]),
            (staged, [storage, tenants]),
        ] {
            for other in others {
                guard try isDirectory(other.path, atOrBelow: root.path) else { continue }
                throw Configuration.Failure(
                    description:
                        "\(other.name) (\(other.path)) is at or below \(root.name) (\(root.path)): a tenant "
                        + "could reach files of others. Choose separate directories.")
            }
        }
    }

    /// Returns a warning for each directory that clients of the tenant `default` can reach besides their
    /// files. Call after `prepare`.
    func exposed() throws -> [String] {
        try [data, tenants].filter { try isDirectory($0.path, atOrBelow: storageRoot) }.map {
            "\($0.name) (\($0.path)) is at or below FERRY_STORAGE_ROOT (\(storageRoot)): clients of "
                + "the tenant default can reach its files."
        }
    }

    /// Returns a warning for each root that this process may not write to. Call after `prepare`.
    func unwritable() -> [String] {
        [storage, tenants, results].compactMap { named in
            guard access(named.path, W_OK | X_OK) != 0 else { return nil }
            let words = String(cString: strerror(errno))
            return "\(named.name) (\(named.path)) is not writable (\(words)): files can only be "
                + "created in directories below it that this process may write to."
        }
    }

    private typealias Named = (name: String, path: String)
    private var storage: Named { ("FERRY_STORAGE_ROOT", storageRoot) }
    private var tenants: Named { ("FERRY_TENANT_STORAGE_ROOT", tenantStorageRoot) }
    private var data: Named { ("FERRY_DATA_DIR", dataDirectory) }
    private var staged: Named { ("the directory of staged uploads", uploads) }
    private var results: Named { ("the directory of kept files", managedFiles) }

    /// Compares directories by identity, because names may be links.
    private func isDirectory(_ path: String, atOrBelow root: String) throws(SystemError) -> Bool {
        let wanted = try DirectoryIdentity(root)
        var path = path
        var here = try DirectoryIdentity(path)
        while here != wanted {
            path += "/.."
            let above = try DirectoryIdentity(path)
            // The parent of the file system's root is the root itself.
            if above == here { return false }
            here = above
        }
        return true
    }
}

/// Identity of a directory, independent of its path.
private struct DirectoryIdentity: Equatable {
    private let device: dev_t
    private let inode: ino_t

    init(_ path: String) throws(SystemError) {
        var status = stat()
        guard stat(path, &status) == 0 else { throw SystemError("stat \(path)") }
        device = status.st_dev
        inode = status.st_ino
    }
}
