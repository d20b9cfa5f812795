import Curl
import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Deadlines, waiting reasons and renewed URLs", .onOwnThread)
struct DeadlineTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func inSeconds(_ seconds: Double) -> Timestamp {
        Timestamp(microseconds: Sys.wallMicroseconds()) + seconds
    }

    @Test("a waiting or suspended job fails at its deadline with deadline_exceeded")
    func waiting() throws {
        let deadline = inSeconds(8)
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"retry":{"initial_delay":0.01},"#
                + #""schedule":{"deadline_at":"\#(deadline)","earliest_begin_at":"\#(deadline + -0.1)"}}"#)
        #expect(job["state"]?.string == "failed", "\(job)")
        let suspended = try ferry.submit(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"#
                + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#)
        #expect(try ferry.call("POST", "/v1/jobs/\(suspended)/suspend").status == 200)
        let later = inSeconds(8)
        let patch = #"{"schedule":{"earliest_begin_at":null,"deadline_at":"\#(later)"}}"#
        let patched = try ferry.call(
            "PATCH", "/v1/jobs/\(suspended)", patch, headers: ["Content-Type": "application/merge-patch+json"]
        )
        #expect(patched.status == 200, "\(patched.text)")
        let end = try ferry.finished(suspended)
        #expect(end["error"]?["code"]?.string == "deadline_exceeded", "\(end)")
        #expect(end["error"]?["class"]?.string == "timeout")
        let finishedAt = try #require(end["finished_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        // The deadline is decided by the database's clock, which this test does not read. The delay after the
        // deadline depends on the machine; `finished` has waited a minute.
        #expect(finishedAt - later > -1, "\(finishedAt)")
    }

    @Test("a running job fails after its deadline with deadline_exceeded")
    func running() throws {
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let deadline = inSeconds(8)
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(origin.url)/f/1"},"#
                + #""schedule":{"deadline_at":"\#(deadline)"}}"#)
        #expect(job["error"]?["code"]?.string == "deadline_exceeded", "\(job)")
        let finishedAt = try #require(job["finished_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        // The deadline is decided by the node's clock, which is the database's. The delay after the deadline
        // depends on the machine; `run` has waited a minute.
        #expect(finishedAt - deadline > -1, "\(finishedAt)")
    }

    @Test(
        "waiting_reason shows no_free_slot, or begin_date with the date, in jobs and lists")
    func reasons() throws {
        let own = try FerryProcess(["FERRY_CONCURRENCY": "1"])
        defer { own.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let running = try own.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/f/1"}}"#)
        #expect(becomes { try own.json("GET", "/v1/jobs/\(running)")["state"]?.string == "running" })
        #expect(try own.json("GET", "/v1/jobs/\(running)")["waiting_reason"]?.isNull == true)
        let queued = try own.json(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"\#(origin.url)/f/1"}}"#)
        #expect(queued["waiting_reason"]?["code"]?.string == "no_free_slot", "\(queued)")
        let later = try own.json(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(origin.url)/f/1"},"#
                + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#)
        #expect(later["waiting_reason"]?["code"]?.string == "begin_date")
        #expect(later["waiting_reason"]?["next_check_at"]?.string == "2099-01-01T00:00:00.000000Z")
        #expect(
            try own.allJobs().map { $0["waiting_reason"]?["code"]?.string }
                == ["begin_date", "no_free_slot", nil])
    }

    @Test("the 201 of a job on an idle service does not name the limit of its session")
    func reasonOnAnIdleService() throws {
        // An empty setting is the default, six connections.
        let own = try FerryProcess(["FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": ""])
        defer { own.remove() }
        let origin = try HalfwayOrigin(free: 1)
        defer { origin.stop() }
        let accepted = try own.json(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"\#(origin.url)/f/1"}}"#)
        #expect(accepted["state"]?.string == "queued")
        #expect(accepted["waiting_reason"]?["code"]?.string == "no_free_slot", "\(accepted)")
    }

    @Test("a suspended download with a changed URL resumes from its bytes")
    func renewedURL() throws {
        let size = MeteredOrigin.byteCount
        let origin = try MeteredOrigin(upTo: size / 2)
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f?signature=1"},"#
                + #""destination":{"path":"renewed/f"}}"#)
        let hasHalf = becomes {
            let progress = try ferry.json("GET", "/v1/jobs/\(id)")["progress"]
            return progress?["bytes_received"]?.integer == Int64(size / 2)
        }
        #expect(hasHalf)
        let merge = ["Content-Type": "application/merge-patch+json"]
        let link = #"{"request":{"url":"\#(origin.url)/f?signature=2","headers":{"X-Session-Token":"s"}}}"#
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/suspend").status == 200)
        // The API responds before a slow node has suspended the job.
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(id)")["state"]?.string == "suspended" })
        let patched = try ferry.call("PATCH", "/v1/jobs/\(id)", link, headers: merge)
        #expect(patched.status == 200, "\(patched.text)")
        #expect(try patched.json["request"]?["headers"]?["X-Session-Token"]?["set"]?.bool == true)
        origin.allow(upTo: size)
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/resume").status == 200)
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(end["progress"]?["resumed_at_offset"]?.integer == Int64(size / 2))
        #expect(readFile(ferry.files + "/renewed/f") == MeteredOrigin.bytes)
    }

    @Test("without a worker node, a queued job has waiting_reason no_worker")
    func noWorker() throws {
        let own = try FerryProcess(["FERRY_ROLES": "api"])
        defer { own.remove() }
        let job = try own.json(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"}}"#)
        #expect(job["waiting_reason"]?["code"]?.string == "no_worker", "\(job)")
    }
}
