import Glibc
import TestSupport

/// A program with an environment of its own and a file for what it says.
enum Program {
    /// Starts it; signals are open to it, whatever the test runner blocks.
    static func start(_ arguments: [String], environment: [String: String], log: String) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0o644)
        posix_spawn_file_actions_adddup2(&actions, 1, 2)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        var values: [UnsafeMutablePointer<CChar>?] = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { (words + values).forEach { free($0) } }
        var pid = pid_t()
        let code = posix_spawn(&pid, arguments[0], &actions, &attributes, &words, &values)
        guard code == 0 else {
            throw TestSupportError("cannot start \(arguments[0]): \(String(cString: strerror(code)))")
        }
        return pid
    }

    /// Waits for the end; the exit status, or 128 and the signal's number.
    static func wait(_ pid: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    }

    /// Runs it to its end and returns the exit status and what it wrote.
    static func run(_ arguments: [String], environment: [String: String]) throws -> (status: Int32, output: String) {
        let directory = try TemporaryDirectory.make("program")
        defer { TemporaryDirectory.remove(directory) }
        let status = wait(try start(arguments, environment: environment, log: directory + "/log"))
        return (status, String(decoding: readFile(directory + "/log") ?? [], as: UTF8.self))
    }
}
