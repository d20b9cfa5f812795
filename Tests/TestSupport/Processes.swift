import CSys
import Glibc
import Synchronization
import Sys

/// What went wrong while a test was being set up.
package struct TestSupportError: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// Programs that tests start and stop.
package enum ChildProcess {
    /// Starts a program found in PATH or in /usr/sbin; its output goes nowhere. It dies with the test
    /// process, however that ends.
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
            // Without the descriptors of other suites: what they close would stay open.
            let pid = csys_spawn(path, words, environ, uid_t.max, gid_t.max, SIGKILL, null, nil)
            return (pid, errno)
        }
        guard pid > 0 else { throw SystemError("fork", code) }
        return pid
    }

    /// Ends it at once, and waits for that.
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

/// Ports of the loopback interface, of those that the kernel does not give to connections and to listeners
/// that do not name one (ip_local_port_range). None is given twice in a process: where a server has stopped,
/// and where none has begun yet, nobody else listens.
package enum FreePort {
    private static let taken = Mutex<Set<UInt16>>([])
    /// Without those of well-known services.
    private static let range: ClosedRange<UInt16> = {
        let text = readFile("/proc/sys/net/ipv4/ip_local_port_range") ?? []
        let ends = String(decoding: text, as: UTF8.self).split(whereSeparator: \.isWhitespace)
        guard ends.count == 2, let first = UInt16(ends[0]), let last = UInt16(ends[1]) else {
            return 12_000...31_999
        }
        if first >= 16_000 { return 12_000...first - 1 }
        return last <= 62_000 ? last + 1...65_535 : 12_000...65_535
    }()

    /// One that nobody listens on.
    package static func find() throws -> UInt16 {
        let (descriptor, port) = try listen(backlog: 1)
        close(descriptor)
        return port
    }

    /// A socket that listens on a free port.
    package static func listen(backlog: Int32) throws -> (descriptor: Int32, port: UInt16) {
        for _ in 0..<1_000 {
            let port = UInt16.random(in: range)
            guard taken.withLock({ $0.insert(port).inserted }) else { continue }
            if let descriptor = try? listen(port, backlog: backlog) { return (descriptor, port) }
        }
        throw TestSupportError("no free port")
    }

    /// A socket that listens on this port.
    static func listen(_ port: UInt16, backlog: Int32) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        // Connections of an earlier listener may linger.
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
            throw TestSupportError("somebody has port \(port)")
        }
        return descriptor
    }

    /// Whether somebody accepts connections there within two minutes.
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

/// Directories of one test's own; their names say whose process made them.
package enum TemporaryDirectory {
    private static let memory = "/dev/shm"
    /// Once, before the first is made.
    private static let sweeping: Void = ["/tmp", memory].forEach(sweep)

    /// `name`: a word without a hyphen, by which the sweep knows its parts. `inMemory`: a memory file system
    /// is used if there is one with 2 GB of free space.
    package static func make(_ name: String, inMemory: Bool = false) throws -> String {
        precondition(!name.contains("-"))
        _ = sweeping
        let place = inMemory && hasRoom(memory) ? memory : "/tmp"
        var template = Array("\(place)/ferry-\(name)-\(getpid())-XXXXXX".utf8CString)
        guard let made = mkdtemp(&template) else { throw SystemError("mkdtemp") }
        return String(cString: made)
    }

    private static func hasRoom(_ place: String) -> Bool {
        var status = statvfs()
        return access(place, W_OK) == 0 && statvfs(place, &status) == 0
            && UInt64(status.f_bavail) * UInt64(status.f_frsize) >= 2 << 30
    }

    /// Removes it with everything inside.
    package static func remove(_ path: String) {
        var status = stat()
        if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR {
            for name in directoryNames(path) { remove(path + "/" + name) }
        }
        _ = Glibc.remove(path)
    }

    /// Removes what killed test processes have left in a directory.
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

    /// The process that has given a directory this name: here, or in Tests/outside; nil when it is not of
    /// that form.
    private static func maker(of name: String) -> pid_t? {
        let parts = name.split(separator: "-", omittingEmptySubsequences: false)
        // A number in the second place: the socket of somebody's private PostgreSQL.
        guard parts.count == 4, parts[0] == "ferry", !parts[1].isEmpty, Int(parts[1]) == nil,
            isRandom(parts[3])
        else { return nil }
        return pid_t(parts[2]).flatMap { $0 > 0 ? $0 : nil }
    }

    /// As of mkdtemp(3), or of Python's.
    private static func isRandom(_ part: Substring) -> Bool {
        let isAlphanumeric = { (one: Character) in one.isASCII && (one.isLetter || one.isNumber) }
        return switch part.utf8.count {
        case 6: part.allSatisfy(isAlphanumeric)
        case 8: part.allSatisfy { $0 == "_" || isAlphanumeric($0) && !$0.isUppercase }
        default: false
        }
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
