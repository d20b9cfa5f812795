import Curl
import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Events", .onOwnThread)
struct EventTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func job(_ origin: HalfwayOrigin, session: String) -> String {
        #"{"kind":"data","session":"\#(session)","request":{"url":"\#(origin.url)/f/1"}}"#
    }

    private func types(_ events: [JSON]) -> [String] { events.compactMap { $0["type"]?.string } }

    @Test("events of a job and of its session are listed newest first, with pages and filters")
    func lists() throws {
        let origin = try HalfwayOrigin(free: 10)
        defer { origin.stop() }
        let ids = try (0..<3).map { _ in
            try ferry.run(job(origin, session: "listed"))["id"]?.string ?? ""
        }
        let all = try ferry.json("GET", "/v1/jobs/\(ids[1])/events")
        #expect(types(all["data"]?.array ?? []) == ["job.succeeded", "job.started", "job.created"])
        let first = try #require(all["data"]?.array?.last)
        #expect(first["data"]?["job"]?["id"]?.string == ids[1])
        #expect(first["data"]?["job"]?["state"]?.string != "succeeded")
        let named = "/v1/events?session=listed&type=job.created,job.succeeded"
        let listed = try ferry.json("GET", named)["data"]?.array ?? []
        #expect(listed.count == 6 && Set(types(listed)) == ["job.created", "job.succeeded"])
        let numbers = listed.compactMap { $0["data"]?["sequence"]?.integer }
        #expect(numbers == numbers.sorted(by: >) && Set(numbers).count == 6)
        var paged: [JSON] = []
        var cursor: String?
        repeat {
            let page = try ferry.json("GET", "\(named)&limit=2" + (cursor.map { "&cursor=\($0)" } ?? ""))
            paged += page["data"]?.array ?? []
            cursor = page["next_cursor"]?.string
        } while cursor != nil
        #expect(paged == listed)
        #expect(try ferry.json("GET", "/v1/events?session=nobody")["data"]?.array?.isEmpty == true)
        #expect(try ferry.call("GET", "/v1/events?type=job.nothing").status == 400)
        #expect(try ferry.call("GET", "/v1/jobs/\(JobID(high: 1, low: 1))/events").status == 404)
    }

    @Test("a session's stream sends its events, and continues after Last-Event-ID without a gap")
    func resume() throws {
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let listener = try EventListener(ferry, "/v1/events?session=heard")
        defer { listener.stop() }
        let head = try #require(listener.head.wait().first)
        #expect(head.contains("200") && head.contains("text/event-stream") && head.contains("no-store"))
        // The stream starts with the id of its position.
        let begin = listener.messages.wait().first?.id
        #expect(begin?.hasPrefix("evt_") == true)
        _ = try ferry.run(job(origin, session: "unheard"))
        _ = try ferry.run(job(origin, session: "heard"))
        let received = listener.events(3)
        try #require(received.count >= 3)
        #expect(received.prefix(3).map(\.event) == ["job.created", "job.started", "job.succeeded"])
        #expect(received.first?.data["data"]?["session"]?.string == "heard")
        for _ in 0..<2 { _ = try ferry.run(job(origin, session: "heard")) }
        let again = try EventListener(ferry, "/v1/events?session=heard", after: received[0].id)
        defer { again.stop() }
        let resumed = again.events(8)
        let numbers = resumed.compactMap { $0.data["data"]?["sequence"]?.integer }
        #expect(numbers.count >= 8 && numbers == Array(2..<Int64(numbers.count + 2)), "\(numbers)")
        let whole = try EventListener(ferry, "/v1/events?session=heard", after: begin)
        defer { whole.stop() }
        let all = whole.events(3)
        #expect(all.prefix(3).map(\.event) == ["job.created", "job.started", "job.succeeded"])
        // A client whose events are no longer stored gets a snapshot.
        let late = try EventListener(ferry, "/v1/events?session=heard", after: "\(EventID(high: 1, low: 0))")
        defer { late.stop() }
        #expect(late.events(1).first?.event == "snapshot")
    }

    @Test("a job's stream sends a snapshot, progress and events, and ends with the job")
    func ofJob() throws {
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let id = try #require(
            try ferry.json("POST", "/v1/jobs", job(origin, session: "watched"))["id"]?.string)
        #expect(origin.stopped.wait().count == 1)
        let listener = try EventListener(ferry, "/v1/jobs/\(id)/events")
        defer { listener.stop() }
        var begin: [EventListener.Message] = []
        let isHalfway = becomes {
            begin += listener.messages.wait(seconds: 1)
            // A keep-alive comment may follow.
            return begin.contains { $0.data["progress"]?["bytes_received"]?.integer == 10_000 }
        }
        #expect(isHalfway)
        let first = try #require(begin.first)
        #expect(first.event == "snapshot" && first.data["job"]?["state"]?.string == "running")
        #expect(begin.dropFirst().allSatisfy { $0.event == "progress" || $0.event == nil })
        origin.open()
        let last = try #require(listener.events(1).last)
        #expect(last.event == "job.succeeded" && last.data["data"]?["job"]?["id"]?.string == id)
        #expect(listener.ended.wait().count == 1)
        let over = try EventListener(ferry, "/v1/jobs/\(id)/events", after: last.id)
        defer { over.stop() }
        #expect(over.head.wait().first?.contains(" 204 ") == true)
    }

    @Test("after kill -9 the sequence has no gap, and each job has one created, started and ended event")
    func killed() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "32", "FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 100, trickles: true)
        defer { origin.stop() }
        let ids = try ferry.submitBatch(origin.batch(0..<200))
        #expect(origin.stopped.wait(for: 32, seconds: 240).count >= 32)
        ferry.kill9()
        origin.open()
        try ferry.start()
        #expect(becomes(seconds: 240) { try ferry.unfinishedCount() == 0 })
        var events: [JSON] = []
        var cursor: String?
        repeat {
            let page = try ferry.json("GET", "/v1/events?limit=500" + (cursor.map { "&cursor=\($0)" } ?? ""))
            events += page["data"]?.array ?? []
            cursor = page["next_cursor"]?.string
        } while cursor != nil
        let numbers = events.compactMap { $0["data"]?["sequence"]?.integer }
        #expect(numbers.reversed() == Array(1...Int64(events.count)))
        let eventsByJob = Dictionary(grouping: events) { $0["data"]?["job"]?["id"]?.string ?? "" }
        for id in ids {
            let types = types((eventsByJob[id] ?? []).reversed())
            #expect(types.first == "job.created" && types.last == "job.succeeded", "\(types)")
            #expect(types.count { $0 == "job.started" } == 1 && types.count { $0 == "job.succeeded" } == 1)
        }
    }

    @Test("ferry events lists events, and with --follow ends with the job")
    func client() throws {
        let origin = try HalfwayOrigin(free: 10)
        defer { origin.stop() }
        let id = try ferry.run(job(origin, session: "client"))["id"]?.string ?? ""
        let run = { (arguments: [String]) in
            try Program.run(
                [Program.ferry, "events"] + arguments,
                environment: ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey])
        }
        let result = try run([id, "--follow", "--json"])
        #expect(result.status == 0)
        let lines = result.output.split(separator: "\n").compactMap { try? JSON.parse(Array($0.utf8)) }
        #expect(types(lines) == ["job.created", "job.started", "job.succeeded"])
        let table = try run(["--session", "client", "--type", "job.succeeded"])
        #expect(table.status == 0 && table.output.contains("job.succeeded\t\(id)"))
    }
}
