import CSys
import Glibc

/// Returns the content of a file. Throws EFBIG if it has more than `byteCountMax` bytes.
public func readFile(_ path: String, byteCountMax: Int) throws(SystemError) -> [UInt8] {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open \(path)") }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
        let count = read(descriptor, &chunk, chunk.count)
        guard count >= 0 else { throw SystemError("read \(path)") }
        if count == 0 { return bytes }
        guard bytes.count + count <= byteCountMax else { throw SystemError("read \(path)", EFBIG) }
        bytes.append(contentsOf: chunk[..<count])
    }
}

/// Creates a file that only its owner can read, complete or not at all, and syncs it. Returns `false` if the
/// file exists; that file stays.
public func createPrivateFile(_ path: String, _ bytes: [UInt8]) throws(SystemError) -> Bool {
    let partial = path + ".new"
    defer { unlink(partial) }
    try writePrivateFile(partial, bytes)
    let isNew = link(partial, path) == 0
    guard isNew || errno == EEXIST else { throw SystemError("link \(path)") }
    // Also syncs the name of an existing file: the process that created it may have stopped before it did.
    try syncDirectory(parentDirectory(of: path))
    return isNew
}

/// Like `createPrivateFile`, but replaces an existing file. After an error the existing file is unchanged.
public func replacePrivateFile(_ path: String, _ bytes: [UInt8]) throws(SystemError) {
    let partial = path + ".new"
    defer { unlink(partial) }
    try writePrivateFile(partial, bytes)
    guard rename(partial, path) == 0 else { throw SystemError("rename \(partial)") }
    try syncDirectory(parentDirectory(of: path))
}

private func writePrivateFile(_ path: String, _ bytes: [UInt8]) throws(SystemError) {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open \(path)") }
    defer { close(descriptor) }
    var offset = 0
    while offset < bytes.count {
        // write(2) writes only as many bytes as there is room for.
        let count = bytes.withUnsafeBytes { bytes in
            write(descriptor, bytes.baseAddress?.advanced(by: offset), bytes.count - offset)
        }
        guard count > 0 else { throw SystemError("write \(path)", count == 0 ? ENOSPC : errno) }
        offset += count
    }
    guard fsync(descriptor) == 0 else { throw SystemError("fsync \(path)") }
}

/// Makes the names in a directory durable. Does nothing on file systems that cannot sync directories
/// (fsync(2), EINVAL).
public func syncDirectory(_ path: String) throws(SystemError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open \(path)") }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemError("fsync \(path)") }
}

/// Returns the path without its last name, or `.` if the path is only a name.
public func parentDirectory(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
}

/// Renames a file without replacing an existing one. Returns 0, or -1 with errno (EEXIST if `to` exists).
/// On a file system without RENAME_NOREPLACE (renameat2(2), EINVAL), `to` is created exclusively and then
/// replaced. Needs no hard links.
public func renameNoReplace(_ from: UnsafePointer<CChar>, _ to: UnsafePointer<CChar>) -> Int32 {
    if csys_rename_noreplace(AT_FDCWD, from, AT_FDCWD, to) == 0 { return 0 }
    guard errno == EINVAL || errno == ENOSYS else { return -1 }
    let descriptor = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return -1 }
    close(descriptor)
    if rename(from, to) == 0 { return 0 }
    let code = errno
    unlink(to)
    errno = code
    return -1
}
