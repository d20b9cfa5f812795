import CSys
import Glibc
import Sys

/// A program that Ferry has started, and the socket for its output.
///
/// Belongs to the thread that started it, which must outlive it: when that thread ends, the kernel sends the
/// death signal (prctl(2), PR_SET_PDEATHSIG). Owns the socket. Does not wait for the process; `finish` does.
final class PostgresProcess {
    /// User and group that a program runs as.
    struct Account: Equatable, Sendable {
        let uid: uid_t
        let gid: gid_t
        /// The user and group of this process.
        static let own = Account(uid: uid_t.max, gid: gid_t.max)
    }

    let pid: pid_t
    /// Ferry's end of the program's standard output and error, non-blocking. End of file means that all
    /// processes that inherited the other end are gone.
    let output: Int32

    /// Starts `path` with a new environment: PATH, LC_ALL=C and TZ=UTC.
    init(
        _ path: String, _ arguments: [String], account: Account = .own, deathSignal: Int32,
        workingDirectory: String? = nil
    ) throws(SystemError) {
        // A socket pair and not a pipe: its ends are closed on exec from the beginning, so no other child can
        // inherit them.
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw SystemError("socketpair") }
        let argv: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) } + [nil]
        let programs = "PATH=\(parentDirectory(of: path)):/usr/local/bin:/usr/bin:/bin"
        let settings: [String] = [programs, "LC_ALL=C", "TZ=UTC"]
        let environment: [UnsafeMutablePointer<CChar>?] =
            settings.map { strdup($0) } + [nil]
        defer { for text in argv + environment { free(text) } }
        let child = csys_spawn(
            path, argv, environment, account.uid, account.gid, deathSignal, ends[1], workingDirectory)
        let code = errno
        close(ends[1])
        guard child > 0 else {
            close(ends[0])
            throw SystemError("fork", code)
        }
        _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
        pid = child
        output = ends[0]
    }

    deinit { close(output) }

    /// Returns the bytes that can be read now, or `nil` at the end of file.
    func read() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = Glibc.read(output, &buffer, buffer.count)
            if count > 0 { return Array(buffer.prefix(count)) }
            if count == 0 { return nil }
            if errno != EINTR { return [] }
        }
    }

    /// Waits until there is output, at most `milliseconds` (−1: no limit).
    func waitForOutput(milliseconds: Int32) {
        var descriptor = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
        _ = poll(&descriptor, 1, milliseconds)
    }

    /// Waits for the end of the program. Returns the remaining output and the status of waitpid(2).
    func finish() -> (output: String, status: Int32) {
        var bytes: [UInt8] = []
        while let more = read() {
            bytes += more
            if more.isEmpty { waitForOutput(milliseconds: -1) }
        }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0 && errno == EINTR {}
        return (String(decoding: bytes, as: UTF8.self), status)
    }

    /// Returns the output of a short program; empty if it cannot be run or fails.
    static func output(of path: String, _ arguments: [String]) -> String {
        // A program that cannot be started is one that is not installed.
        guard let child = try? PostgresProcess(path, arguments, deathSignal: SIGKILL) else { return "" }
        let (text, status) = child.finish()
        return status == 0 ? text : ""
    }
}
