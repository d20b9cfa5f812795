import Glibc

/// Reads a whole file of at most `byteCountMax` bytes.
package func readFile(_ path: String, byteCountMax: Int) throws(SystemError) -> [UInt8] {
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

/// Creates a file that only its owner can read, all of it or nothing, on stable storage. False when it
/// exists.
package func createPrivateFile(_ path: String, _ bytes: [UInt8]) throws(SystemError) -> Bool {
    let partial = path + ".new"
    defer { unlink(partial) }
    try writePrivateFile(partial, bytes)
    let isNew = link(partial, path) == 0
    guard isNew || errno == EEXIST else { throw SystemError("link \(path)") }
    // Also its name; whoever gave it that name may have come no further.
    try syncDirectory(parentDirectory(of: path))
    return isNew
}

/// The same in the place of one that may exist: after an error that one is as it was.
package func replacePrivateFile(_ path: String, _ bytes: [UInt8]) throws(SystemError) {
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
        // As many as there is room for (write(2)).
        let count = bytes.withUnsafeBytes { bytes in
            write(descriptor, bytes.baseAddress?.advanced(by: offset), bytes.count - offset)
        }
        guard count > 0 else { throw SystemError("write \(path)", count == 0 ? ENOSPC : errno) }
        offset += count
    }
    guard fsync(descriptor) == 0 else { throw SystemError("fsync \(path)") }
}

/// Makes what was named in a directory durable, where its file system can do that at all (fsync(2), EINVAL).
package func syncDirectory(_ path: String) throws(SystemError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open \(path)") }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemError("fsync \(path)") }
}

/// The path without its last name; of a name alone the working directory.
package func parentDirectory(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/") else { return "." }
    return slash == path.startIndex ? "/" : String(path[..<slash])
}
