import CSys
import Glibc
import Sys
import TestSupport

/// Starts the built binary and other programs with a given environment.
enum Program {
    /// Path of `ferry`, in the directory of the test bundle.
    static let ferry: String = {
        let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
        return bundle.split(separator: "/", omittingEmptySubsequences: false).dropLast()
            .joined(separator: "/") + "/ferry"
    }()

    /// Starts a program whose output is appended to `log`. The kernel kills the program when the test process
    /// ends.
    static func start(_ arguments: [String], environment: [String: String], log: String) throws -> pid_t {
        let descriptor = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { throw SystemError("open \(log)") }
        defer { close(descriptor) }
        let pid = Starter.shared.run { () -> pid_t in
            let words = arguments.map { strdup($0) } + [nil]
            let values = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
            defer { for text in words + values { free(text) } }
            return csys_spawn(arguments[0], words, values, uid_t.max, gid_t.max, SIGKILL, descriptor, "/")
        }
        guard pid > 0 else { throw TestSupportError("cannot start \(arguments[0])") }
        return pid
    }

    /// Waits until the process has ended. Returns the exit status, or 128 plus the number of the signal.
    static func wait(_ pid: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    }

    /// Returns `true` if the process has ended, and reaps it then.
    static func hasEnded(_ pid: pid_t) -> Bool {
        var status: Int32 = 0
        return waitpid(pid, &status, WNOHANG) == pid
    }

    struct Result: Sendable {
        let status: Int32
        let output: String
        /// Standard error of the program.
        let messages: String
        var lines: [String] { output.split(separator: "\n").map(String.init) }
    }

    /// Runs a program until it ends. Clears the signal mask, which the test runner may have set.
    static func run(
        _ arguments: [String], environment: [String: String] = [:], input: String = ""
    ) throws -> Result {
        let directory = try TemporaryDirectory.make("program")
        defer { TemporaryDirectory.remove(directory) }
        try writeFile(directory + "/in", Array(input.utf8))
        let status = wait(try spawn(arguments, environment, directory))
        let text = { (name: String) in String(decoding: readFile("\(directory)/\(name)") ?? [], as: UTF8.self)
        }
        return Result(status: status, output: text("out"), messages: text("err"))
    }

    private static func spawn(
        _ arguments: [String], _ environment: [String: String], _ directory: String
    ) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, directory + "/in", O_RDONLY, 0)
        for (number, name) in [(Int32(1), "out"), (2, "err")] {
            posix_spawn_file_actions_addopen(
                &actions, number, "\(directory)/\(name)", O_WRONLY | O_CREAT, 0o644)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
        var words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        var values: [UnsafeMutablePointer<CChar>?] =
            environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in words + values { free(text) } }
        var pid = pid_t()
        let code = posix_spawnp(&pid, arguments[0], &actions, &attributes, &words, &values)
        guard code == 0 else {
            throw TestSupportError("cannot start \(arguments[0]): \(SystemError("posix_spawn", code))")
        }
        return pid
    }
}

/// Thread that starts child processes. The thread never ends: a child gets its death signal when the thread
/// that started it ends (prctl(2), PR_SET_PDEATHSIG).
private final class Starter: Sendable {
    static let shared = Starter()
    private let tasks = Mailbox<@Sendable () -> Void>()

    private init() {
        _ = Thread(name: "starter") { [tasks] in
            while true {
                for task in tasks.wait(milliseconds: -1) { task() }
            }
        }
    }

    func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) -> Value {
        let result = Mailbox<Value>()
        tasks.send { result.send(body()) }
        while true {
            if let value = result.wait(milliseconds: -1).first { return value }
        }
    }
}
