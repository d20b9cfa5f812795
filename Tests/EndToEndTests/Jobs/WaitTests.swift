import Curl
import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Prefer: wait during drains and outages", .onOwnThread)
struct WaitTests {
    @Test("a drain ends Prefer: wait at once; a submitted job gets 201")
    func drained() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_DRAIN_SECONDS": "1"])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        // 60 s is the longest wait allowed, and longer than the drain.
        let created = Background {
            try ferry.call("POST", "/v1/jobs", download(origin, 0), headers: wait(60))
        }
        #expect(origin.stopped.wait() == [0])
        let id = try #require(try ferry.allJobs().first?["id"]?.string)
        let read = Background { try ferry.call("GET", "/v1/jobs/\(id)", headers: wait(60)) }
        let bothWait = becomes {
            try ferry.call("GET", "/metrics").text.contains("\nferry_waiting_requests 2\n")
        }
        #expect(bothWait)
        #expect(ferry.terminate() == 0)
        let (first, second) = (try created.value(), try read.value())
        #expect(first.status == 201, "\(first.text)")
        #expect(try first.json["id"]?.string == id)
        #expect(first.header("location") == "/v1/jobs/\(id)")
        #expect(second.status == 200, "\(second.text)")
        #expect(try second.json["id"]?.string == id)
        origin.open()
        try ferry.start()
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        #expect(try ferry.allJobs().count == 1)
    }

    @Test("if the database fails during Prefer: wait, the submitted job still gets 201")
    func databaseAway() throws {
        let server = try TestServer()
        defer { server.remove() }
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": server.url()])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let created = Background { try ferry.call("POST", "/v1/jobs", download(origin, 0), headers: wait(2)) }
        #expect(origin.stopped.wait() == [0])
        server.stop(SIGQUIT)
        let response = try created.value()
        #expect(response.status == 201, "\(response.text)")
        let id = try #require(try response.json["id"]?.string)
        #expect(response.header("location") == "/v1/jobs/\(id)")
        try server.start()
        origin.open()
        #expect(becomes(seconds: 60) { try ferry.finished(id)["state"]?.string == "succeeded" })
        #expect(try ferry.allJobs().count == 1)
    }

    private func wait(_ seconds: Int) -> [String: String] { ["Prefer": "wait=\(seconds)"] }

    private func download(_ origin: HalfwayOrigin, _ number: Int) -> String {
        #"{"kind":"download","request":{"url":"\#(origin.url)/f/\#(number)"},"destination":{"path":"f/0"}}"#
    }
}

/// Runs a blocking function on its own thread.
private final class Background<Value: Sendable>: Sendable {
    private let outcome = Signal<Result<Value, any Error>>()
    private let thread: Thread

    init(_ body: @escaping @Sendable () throws -> Value) {
        let outcome = outcome
        thread = Thread(name: "background") { outcome.fire(Result { try body() }) }
    }

    /// Waits for the result of the function.
    func value() throws -> Value {
        guard let outcome = outcome.wait().first else { throw TestSupportError("the function did not end") }
        thread.join()
        return try outcome.get()
    }
}
