import Glibc
package import Sys

extension String {
    /// Without white space at either end.
    package var trimmed: String {
        let isSpace: (Character) -> Bool = {
            $0 == " " || $0 == "\t" || $0 == "\n" || $0 == "\r" || $0 == "\r\n"
        }
        guard let first = firstIndex(where: { !isSpace($0) }), let last = lastIndex(where: { !isSpace($0) })
        else { return "" }
        return String(self[first...last])
    }
}

/// A relative path is below the working directory.
package func absolutePath(_ path: String) -> String {
    guard !path.hasPrefix("/") else { return path }
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
    guard getcwd(&buffer, buffer.count) != nil else { return path }
    let directory = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let relative = path.hasPrefix("./") ? String(path.dropFirst(2)) : path
    return directory == "/" ? "/" + relative : directory + "/" + relative
}

/// Creates the directory and its parents; one that exists is left as it is.
package func createDirectory(_ path: String, mode: UInt32) throws(SystemError) {
    var partial = ""
    for part in path.split(separator: "/") {
        partial += "/" + part
        if mkdir(partial, mode) != 0, errno != EEXIST { throw SystemError("mkdir \(partial)") }
    }
}

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
    let descriptor = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw SystemError("open \(partial)") }
    defer {
        close(descriptor)
        unlink(partial)
    }
    guard write(descriptor, bytes, bytes.count) == bytes.count, fsync(descriptor) == 0 else {
        throw SystemError("write \(partial)")
    }
    let isNew = link(partial, path) == 0
    guard isNew || errno == EEXIST else { throw SystemError("link \(path)") }
    // Also its name; whoever gave it that name may have come no further.
    try syncDirectory(FileTree.parent(of: path))
    return isNew
}

/// Makes what was named in a directory durable, where its file system can do that at all (fsync(2), EINVAL).
func syncDirectory(_ path: String) throws(SystemError) {
    let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw SystemError("open \(path)") }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemError("fsync \(path)") }
}
