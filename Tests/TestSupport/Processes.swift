package import Glibc
import Sys

/// What went wrong while a test was being set up.
package struct TestSupportError: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// Programs that tests start and stop.
package enum ChildProcess {
    /// Starts a program found in PATH or in /usr/sbin; its output goes nowhere.
    package static func start(_ arguments: [String]) throws -> pid_t {
        let paths = (getenv("PATH").map { String(cString: $0) } ?? "") + ":/usr/sbin:/sbin"
        let candidates = paths.split(separator: ":").map { "\($0)/\(arguments[0])" }
        guard let path = candidates.first(where: { access($0, X_OK) == 0 }) else {
            throw TestSupportError("\(arguments[0]) is not installed")
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        // Threads of a test runner block signals; the child has to hear SIGTERM.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { words.forEach { free($0) } }
        var pid = pid_t()
        let code = posix_spawn(&pid, path, &actions, &attributes, &words, environ)
        guard code == 0 else {
            throw TestSupportError("cannot start \(path): \(String(cString: strerror(code)))")
        }
        return pid
    }

    /// Waits until the process has ended.
    package static func wait(_ pid: pid_t) {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    }
}

/// Ports of the loopback interface.
package enum FreePort {
    /// One that nobody listens on, below those that the kernel gives to connections and to listeners that do
    /// not name one (ip_local_port_range): until it is used, nobody gets it by chance.
    package static func find() throws -> UInt16 {
        for _ in 0..<1_000 {
            guard let (descriptor, port) = try? listen(.random(in: 12_000..<32_000), backlog: 1) else {
                continue
            }
            close(descriptor)
            return port
        }
        throw TestSupportError("no free port")
    }

    /// A socket that listens on this port, or on a free one (0).
    static func listen(_ port: UInt16 = 0, backlog: Int32) throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        // Connections of an earlier listener may linger.
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = loopback(port)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && Glibc.listen(descriptor, backlog) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        guard bound else {
            close(descriptor)
            throw TestSupportError("no free port")
        }
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    /// Whether somebody accepts connections there within five seconds.
    package static func waitUntilOpen(_ port: UInt16) -> Bool {
        let end = monotonicNanoseconds() + 5_000_000_000
        while monotonicNanoseconds() < end {
            if connects(port) { return true }
            usleep(2_000)
        }
        return false
    }

    private static func connects(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var address = loopback(port)
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    private static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}

/// Directories of one test's own.
package enum TemporaryDirectory {
    package static func make(_ name: String) throws -> String {
        var template = Array("/tmp/ferry-\(name)-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw SystemError("mkdtemp") }
        return String(cString: made)
    }

    /// Removes it with everything inside.
    package static func remove(_ path: String) {
        var status = stat()
        if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
            for name in directoryNames(path) { remove(path + "/" + name) }
        }
        _ = Glibc.remove(path)
    }
}

/// Writes a whole file, replacing what was there.
package func writeFile(_ path: String, _ bytes: [UInt8]) throws {
    let descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw SystemError("open \(path)") }
    defer { close(descriptor) }
    var sent = 0
    while sent < bytes.count {
        let count = bytes[sent...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { throw SystemError("write \(path)") }
        sent += count
    }
}

/// Reads a whole file; nil when there is none.
package func readFile(_ path: String) -> [UInt8]? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
        let count = read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return bytes }
        bytes.append(contentsOf: buffer[..<count])
    }
}

/// Bytes that differ from place to place: the same for the same count and seed.
package func patternBytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
    var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
    var bytes = [UInt8](repeating: 0, count: count)
    for index in 0..<count {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        bytes[index] = UInt8(truncatingIfNeeded: state)
    }
    return bytes
}
