import Glibc
package import Sys

extension String {
    /// The text without white space at both ends.
    package var trimmed: String {
        let isSpace: (Character) -> Bool = {
            $0 == " " || $0 == "\t" || $0 == "\n" || $0 == "\r" || $0 == "\r\n"
        }
        guard let first = firstIndex(where: { !isSpace($0) }), let last = lastIndex(where: { !isSpace($0) })
        else { return "" }
        return String(self[first...last])
    }
}

/// Returns an absolute path. A relative path is below the working directory.
package func absolutePath(_ path: String) -> String {
    guard !path.hasPrefix("/") else { return path }
    var buffer = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
    guard getcwd(&buffer, buffer.count) != nil else { return path }
    let directory = String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let relative = path.hasPrefix("./") ? String(path.dropFirst(2)) : path
    return directory == "/" ? "/" + relative : directory + "/" + relative
}

/// Creates the directory and its parents. Existing directories are not changed.
package func createDirectory(_ path: String, mode: UInt32) throws(SystemError) {
    var partial = ""
    for part in path.split(separator: "/") {
        partial += "/" + part
        if mkdir(partial, mode) != 0, errno != EEXIST { throw SystemError("mkdir \(partial)") }
    }
}

/// Locks an open file for this process (flock(2)) until it is closed. Returns `false` if another process
/// still has the lock after `milliseconds`. It waits because a child that a killed process had just forked
/// shares its lock until it executes another program.
func lockFile(_ descriptor: Int32, milliseconds: Int = 1_000) -> Bool {
    let deadline = monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
        guard monotonicNanoseconds() < deadline else { return false }
        _ = poll(nil, 0, 20)
    }
    return true
}
