import Curl
import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Retry-After of hosts, and operator settings of hosts", .onOwnThread)
struct HostTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase() }

    private func start(_ settings: [String: String] = [:]) throws -> FerryProcess {
        let all = ["FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for all, long enough"]
        return try FerryProcess(all.merging(settings) { $1 })
    }

    private func path(_ url: String) -> String { "/v1/admin/hosts/\(percentEncoded(url))" }

    private func host(_ url: String, _ ferry: FerryProcess) throws -> JSON {
        try ferry.json("GET", path(url))
    }

    private func data(_ url: String, _ number: Int) -> String {
        #"{"kind":"download","request":{"url":"\#(url)/files/\#(number)"}}"#
    }

    /// Returns the first limited scope of the host.
    private func scope(_ url: String, _ ferry: FerryProcess) throws -> JSON? {
        try host(url, ferry)["scopes"]?.array?.first
    }

    private func submit(_ url: String, _ numbers: Range<Int>, _ ferry: FerryProcess) throws -> [String] {
        let jobs = numbers.map { data(url, $0) }.joined(separator: ",")
        return try ferry.submitBatch(#"{"jobs":[\#(jobs)]}"#)
    }

    /// Submits jobs until one waits for its host, because a node learns of a hold or pause with a delay and
    /// starts jobs until then. Returns the jobs that still wait when the others have succeeded.
    private func submitUntilWaiting(_ url: String, _ ferry: FerryProcess) throws -> [String] {
        var ids: [String] = []
        func isWaiting(_ id: String) throws -> Bool {
            let reason = try ferry.json("GET", "/v1/jobs/\(id)")["waiting_reason"]?["code"]?.string
            return reason?.hasPrefix("host_") == true
        }
        func isOver(_ id: String) throws -> Bool {
            try ferry.json("GET", "/v1/jobs/\(id)")["state"]?.string == "succeeded"
        }
        let isKnown = becomes {
            let id = try submit(url, 0..<1, ferry)[0]
            ids.append(id)
            return try isWaiting(id)
        }
        #expect(isKnown)
        var waiting: [String] = []
        let isSettled = becomes {
            waiting = []
            for id in ids {
                if try isWaiting(id) { waiting.append(id) } else if try !isOver(id) { return false }
            }
            return !waiting.isEmpty
        }
        #expect(isSettled)
        return waiting
    }

    @Test("429 with Retry-After holds jobs of its path on both nodes; jobs of another host run")
    func retryAfter() throws {
        let first = try start()
        defer { first.remove() }
        let second = try start()
        defer { second.remove() }
        let busy = try ThrottlingOrigin(seconds: 600)
        defer { busy.stop() }
        let other = try ThrottlingOrigin(seconds: 0)
        defer { other.stop() }
        #expect(becomes { try first.json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        // One job alone is not enough evidence for a decision about others.
        let throttledJobs = try submit(busy.url, 0..<3, first)
        let throttled = try #require(busy.throttled.wait().first)
        for ferry in [first, second] {
            #expect(becomes { try scope(busy.url, ferry)?["state"]?.string == "backing_off" })
        }
        busy.endThrottling()
        let firstWaiting = try [first, second].flatMap { try submitUntilWaiting(busy.url, $0) }
        let begunCount = busy.requestCount
        let waiting = try firstWaiting + submit(busy.url, 3..<11, second) + submit(busy.url, 11..<21, first)
        let free = try submit(other.url, 0..<20, second)
        for id in free { #expect(try first.finished(id)["state"]?.string == "succeeded") }
        #expect(busy.requestCount == begunCount, "no request was sent meanwhile")
        for id in throttledJobs + waiting {
            let one = try second.json("GET", "/v1/jobs/\(id)")
            #expect(one["state"]?.string == "queued" || one["state"]?.string == "waiting", "\(one)")
        }
        let known = try host(busy.url, first)
        let end = try #require(
            scope(busy.url, first)?["backoff_until"]?.string.flatMap { Timestamp(rfc3339: $0) })
        #expect(abs(end - throttled - 600) < 30, "\(known)")
        let kinds = (known["decisions"]?.array ?? []).compactMap { $0["kind"]?.string }
        #expect(kinds.contains("backed_off"), "\(known)")
        // The operator ends the hold.
        _ = try second.json("PATCH", path(busy.url), #"{"backoff_until":null}"#)
        #expect(becomes { try scope(busy.url, second)?["backoff_until"]?.string == nil })
        for id in waiting { #expect(try first.finished(id)["state"]?.string == "succeeded") }
    }

    @Test("Retry-After is followed for redirects, segments, mirrors and data jobs, at most one hour")
    func everyKind() throws {
        let ferry = try start()
        defer { ferry.remove() }
        var origins: [ScriptedOrigin] = []
        defer { for origin in origins { origin.stop() } }
        func throttling(_ retryAfter: String) throws -> String {
            let origin = try ScriptedOrigin.answering { _, _ in
                let head = "HTTP/1.1 429 Slow\r\nRetry-After: \(retryAfter)\r\nContent-Length: 0\r\n\r\n"
                return Array(head.utf8)
            }
            origins.append(origin)
            return origin.url
        }
        let busy = try (0..<4).map { _ in try throttling("600") }
        let dated = try throttling("Fri, 01 Jan 2100 00:00:00 GMT")
        let redirecting = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 302 F\r\nLocation: \(busy[0])/x\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        origins.append(redirecting)
        let jobs = [
            #"{"kind":"download","request":{"url":"\#(redirecting.url)/"}}"#,
            #"{"kind":"download","request":{"url":"\#(busy[1])/"},"segments":4}"#,
            #"{"kind":"download","request":{"url":"\#(busy[2])/"},"mirrors":["\#(busy[3])/"]}"#,
            #"{"kind":"data","request":{"url":"\#(dated)/"}}"#,
        ]
        _ = try ferry.submitBatch(#"{"jobs":[\#((jobs + jobs).joined(separator: ","))]}"#)
        for url in busy + [dated] {
            #expect(becomes { try scope(url, ferry)?["state"]?.string == "backing_off" }, "\(url)")
        }
        let end = try scope(dated, ferry)?["backoff_until"]?.string.flatMap { Timestamp(rfc3339: $0) }
        // The hold is limited to one hour.
        let left = try #require(end) - Timestamp(microseconds: wallMicroseconds())
        #expect((3_000...3_600).contains(left))
    }

    @Test("a restart keeps the state, scopes and decisions of a host")
    func restart() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let origin = try ThrottlingOrigin(seconds: 600)
        defer { origin.stop() }
        _ = try submit(origin.url, 0..<10, ferry)
        func read() throws -> [String: JSON] {
            let one = try host(origin.url, ferry)
            return Dictionary(
                uniqueKeysWithValues: ["state", "scopes", "decisions"].map { ($0, one[$0] ?? .null) })
        }
        var before: [String: JSON] = [:]
        var since = monotonicNanoseconds()
        // The outcomes of the other jobs are stored a moment later.
        let isSettled = becomes(seconds: 60) {
            let now = try read()
            if now != before { (before, since) = (now, monotonicNanoseconds()) }
            return try scope(origin.url, ferry)?["state"]?.string == "backing_off"
                && monotonicNanoseconds() - since > 4_000_000_000
        }
        #expect(isSettled, "\(before)")
        ferry.kill9()
        try ferry.start()
        var after: [String: JSON] = [:]
        let isSame = becomes {
            after = try read()
            return after == before
        }
        #expect(isSame, "\(after), and before \(before)")
        // An operator can end the hold.
        _ = try ferry.json("PATCH", path(origin.url), #"{"backoff_until":null}"#)
        #expect(becomes { try scope(origin.url, ferry)?["state"]?.string != "backing_off" })
    }

    @Test("operator settings of a host are stored, listed, and changed by API and command")
    func operators() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let name = "operators.example"
        let changed = try ferry.call(
            "PATCH", "/v1/admin/hosts/\(name)", #"{"maximum_connections":3,"minimum_connections":2}"#)
        #expect(changed.status == 200, "\(changed.text)")
        let wrong = try ferry.call("PATCH", "/v1/admin/hosts/\(name)", #"{"maximum_connections":1}"#)
        #expect(wrong.status == 422, "a maximum below the stored minimum")
        let list = try ferry.json("GET", "/v1/admin/hosts?limit=500")["data"]?.array ?? []
        let listed = try #require(list.first { $0["host"]?.string == "https://\(name):443" })
        #expect(listed["connection_limit"]?.integer == 3 && listed["state"]?.string == "limited")
        let environment = ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey]
        let set = try Program.run(
            [
                Program.ferry, "admin", "hosts", "set", name, "--paused", "--maximum", "none", "--rate",
                "1000000", "--requests-per-second", "2.5",
            ],
            environment: environment)
        #expect(set.status == 0, "\(set)")
        let shown = try Program.run(
            [Program.ferry, "admin", "hosts", "show", name, "--json"], environment: environment)
        let host = try JSON.parse(Array(shown.output.utf8))
        #expect(host["paused"]?.bool == true && host["state"]?.string == "paused", "\(shown)")
        #expect(host["maximum_connections"]?.isNull == true && host["minimum_connections"]?.integer == 2)
        #expect(host["max_bytes_per_second"]?.integer == 1_000_000)
        #expect(host["max_requests_per_second"]?.double == 2.5 && host["request_rate_limit"]?.double == 2.5)
        #expect(host["decisions"]?.array?.count == 2)
        let plain = "http://plain.\(name):8080"
        _ = try ferry.json("PATCH", path(plain), #"{"maximum_connections":7}"#)
        for name in [plain, "plain.\(name):8080", "plain.\(name)"] {
            let shown = try Program.run(
                [Program.ferry, "admin", "hosts", "show", name, "--json"], environment: environment)
            let host = try JSON.parse(Array(shown.output.utf8))
            #expect(host["host"]?.string == plain && host["connection_limit"]?.integer == 7, "\(shown)")
        }
        let all = try Program.run([Program.ferry, "admin", "hosts"], environment: environment)
        #expect(all.status == 0 && all.output.contains("https://\(name):443"), "\(all)")
    }

    @Test("jobs of a paused host show host_paused, block no other host, and run after the pause")
    func paused() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let origin = try ThrottlingOrigin(seconds: 0)
        defer { origin.stop() }
        let other = try ThrottlingOrigin(seconds: 0)
        defer { other.stop() }
        _ = try ferry.json("PATCH", path(origin.url), #"{"paused":true}"#)
        let first = try submitUntilWaiting(origin.url, ferry)
        let begunCount = origin.requestCount
        let ids = try first + submit(origin.url, 1..<5, ferry)
        for id in ids {
            let job = try ferry.json("GET", "/v1/jobs/\(id)")
            #expect(job["state"]?.string == "queued", "\(job)")
            #expect(job["waiting_reason"]?["code"]?.string == "host_paused", "\(job)")
            #expect(job["waiting_reason"]?["next_check_at"]?.isNull == true)
        }
        // Jobs of another host are claimed meanwhile.
        for number in 0..<5 {
            #expect(try ferry.run(data(other.url, number))["state"]?.string == "succeeded")
        }
        #expect(try ferry.json("GET", "/v1/admin/status")["jobs"]?["queued"]?.integer == Int64(ids.count))
        _ = try ferry.json("PATCH", path(origin.url), #"{"paused":false}"#)
        for id in ids { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
        #expect(origin.requestCount == begunCount + ids.count)
    }

    @Test("max_bytes_per_second of a host limits its transfers")
    func rate() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let origin = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n"),
                    connection.send(patternBytes(300_000))
                else { return }
            }
        }
        defer { origin.stop() }
        let patched = try ferry.call("PATCH", path(origin.url), #"{"max_bytes_per_second":100000}"#)
        #expect(patched.status == 200, "\(patched.text)")
        // The engine uses the rate after the node has read the setting.
        #expect(
            becomes {
                let start = monotonicNanoseconds()
                let job = try ferry.run(data(origin.url, 0))
                return job["state"]?.string == "succeeded" && monotonicNanoseconds() - start > 2_000_000_000
            })
    }
}

/// An origin that answers 429 with `Retry-After` until `endThrottling()`, and 200 with two bytes afterwards.
/// With `seconds` 0 it never answers 429.
private final class ThrottlingOrigin: Sendable {
    /// Fires with the time of each 429 response.
    let throttled = Signal<Timestamp>()
    private let origin: ScriptedOrigin
    private let isThrottling: Shared<Bool>
    var url: String { origin.url }
    var requestCount: Int { origin.requests.count }

    init(seconds: Int) throws {
        let (throttled, isThrottling) = (throttled, Shared(seconds > 0))
        self.isThrottling = isThrottling
        origin = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                let isThrottled = isThrottling.value
                let response =
                    isThrottled
                    ? "HTTP/1.1 429 Slow\r\nRetry-After: \(seconds)\r\nContent-Length: 0\r\n\r\n"
                    : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                guard connection.send(response) else { return }
                if isThrottled { throttled.fire(Timestamp(microseconds: wallMicroseconds())) }
            }
        }
    }

    func endThrottling() { isThrottling.value = false }

    func stop() { origin.stop() }
}

/// A value behind a mutex.
private final class Shared<Value: Sendable>: Sendable {
    private let mutex: Mutex<Value>
    init(_ value: Value) { mutex = Mutex(value) }
    var value: Value {
        get { mutex.withLock { $0 } }
        set { mutex.withLock { $0 = newValue } }
    }
}
