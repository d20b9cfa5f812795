import CSys
import Glibc
import Sys

/// One program that we started, and the socket through which it talks.
///
/// Belongs to the thread that started it, which must outlive it: when that thread ends, the kernel sends the
/// death signal (prctl(2), PR_SET_PDEATHSIG). Closes the socket with the last reference; does not reap.
final class PostgresProcess {
    /// The account a child runs as.
    struct Account: Equatable, Sendable {
        let uid: uid_t
        let gid: gid_t
        /// Ours: nothing is changed.
        static let own = Account(uid: uid_t.max, gid: gid_t.max)
    }

    let pid: pid_t
    /// Our end of its standard output and error; non-blocking. At its end every process that
    /// inherited it is gone.
    let output: Int32

    /// Starts `path` with an environment of its own: PATH, LC_ALL=C and TZ=UTC, nothing of ours.
    init(
        _ path: String, _ arguments: [String], account: Account = .own, deathSignal: Int32,
        workingDirectory: String? = nil
    ) throws(SystemError) {
        // A socket pair and not a pipe: it is born closed on exec, and no other child can inherit it.
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

    /// What can be read now; nil at the end, when nobody holds the other end any more.
    func read() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            let count = Glibc.read(output, &buffer, buffer.count)
            if count > 0 { return Array(buffer.prefix(count)) }
            if count == 0 { return nil }
            if errno != EINTR { return [] }
        }
    }

    /// Waits until output is there to be read, at most `milliseconds`.
    func waitForOutput(milliseconds: Int32) {
        var descriptor = pollfd(fd: output, events: Int16(POLLIN), revents: 0)
        _ = poll(&descriptor, 1, milliseconds)
    }

    /// Everything it says until it ends, and its status.
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

    /// What a short program prints; empty when it cannot be run.
    static func output(of path: String, _ arguments: [String]) -> String {
        guard let child = try? PostgresProcess(path, arguments, deathSignal: SIGKILL) else { return "" }
        let (text, status) = child.finish()
        return status == 0 ? text : ""
    }
}
