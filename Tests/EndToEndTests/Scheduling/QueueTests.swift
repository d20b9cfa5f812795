import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Claim queues", .onOwnThread)
struct QueueTests {
    @Test("many queued jobs of a session do not delay another session; priorities order one session")
    func sessionsAndPriorities() throws {
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "1"])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        func job(_ session: String, _ priority: Double, _ url: String) -> String {
            #"{"kind":"data","session":"\#(session)","schedule":{"priority":\#(priority)},"#
                + #""request":{"url":"\#(url)"}}"#
        }
        // This job uses the only slot until all jobs are queued.
        let blocking = try ferry.submit(job("deep", 0.5, "\(origin.url)/f/1"))
        try #require(!origin.stopped.wait().isEmpty)
        let deep = try (0..<40).map { try ferry.submit(job("deep", 0.2, "\(origin.url)/f/\($0 + 2)")) }
        let late = try ferry.submit(job("late", 0.1, "\(origin.url)/f/50"))
        let urgent = try ferry.submit(job("deep", 0.9, "\(origin.url)/f/51"))
        #expect(
            try ferry.json("GET", "/v1/jobs/\(late)")["waiting_reason"]?["code"]?.string == "no_free_slot")
        origin.open()
        #expect(try ferry.finished(blocking)["state"]?.string == "succeeded")
        func started(_ id: String) throws -> Timestamp {
            let text = try ferry.finished(id)["started_at"]?.string
            return try #require(text.flatMap { Timestamp(rfc3339: $0) })
        }
        let order = try deep.map { try started($0) }.sorted()
        #expect(try started(late) <= order[3])
        #expect(try started(urgent) <= order[1])
    }

    @Test("http_maximum_connections_per_host limits a session's transfers to a host")
    func sessionLimit() throws {
        let ferry = try FerryProcess([:])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let created = try ferry.call(
            "PUT", "/v1/sessions/narrow", #"{"http_maximum_connections_per_host":2}"#)
        #expect(created.status == 201, "\(created.text)")
        let jobs = try (1...6).map { number in
            try ferry.submit(
                #"{"kind":"data","session":"narrow","request":{"url":"\#(origin.url)/f/\#(number)"}}"#)
        }
        #expect(origin.stopped.wait(for: 2).count == 2)
        // The begin of a job is recorded up to half a second later.
        #expect(
            becomes {
                let shown = try jobs.map { try ferry.json("GET", "/v1/jobs/\($0)") }
                let reasons = shown.compactMap { $0["waiting_reason"]?["code"]?.string }
                return shown.filter { $0["state"]?.string == "running" }.count == 2
                    && reasons == Array(repeating: "session_limit", count: 4)
            })
        // A job of another session runs, while the limit still holds.
        let other = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/f/9"}}"#)
        #expect(origin.stopped.wait(for: 1).last == 9)
        #expect(origin.requestCount == 3)
        origin.open()
        for job in jobs + [other] {
            #expect(try ferry.finished(job)["state"]?.string == "succeeded")
        }
    }
}
