import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Commands of the client", .onOwnThread)
struct ClientTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func run(
        _ arguments: String..., input: String = "", url: String? = nil, key: String = adminKey
    ) throws -> Program.Result {
        try Program.run(
            [Program.ferry] + arguments, environment: ["FERRY_URL": url ?? ferry.url, "FERRY_KEY": key],
            input: input)
    }

    @Test("ferry get writes to a file, a directory, standard output or the service's storage")
    func get() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let bytes = patternBytes(300_000)
        try nginx.serve("data.bin", bytes)
        try nginx.serve("text", Array("a line\n".utf8))
        let directory = try TemporaryDirectory.make("get")
        defer { TemporaryDirectory.remove(directory) }
        let file = try run("get", nginx.url + "/data.bin", "-o", directory + "/here")
        #expect(file.status == 0 && file.output.isEmpty && !file.messages.isEmpty, "\(file)")
        #expect(readFile(directory + "/here") == bytes)
        let named = try run("get", nginx.url + "/data.bin", "-o", directory)
        #expect(named.status == 0 && readFile(directory + "/data.bin") == bytes, "\(named)")
        let text = try run("get", nginx.url + "/text", "-o", "-")
        #expect(text.status == 0 && text.output == "a line\n")
        let stored = try run("get", nginx.url + "/text", "--stored", "cli/text", "--json")
        #expect(stored.status == 0 && readFile(ferry.files + "/cli/text") == Array("a line\n".utf8))
        #expect(try JSON.parse(Array(stored.output.utf8))["state"]?.string == "succeeded")
    }

    @Test("put, submit, watch, show, jobs and healthcheck print their results on standard output")
    func others() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let put = try run("put", "-", origin.url + "/up", "-m", "command=put", input: "some text")
        #expect(put.status == 0 && origin.requests.last?.header("content-length") == "9", "\(put)")
        let job = { (name: String) in
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"metadata":{"command":"\#(name)"}}"#
        }
        let many = try run("submit", "-", input: "\(job("many"))\n\(job("many"))\n")
        try #require(many.status == 0 && many.lines.count == 2, "\(many)")
        let watched = try run("watch", many.lines[0], many.lines[1])
        #expect(watched.lines == many.lines.map { "\($0)\tsucceeded" }, "\(watched)")
        let shown = try run("show", many.lines[0], "--json")
        #expect(try JSON.parse(Array(shown.output.utf8))["id"]?.string == many.lines[0])
        let attempts = try run("show", "--attempts", many.lines[0])
        #expect(attempts.lines.first?.hasPrefix("attempt 1  succeeded after ") == true, "\(attempts)")
        #expect(attempts.output.contains("GET \(origin.url)/  200  http/1.1"), "\(attempts)")
        let asJSON = try run("show", "--attempts", many.lines[0], "--json")
        #expect(try JSON.parse(Array(asJSON.output.utf8))["data"]?.array?.count == 1)
        let listed = try run("jobs", "-m", "command=many")
        let columns = listed.lines.map { $0.split(separator: "\t").map(String.init) }
        #expect(Set(columns.map { $0[0] }) == Set(many.lines) && columns.allSatisfy { $0[1] == "succeeded" })
        #expect(becomes { try run("healthcheck", key: "").status == 0 })
        var health = JSON.null
        let isHealthy = becomes {
            health = try JSON.parse(Array(run("healthcheck", "--json", key: "").output.utf8))
            let database = health["checks"]?.array?.first { $0["name"]?.string == "database" }
            return health["ready"]?.bool == true && database?["state"]?.string == "ok"
        }
        #expect(isHealthy, "\(health)")
        #expect(try run("admin", "status", "--json").output.contains("\"database\""))
    }

    @Test("ferry cancel ends a job; ferry watch then exits with 1, and with 4 at its timeout")
    func cancel() throws {
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let submitted = try run("get", origin.url + "/f/1", "--no-wait")
        let id = try #require(submitted.lines.first)
        #expect(origin.stopped.wait().count == 1)
        let late = try run("watch", id, "--timeout", "0.3")
        #expect(late.status == 4, "\(late)")
        let cancelled = try run("cancel", id)
        #expect(cancelled.status == 0 && cancelled.output.hasPrefix(id), "\(cancelled)")
        #expect(try run("watch", id).status == 1)
        #expect(try run("cancel", id).status == 1, "the job has ended already")
    }

    @Test("ferry retry submits a new job for an ended one, and rejects a running one")
    func retry() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let failed = try run("get", nginx.url + "/late", "--no-wait", "--stored", "late.bin")
        let id = try #require(failed.lines.first, "\(failed)")
        #expect(try run("watch", id).status == 1)
        try nginx.serve("late", [1, 2, 3])
        let again = try run("retry", id, "--wait")
        #expect(again.status == 0 && again.output.hasSuffix("\tsucceeded\n"), "\(again)")
        let new = try #require(again.lines.first?.split(separator: "\t").first)
        #expect(try ferry.json("GET", "/v1/jobs/\(new)")["retry_of"]?.string == id)
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let running = try #require(try run("get", origin.url + "/f/1", "--no-wait").lines.first)
        #expect(origin.stopped.wait().count == 1)
        let both = try run("retry", running, id)
        #expect(both.status == 1 && both.lines.count == 1, "\(both)")
        #expect(both.messages.contains("invalid_state"), "\(both)")
        #expect(try run("cancel", running).status == 0)
    }

    @Test("exit status: 1 for job or API errors, 2 for usage, 3 for no connection, 4 for a timeout")
    func statuses() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let failed = try run("get", nginx.url + "/none", "-o", "-")
        #expect(failed.status == 1 && failed.output.isEmpty && failed.messages.contains("404"), "\(failed)")
        #expect(try run("show", "job_00000000000000000000000000").status == 1)
        #expect(try run("get").status == 2)
        #expect(try run("get", "--nonsense", nginx.url).status == 2)
        let refused = try run("get", "ftp://example.com/x", "-o", "-")
        #expect(refused.status == 2 && refused.messages.contains("#/request/url"), "\(refused)")
        let unreachable = try run("jobs", url: "http://127.0.0.1:\(try FreePort.find())")
        #expect(
            unreachable.status == 3 && unreachable.output.isEmpty && !unreachable.messages.isEmpty,
            "\(unreachable)")
        let late = try run("get", origin.url + "/f/1", "-o", "-", "--timeout", "0.3")
        #expect(late.status == 4 && late.output.isEmpty, "\(late)")
        let wrongKey = try run("jobs", key: "fk_nobody")
        #expect(wrongKey.status == 1 && wrongKey.messages.contains("FERRY_KEY"), "\(wrongKey)")
        #expect(try run("--version").status == 0)
    }
}
