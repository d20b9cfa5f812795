import Curl
import FerryCore
import Glibc
import Sys
import Synchronization
import TestSupport

/// The built binary, `ferry serve`, as a user runs it: on a free port, with a data directory of its own.
final class FerryProcess: Sendable {
    static let key = "end-to-end-admin-key-0123456789abcdef"
    let port: UInt16
    let directory: String
    private let settings: [String: String]
    private let pid = Mutex<pid_t?>(nil)

    var url: String { "http://127.0.0.1:\(port)" }
    var files: String { directory + "/files" }

    /// Starts and waits until it is ready. `settings` are added to the environment.
    init(_ settings: [String: String] = [:]) throws {
        directory = try TemporaryDirectory.make("e2e")
        // The private PostgreSQL runs as another user when we are root.
        chmod(directory, 0o755)
        port = try FreePort.find()
        self.settings = settings
        try start()
    }

    /// The program beside the test bundle.
    static let binary: String = {
        let arguments = CommandLine.arguments
        var folder = arguments.first.map { $0.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/") } ?? "."
        for argument in arguments where argument.hasSuffix(".xctest") {
            folder = argument.split(separator: "/", omittingEmptySubsequences: false).dropLast().joined(separator: "/")
        }
        return folder + "/ferry"
    }()

    func start() throws {
        var environment = [
            "PATH": getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin", "FERRY_LISTEN": "127.0.0.1:\(port)",
            "FERRY_DATA_DIR": directory, "FERRY_ADMIN_KEY": Self.key, "FERRY_EGRESS_ALLOW": "127.0.0.0/8",
            "FERRY_LOG_LEVEL": "warning", "FERRY_WEBHOOK_SECRET": webhookSecret,
        ]
        environment.merge(settings) { $1 }
        let child = try Program.start([Self.binary, "serve"], environment: environment, log: directory + "/log")
        pid.withLock { $0 = child }
        guard try eventuallyReady() else { throw TestSupportError("ferry did not get ready: \(log)") }
    }

    var log: String { readFile(directory + "/log").map { String(decoding: $0, as: UTF8.self) } ?? "" }

    private func eventuallyReady() throws -> Bool {
        eventually(seconds: 30) { (try? call("GET", "/readyz"))?.status == 200 }
    }

    /// Ends it as the machine's failure would: SIGKILL, nothing is finished.
    func kill9() { end(SIGKILL) }

    /// SIGTERM and the exit status.
    @discardableResult
    func terminate() -> Int32 { end(SIGTERM) }

    @discardableResult
    func end(_ signal: Int32) -> Int32 {
        guard let child = pid.withLock({ pid in let taken = pid; pid = nil; return taken }) else { return 0 }
        kill(child, signal)
        return Program.wait(child)
    }

    /// Stops it and removes what it has written.
    func remove() {
        terminate()
        TemporaryDirectory.remove(directory)
    }

    /// One request with the admin key; the answer's body is JSON unless the path says otherwise.
    func call(_ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:]) throws -> Exchange.Answer {
        var exchange = Exchange(url: url + path)
        exchange.method = method
        exchange.byteLimit = 64 << 20
        exchange.headers = [.init("Authorization", "Bearer \(Self.key)")]
        if let body {
            exchange.body = Array(body.utf8)
            exchange.headers.append(.init("Content-Type", "application/json"))
        }
        exchange.headers += headers.map { .init($0.key, $0.value) }
        return try exchange.perform()
    }

    func json(_ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:]) throws -> JSON {
        try JSON.parse(call(method, path, body, headers: headers).body)
    }

    /// Submits a job and returns its identifier.
    func submit(_ body: String) throws -> String {
        let answer = try call("POST", "/v1/jobs", body)
        guard answer.status == 201, let id = try JSON.parse(answer.body)["id"]?.string else {
            throw TestSupportError("\(answer.status): \(String(decoding: answer.body, as: UTF8.self))")
        }
        return id
    }

    /// The job once it is terminal, or as it is after 30 seconds.
    func finished(_ id: String) throws -> JSON {
        var job = try json("GET", "/v1/jobs/\(id)", headers: ["Prefer": "wait=30"])
        _ = eventually(seconds: 30) {
            if let state = job["state"]?.string.flatMap(JobState.init), state.isTerminal { return true }
            job = (try? json("GET", "/v1/jobs/\(id)", headers: ["Prefer": "wait=5"])) ?? job
            return false
        }
        return job
    }

    /// Unfinished jobs, as `/v1/admin/status` counts them.
    func unfinished() throws -> Int64 {
        let jobs = try json("GET", "/v1/admin/status")["jobs"]
        return ["waiting", "queued", "running", "suspended"].reduce(0) { $0 + (jobs?[$1]?.integer ?? 0) }
    }
}

let webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
