import CSys
import FerryCore
import Glibc
import Sys

/// An open directory that confines paths: whatever a path says, the kernel resolves it below this directory
/// (openat2(2), RESOLVE_BENEATH). Closed when it is released.
final class StorageDirectory: Sendable {
    let descriptor: Int32
    /// Permissions of files and directories that are made below.
    private let modes: FileModes

    private init(_ descriptor: Int32, _ modes: FileModes) {
        self.descriptor = descriptor
        self.modes = modes
    }

    deinit { close(descriptor) }

    /// Opens a root by its absolute path, which is trusted. Returns `nil` if there is none.
    static func existingRoot(
        _ path: String, _ modes: FileModes
    ) throws(TransferError) -> StorageDirectory? {
        let opened = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if opened < 0, errno == ENOENT { return nil }
        guard opened >= 0 else { throw storageError(errno) }
        return StorageDirectory(opened, modes)
    }

    /// Opens a root. Makes it and its parents if they are missing.
    static func root(_ path: String, _ modes: FileModes) throws(TransferError) -> StorageDirectory {
        if let root = try existingRoot(path, modes) { return root }
        var made = ""
        for part in path.split(separator: "/") {
            made += path.hasPrefix("/") || !made.isEmpty ? "/\(part)" : "\(part)"
            mkdir(made, modes.directory)
        }
        guard let root = try existingRoot(path, modes) else { throw storageError(ENOENT) }
        return root
    }

    /// Opens a directory or, if it is missing, the nearest existing directory above it.
    static func existing(_ path: String) throws(SystemError) -> StorageDirectory {
        let opened = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if opened >= 0 { return StorageDirectory(opened, .own) }
        guard errno == ENOENT, path.utf8.count > 1 else { throw SystemError("open \(path)") }
        let above = splitPath(path).directory
        return try existing(above.isEmpty ? (path.hasPrefix("/") ? "/" : ".") : above)
    }

    /// Device number of the file system; `nil` if fstat(2) fails.
    var device: dev_t? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status.st_dev : nil
    }

    /// Opens a directory below this one; an empty path is this one. `making`: makes missing directories.
    func directory(_ path: String, making: Bool) throws(TransferError) -> StorageDirectory {
        if path.isEmpty { return StorageDirectory(try beneath(".", O_RDONLY | O_DIRECTORY), modes) }
        // Names go through `withCString` where each file of a job passes: an implicit conversion would copy.
        let opened = path.withCString {
            csys_open_beneath(descriptor, $0, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0)
        }
        if opened >= 0 { return StorageDirectory(opened, modes) }
        guard errno == ENOENT, making else { throw storageError(errno) }
        let (parent, name) = splitPath(path)
        let above = try directory(parent, making: true)
        if mkdirat(above.descriptor, name, modes.directory) == 0 {
            // If a power cut removed the new directory, its files would be lost too.
            fsync(above.descriptor)
        } else if errno != EEXIST {
            throw storageError(errno)
        }
        return StorageDirectory(try beneath(path, O_RDONLY | O_DIRECTORY), modes)
    }

    /// Opens a regular file for reading. Throws `source_not_found` for anything else.
    func regularFile(_ path: String) throws(TransferError) -> (descriptor: Int32, status: stat) {
        // O_NONBLOCK: opening a FIFO would wait for a writer.
        let opened = csys_open_beneath(descriptor, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0, 0)
        guard opened >= 0 else {
            if [EMFILE, ENFILE, ENOMEM, EIO, ESTALE].contains(errno) {
                throw TransferError(
                    .storageFailed, "The source's file could not be read.", phase: .sending,
                    isRetryable: true, osError: errno)
            }
            throw .sourceMissing
        }
        var status = stat()
        guard fstat(opened, &status) == 0, status.st_mode & S_IFMT == S_IFREG,
            // A sparse file can have any size, and the sizes of a form's parts are added up.
            Int64(status.st_size) <= EngineLimits.sourceByteCountMax
        else {
            close(opened)
            throw .sourceMissing
        }
        return (opened, status)
    }

    /// Makes a new file and opens it for reading and writing. Fails if the name exists.
    func newFile(_ name: String) throws(TransferError) -> Int32 {
        let flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC
        let opened = name.withCString { openat(descriptor, $0, flags, modes.file) }
        guard opened >= 0 else { throw storageError(errno) }
        return opened
    }

    /// Makes a file that has no name, and is gone as soon as it is closed, also after a crash. Where the file
    /// system has none (O_TMPFILE of open(2)), it has a name for a moment.
    func unnamedFile() throws(TransferError) -> Int32 {
        let opened = csys_unnamed_file(descriptor, modes.file)
        if opened >= 0 { return opened }
        guard [EOPNOTSUPP, EISDIR, ENOENT].contains(errno) else { throw storageError(errno) }
        let name = ".ferry-\(UInt64.random(in: .min ... .max))"
        let named = try newFile(name)
        unlinkat(descriptor, name, 0)
        return named
    }

    /// Gives an existing file the permissions of a new one: an earlier attempt may have made it in another
    /// directory, or with another umask. A file system without permissions (vfat) keeps its own.
    func giveModes(_ descriptor: Int32, _ status: stat) {
        if status.st_mode & 0o7777 != modes.file { fchmod(descriptor, modes.file) }
    }

    /// Opens a regular file that has this name and no other, for reading and writing. `nil` if there is none.
    /// Throws `storage_unavailable` if the file system cannot tell.
    func ownFile(_ name: String) throws(TransferError) -> (descriptor: Int32, status: stat)? {
        let opened = openat(descriptor, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard opened >= 0 else { return try Self.useless(errno) }
        var status = stat()
        guard fstat(opened, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1 else {
            close(opened)
            return nil
        }
        return (opened, status)
    }

    /// Returns a small file's bytes, or `nil` if it is missing or longer than `byteCountMax`. Throws
    /// `storage_unavailable` if the file system cannot tell.
    func contents(_ name: String, byteCountMax: Int) throws(TransferError) -> [UInt8]? {
        let opened = openat(descriptor, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        guard opened >= 0 else { return try Self.useless(errno) }
        defer { close(opened) }
        var bytes = [UInt8](repeating: 0, count: byteCountMax + 1)
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeMutableBytes { [done] in
                pread(opened, $0.baseAddress.map { $0 + done }, $0.count - done, off_t(done))
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return try Self.useless(errno) }
            if count == 0 { return Array(bytes[..<done]) }
            done += count
        }
        return nil
    }

    /// Returns `nil`, or throws if the errno says that the file system cannot be used.
    private static func useless<Found>(_ osError: Int32) throws(TransferError) -> Found? {
        if saysUnavailable(osError) { throw storageError(osError) }
        return nil
    }

    /// Replaces a file by a private one (mode 0600) in one step. `syncs`: brings its bytes to stable storage
    /// before. Returns `false` if that failed; the old file is kept then.
    func replace(_ name: String, _ bytes: [UInt8], syncs: Bool) -> Bool {
        let draft = PartialNames.draft(of: name)
        let flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC
        let opened = openat(descriptor, draft, flags, 0o600)
        guard opened >= 0 else { return false }
        defer { close(opened) }
        do throws(TransferError) {
            try bytes.withUnsafeBufferPointer { (buffer) throws(TransferError) in
                try writeAll(opened, UnsafeRawBufferPointer(buffer), at: 0)
            }
        } catch {
            remove(draft)
            return false
        }
        guard !syncs || fdatasync(opened) == 0, renameat(descriptor, draft, descriptor, name) == 0 else {
            remove(draft)
            return false
        }
        return true
    }

    /// Returns the names in this directory with that prefix.
    func names(beginningWith prefix: String) -> [String] {
        directoryNames(below: descriptor).filter { $0.hasPrefix(prefix) }
    }

    /// Returns the status of a name without following a symbolic link, or `nil` if the name does not exist.
    func status(_ name: String) -> stat? {
        var status = stat()
        return name.withCString { fstatat(descriptor, $0, &status, AT_SYMLINK_NOFOLLOW) } == 0 ? status : nil
    }

    func inode(_ name: String) -> ino_t? { status(name)?.st_ino }

    func remove(_ name: String) { unlinkat(descriptor, name, 0) }

    /// Writes and removes a small file to see whether any file can be written here. Returns 0, or the errno.
    /// `PartialSweep` removes the file if the process dies meanwhile.
    func writingTrial(syncs: Bool = false) -> Int32 {
        let nobody = JobID(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max))
        let name = PartialNames.partial(of: nobody, attempt: 0)
        let opened = openat(descriptor, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
        guard opened >= 0 else { return errno }
        let isWritten = pwrite(opened, [0], 1, 0) == 1 && (!syncs || fdatasync(opened) == 0)
        let failed = isWritten ? 0 : errno
        close(opened)
        remove(name)
        return failed
    }

    private func beneath(_ path: String, _ flags: Int32) throws(TransferError) -> Int32 {
        let opened = csys_open_beneath(descriptor, path, flags | O_CLOEXEC, 0, 0)
        guard opened >= 0 else { throw storageError(errno) }
        return opened
    }
}

/// Splits `a/b/c` into `a/b` and `c`.
func splitPath(_ path: String) -> (directory: String, name: String) {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return ("", path) }
    return (String(path[..<slash]), String(path[path.utf8.index(after: slash)...]))
}

/// Returns the error that an errno of the file system means for the job.
func storageError(_ code: Int32) -> TransferError {
    switch code {
    case ENOSPC, EDQUOT:
        TransferError(
            .storageFull, "There is no room left for the file.", phase: .finishing, isRetryable: true,
            osError: code)
    case ENOTDIR, EISDIR, EXDEV, ELOOP, ENAMETOOLONG, EINVAL:
        TransferError(
            .destinationInvalid, "The destination's path cannot be a file there.", phase: .finishing,
            isRetryable: false, osError: code)
    case EEXIST:
        TransferError(
            .destinationExists, "There is a file at the destination already.", phase: .finishing,
            isRetryable: false)
    case EACCES, EPERM:
        TransferError(
            .storageFailed, "The service may not write at the destination.", phase: .finishing,
            isRetryable: false, osError: code)
    case EROFS, EIO, ESTALE, ENXIO, ENODEV, ENOMEDIUM, ENOTCONN, EHOSTDOWN, ETIMEDOUT, EREMOTEIO, EUCLEAN,
        EMFILE, ENFILE, ENOMEM:
        // Read-only after errors, a server or a device that is gone, a process without descriptors: not the
        // job's fault.
        TransferError(
            .storageUnavailable, "The disk that the file goes to cannot be written to.", phase: .finishing,
            isRetryable: true, osError: code)
    default:
        TransferError(
            .storageFailed, "The file could not be written.", phase: .finishing, isRetryable: true,
            osError: code)
    }
}

/// Writes all bytes at `offset` (pwrite(2)). Continues short writes; uses no shared file position.
func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
    var done = 0
    while done < bytes.count {
        let count = pwrite(
            descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + done)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { throw storageError(count == 0 ? ENOSPC : errno) }
        done += count
    }
}
