import Curl
import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport
import Testing

let adminKey = "end-to-end-admin-key-0123456789abcdef"
let webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

/// A process of the built binary, `ferry serve`, on a free port with its own data directory.
final class FerryProcess: Sendable {
    /// Process for all tests that neither stop it nor use up its limits.
    static let shared = Result {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_LOG_LEVEL": "trace"])
        // Swift Testing has no hook after the last test.
        atexit { FerryProcess.atEnd() }
        return (ferry: ferry, database: database)
    }

    /// Stops the shared process and checks the rows that all tests have left in its database. It is too late
    /// to record an issue: broken rows end the test process with status 1.
    private static func atEnd() {
        guard let (ferry, database) = try? shared.get() else { return }
        _ = ferry.discard()
        do {
            let broken = try database.brokenRules()
            if broken.isEmpty { return }
            print("The shared database has broken rows: \(broken.joined(separator: "; "))")
        } catch {
            print("The rows of the shared database were not checked: \(error)")
        }
        try? TestServer.shared.get().remove(SIGQUIT)
        fflush(nil)
        _exit(1)
    }

    let port: UInt16
    let directory: String
    private let settings: [String: String]
    private let host: String
    private let advertises: Bool
    private let pid = Mutex<pid_t?>(nil)

    var url: String { "http://127.0.0.1:\(port)" }
    var files: String { settings["FERRY_STORAGE_ROOT"] ?? directory + "/files" }
    var log: String { String(decoding: readFile(directory + "/log") ?? [], as: UTF8.self) }
    var environment: [String: String] {
        let own = [
            "PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_LISTEN": "\(host):\(port)",
            "FERRY_DATA_DIR": directory, "FERRY_ADMIN_KEY": adminKey, "FERRY_EGRESS_ALLOW": "127.0.0.0/8",
            "FERRY_LOG_LEVEL": "warning", "FERRY_WEBHOOK_SECRET": webhookSecret, "FERRY_DRAIN_SECONDS": "3",
            // Most tests have one origin, and more than six jobs.
            "FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": "none",
        ]
        let address = advertises ? ["FERRY_NODE_URL": url] : [:]
        return own.merging(address) { $1 }.merging(settings) { $1 }
    }

    /// Starts the process and waits until it is ready. `settings` override `environment`'s defaults. Without
    /// `FERRY_DATABASE_URL`, the process runs a private PostgreSQL. `host` is the address to listen on:
    /// loopback or all. `advertises`: tells other nodes its address. `launcher`: as in `start`.
    init(
        _ settings: [String: String] = [:], host: String = "127.0.0.1", advertises: Bool = false,
        launcher: [String] = []
    ) throws {
        self.host = host
        self.advertises = advertises
        directory = try TemporaryDirectory.make("e2e")
        // If the tests run as root, the private PostgreSQL runs as another user.
        chmod(directory, 0o755)
        port = try FreePort.find()
        self.settings = settings
        try start(launcher: launcher)
    }

    /// Starts the process again. `changes` override `settings` for this run. `launcher` is a command line
    /// that executes Ferry, such as `nohup`.
    func start(_ changes: [String: String] = [:], launcher: [String] = []) throws {
        let child = try Program.start(
            launcher + [Program.ferry, "serve"], environment: environment.merging(changes) { $1 },
            log: directory + "/log")
        pid.withLock { $0 = child }
        var hasEnded = false
        let isReady = becomes {
            hasEnded = Program.hasEnded(child)
            return try hasEnded || self.call("GET", "/readyz").status == 200
        }
        if hasEnded { pid.withLock { $0 = nil } }
        guard isReady, !hasEnded else { throw TestSupportError("ferry did not get ready: \(log)") }
    }

    /// Number of threads of the process.
    var threadCount: Int { pid.withLock { $0 }.map { directoryNames("/proc/\($0)/task").count } ?? 0 }

    /// Names of the threads of the process.
    var threads: Set<String> {
        guard let pid = pid.withLock({ $0 }) else { return [] }
        let tasks = "/proc/\(pid)/task"
        return Set(
            directoryNames(tasks).map { task in
                String(decoding: (readFile("\(tasks)/\(task)/comm") ?? []).dropLast(), as: UTF8.self)
            })
    }

    /// Sends SIGKILL, which simulates the crash of a machine, and waits.
    func kill9() { end(SIGKILL) }

    /// Sends SIGTERM, waits, and returns the exit status.
    @discardableResult
    func terminate() -> Int32 { end(SIGTERM) }

    /// Waits until the process has ended and returns the exit status.
    func wait() -> Int32 { end(0) }

    /// Sends a signal and does not wait.
    func send(_ signal: Int32) {
        pid.withLock { pid in if let pid { _ = kill(pid, signal) } }
    }

    @discardableResult
    private func end(_ signal: Int32) -> Int32 {
        guard let child = pid.withLock({ $0.take() }) else { return 0 }
        kill(child, signal)
        return Program.wait(child)
    }

    /// Stops the process and removes its directory. Records an issue if the process has to be killed.
    func remove() {
        if let log = discard() { Issue.record("ferry had to be killed: \(log)") }
    }

    /// Like `remove()`, but returns the log if the process had to be killed.
    private func discard() -> String? {
        defer { TemporaryDirectory.remove(directory) }
        guard let child = pid.withLock({ $0.take() }) else { return nil }
        kill(child, SIGCONT)
        kill(child, SIGTERM)
        if becomes({ Program.hasEnded(child) }) { return nil }
        kill(child, SIGKILL)
        _ = Program.wait(child)
        return log
    }
}

// MARK: API

extension FerryProcess {
    /// Sends one request with the key `key`, or without a key if `key` is empty.
    func call(
        _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:],
        key: String = adminKey
    ) throws -> BufferedRequest.Response {
        var exchange = BufferedRequest(url: url + path)
        exchange.method = method
        exchange.byteLimit = 64 << 20
        exchange.deadline = 70_000
        if !key.isEmpty { exchange.headers = [.init("Authorization", "Bearer \(key)")] }
        if let body {
            exchange.body = Array(body.utf8)
            if headers["Content-Type"] == nil {
                exchange.headers.append(.init("Content-Type", "application/json"))
            }
        }
        exchange.headers += headers.map { .init($0.key, $0.value) }
        return try exchange.perform()
    }

    /// Sends one request and returns the JSON of the response, whatever its status.
    func json(
        _ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:],
        key: String = adminKey
    ) throws -> JSON {
        try call(method, path, body, headers: headers, key: key).json
    }

    /// Submits a job and returns its identifier.
    func submit(_ body: String, key: String = adminKey) throws -> String {
        let response = try call("POST", "/v1/jobs", body, key: key)
        guard response.status == 201, let id = try response.json["id"]?.string else {
            throw TestSupportError("\(response.status): \(response.text)")
        }
        return id
    }

    /// Submits a batch and returns the identifiers in order.
    func submitBatch(_ body: String) throws -> [String] {
        let response = try call("POST", "/v1/jobs/batch", body)
        guard response.status == 201, let jobs = try response.json["data"]?.array else {
            throw TestSupportError("\(response.status): \(response.text)")
        }
        return jobs.compactMap { $0["id"]?.string }
    }

    /// Returns the job when it is terminal, or after 60 seconds.
    func finished(_ id: String, key: String = adminKey) throws -> JSON {
        try json("GET", "/v1/jobs/\(id)", headers: ["Prefer": "wait=60"], key: key)
    }

    /// Submits a job and returns it when it is terminal, or after 60 seconds.
    func run(_ body: String, key: String = adminKey) throws -> JSON {
        try json("POST", "/v1/jobs", body, headers: ["Prefer": "wait=60"], key: key)
    }

    /// Returns the number of unfinished jobs in `/v1/admin/status`.
    func unfinishedCount() throws -> Int64 {
        let jobs = try json("GET", "/v1/admin/status")["jobs"]
        guard let jobs, jobs["running"] != nil else { throw TestSupportError("no status") }
        return ["waiting", "queued", "running", "suspended"].reduce(0) { $0 + (jobs[$1]?.integer ?? 0) }
    }

    /// Returns all jobs of all pages, newest first.
    func allJobs(_ filter: String = "") throws -> [JSON] {
        var jobs: [JSON] = []
        var cursor: String?
        repeat {
            let page = try json("GET", "/v1/jobs?limit=500" + filter + (cursor.map { "&cursor=\($0)" } ?? ""))
            jobs += page["data"]?.array ?? []
            cursor = page["next_cursor"]?.string
        } while cursor != nil
        return jobs
    }

    /// Creates an API key and returns its text.
    func makeKey(role: String, tenant: String) throws -> String {
        let response = try call(
            "POST", "/v1/admin/keys", #"{"name":"test","role":"\#(role)","tenant":"\#(tenant)"}"#)
        guard response.status == 201, let key = try response.json["key"]?.string else {
            throw TestSupportError("\(response.status): \(response.text)")
        }
        return key
    }
}

extension BufferedRequest.Response {
    var json: JSON { get throws { try JSON.parse(body) } }
    var text: String { String(decoding: body, as: UTF8.self) }
}

/// Returns `true` if the condition becomes true within the time. Checks it fifty times a second; an error
/// counts as `false`.
func becomes(seconds: Double = 120, _ condition: () throws -> Bool) -> Bool {
    let end = monotonicNanoseconds() + Int64(seconds * 1e9)
    while monotonicNanoseconds() < end {
        if (try? condition()) == true { return true }
        poll(nil, 0, 20)
    }
    return (try? condition()) == true
}
