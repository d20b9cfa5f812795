import CSys
import Glibc
import Synchronization
import Sys

/// Error of a test's setup.
package struct TestSupportError: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// Programs that tests start and stop.
package enum ChildProcess {
    /// Starts a program found in PATH, /usr/sbin or /sbin, and discards its output. The kernel kills the
    /// program when the test process ends.
    package static func start(_ arguments: [String]) throws -> Int32 {
        let paths = (getenv("PATH").map { String(cString: $0) } ?? "") + ":/usr/sbin:/sbin"
        let candidates = paths.split(separator: ":").map { "\($0)/\(arguments[0])" }
        guard let path = candidates.first(where: { access($0, X_OK) == 0 }) else {
            throw TestSupportError("\(arguments[0]) is not installed")
        }
        let null = open("/dev/null", O_WRONLY | O_CLOEXEC)
        guard null >= 0 else { throw SystemError("open /dev/null") }
        defer { close(null) }
        let (pid, code) = Spawner.shared.run { () -> (pid_t, Int32) in
            let words = arguments.map { strdup($0) } + [nil]
            defer { words.forEach { free($0) } }
            // Closes inherited descriptors: otherwise the sockets that other suites close would stay open.
            let pid = csys_spawn(path, words, environ, uid_t.max, gid_t.max, SIGKILL, null, nil)
            return (pid, errno)
        }
        guard pid > 0 else { throw SystemError("fork", code) }
        return pid
    }

    /// Kills the process and waits until it has ended.
    package static func end(_ pid: Int32) {
        kill(pid, SIGKILL)
        wait(pid)
    }

    /// Waits until the process has ended.
    package static func wait(_ pid: Int32) {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
    }
}

/// Loopback ports outside of the range from which the kernel chooses ports (ip_local_port_range). Each port
/// is returned once per test process, so nothing listens on it before the server starts or after it stops.
package enum FreePort {
    private static let taken = Mutex<Set<UInt16>>([])
    /// Begins above the ports of well-known services.
    private static let range: ClosedRange<UInt16> = {
        let text = readFile("/proc/sys/net/ipv4/ip_local_port_range") ?? []
        let ends = String(decoding: text, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard ends.count == 2, let first = UInt16(ends[0]), let last = UInt16(ends[1]) else {
            return 12_000...31_999
        }
        if first >= 16_000 { return 12_000...first - 1 }
        return last <= 62_000 ? last + 1...65_535 : 12_000...65_535
    }()

    /// Returns a port without a listener.
    package static func find() throws -> UInt16 {
        let (descriptor, port) = try listen(backlog: 1)
        close(descriptor)
        return port
    }

    /// Returns a socket that listens on a free port.
    package static func listen(backlog: Int32) throws -> (descriptor: Int32, port: UInt16) {
        for _ in 0..<1_000 {
            let port = UInt16.random(in: range)
            guard taken.withLock({ $0.insert(port).inserted }) else { continue }
            if let descriptor = try? listen(port, backlog: backlog) { return (descriptor, port) }
        }
        throw TestSupportError("no free port")
    }

    /// Returns a socket that listens on `port`.
    static func listen(_ port: UInt16, backlog: Int32) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        // Connections of an earlier listener may be in TIME_WAIT.
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = loopback(port)
        let isListening = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                    && Glibc.listen(descriptor, backlog) == 0
            }
        }
        guard isListening else {
            close(descriptor)
            throw TestSupportError("port \(port) is in use")
        }
        return descriptor
    }

    /// Returns `true` if a server accepts connections on `port` within two minutes.
    package static func waitUntilOpen(_ port: UInt16) -> Bool {
        let end = monotonicNanoseconds() + 120_000_000_000
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

/// Directories of single tests. A directory's name contains the number of the process that created it.
package enum TemporaryDirectory {
    private static let memory = "/dev/shm"
    /// Removes old directories once, before the first directory is created.
    private static let sweeping: Void = ["/tmp", memory].forEach(sweep)

    /// Creates a directory. `name` has no hyphen, because `sweep` splits names at hyphens. With `inMemory`,
    /// the directory is in /dev/shm if 2 GB are free there.
    package static func make(_ name: String, inMemory: Bool = false) throws -> String {
        precondition(!name.contains("-"))
        _ = sweeping
        let place = inMemory && hasRoom(memory) ? memory : "/tmp"
        var template = Array("\(place)/ferry-\(name)-\(getpid())-XXXXXX".utf8CString)
        guard let path = mkdtemp(&template) else { throw SystemError("mkdtemp") }
        return String(cString: path)
    }

    private static func hasRoom(_ place: String) -> Bool {
        var status = statvfs()
        return access(place, W_OK) == 0 && statvfs(place, &status) == 0
            && UInt64(status.f_bavail) * UInt64(status.f_frsize) >= 2 << 30
    }

    /// Removes a file, or a directory with its contents.
    package static func remove(_ path: String) {
        var status = stat()
        if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
            for name in directoryNames(path) { remove(path + "/" + name) }
        }
        _ = Glibc.remove(path)
    }

    /// Removes the directories in `place` that belong to test processes that no longer run.
    package static func sweep(_ place: String) {
        for name in directoryNames(place) {
            guard let maker = maker(of: name), kill(maker, 0) != 0, errno == ESRCH else { continue }
            var status = stat()
            guard lstat("\(place)/\(name)", &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
                status.st_uid == geteuid()
            else { continue }
            remove("\(place)/\(name)")
        }
    }

    /// Returns the process that created a directory of this name, here or in Tests/outside. `nil` if the name
    /// has another form.
    private static func maker(of name: String) -> pid_t? {
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        // With a number in the second place, it is the socket directory of a private PostgreSQL.
        guard parts.count == 4, parts[0] == "ferry", !parts[1].isEmpty, Int(parts[1]) == nil,
            isRandom(parts[3])
        else { return nil }
        return pid_t(parts[2]).flatMap { $0 > 0 ? $0 : nil }
    }

    /// Returns `true` if `part` looks like the suffix of mkdtemp(3) or of Python's `tempfile`.
    private static func isRandom(_ part: Substring) -> Bool {
        let isAlphanumeric = { (one: Character) in one.isASCII && (one.isLetter || one.isNumber) }
        return switch part.utf8.count {
        case 6: part.allSatisfy(isAlphanumeric)
        case 8: part.allSatisfy { $0 == "_" || isAlphanumeric($0) && !$0.isUppercase }
        default: false
        }
    }
}

/// Writes a file, replacing an existing one.
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

/// Returns the contents of a file, or `nil` if it cannot be opened.
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

/// Returns pseudorandom bytes, the same ones for the same `count` and `seed`.
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
