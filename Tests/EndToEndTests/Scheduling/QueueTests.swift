import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("The queue", .onOwnThread)
struct QueueTests {
    @Test("a session with many queued jobs does not hold up another one, and priorities order within one")
    func turns() throws {
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "1"])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        func job(_ session: String, _ priority: Double, _ url: String) -> String {
            #"{"kind":"data","session":"\#(session)","schedule":{"priority":\#(priority)},"#
                + #""request":{"url":"\#(url)"}}"#
        }
        // Holds the only slot until everything is queued.
        let held = try ferry.submit(job("deep", 0.5, "\(origin.url)/f/1"))
        try #require(!origin.stopped.wait().isEmpty)
        let deep = try (0..<40).map { try ferry.submit(job("deep", 0.2, "\(origin.url)/f/\($0 + 2)")) }
        let late = try ferry.submit(job("late", 0.1, "\(origin.url)/f/50"))
        let urgent = try ferry.submit(job("deep", 0.9, "\(origin.url)/f/51"))
        #expect(
            try ferry.json("GET", "/v1/jobs/\(late)")["waiting_reason"]?["code"]?.string == "no_free_slot")
        origin.open()
        #expect(try ferry.finished(held)["state"]?.string == "succeeded")
        func started(_ id: String) throws -> Timestamp {
            let text = try ferry.finished(id)["started_at"]?.string
            return try #require(text.flatMap { Timestamp(rfc3339: $0) })
        }
        let order = try deep.map { try started($0) }.sorted()
        #expect(try started(late) <= order[3])
        #expect(try started(urgent) <= order[1])
    }

    @Test("a session has at most as many transfers to one host as it is configured for")
    func sessionLimit() throws {
        let ferry = try FerryProcess([:])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let made = try ferry.call(
            "PUT", "/v1/sessions/narrow", #"{"http_maximum_connections_per_host":2}"#)
        #expect(made.status == 201, "\(made.text)")
        let jobs = try (1...6).map { number in
            try ferry.submit(
                #"{"kind":"data","session":"narrow","request":{"url":"\#(origin.url)/f/\#(number)"}}"#)
        }
        #expect(origin.stopped.wait(for: 2).count == 2)
        let held = try jobs.map { try ferry.json("GET", "/v1/jobs/\($0)") }
        #expect(held.filter { $0["state"]?.string == "running" }.count == 2)
        let reasons = held.compactMap { $0["waiting_reason"]?["code"]?.string }
        #expect(reasons == Array(repeating: "session_limit", count: 4))
        // Jobs of other sessions are not held up, and the limit holds however long they wait.
        let other = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/f/9"}}"#)
        #expect(origin.stopped.wait(for: 1).last == 9)
        #expect(origin.requestCount == 3)
        origin.open()
        for job in jobs + [other] {
            #expect(try ferry.finished(job)["state"]?.string == "succeeded")
        }
    }
}
