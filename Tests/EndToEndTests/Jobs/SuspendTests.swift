import Curl
import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Suspended and cancelled downloads", .onOwnThread)
struct SuspendTests {
    private let ferry: FerryProcess
    private let size = MeteredOrigin.byteCount

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func download(_ origin: MeteredOrigin, _ path: String, _ more: String = "") throws -> String {
        try ferry.submit(body(origin, path, more))
    }

    private func body(
        _ origin: MeteredOrigin, _ path: String, _ more: String = "", timeout: Int = 60
    ) -> String {
        #"{"kind":"download","request":{"url":"\#(origin.url)/f","timeout_for_request":\#(timeout)},"#
            + #""destination":{"path":"\#(path)"}\#(more)}"#
    }

    /// `node`: the service that is asked, or `nil` for `ferry`.
    private func receives(_ count: Int, _ id: String, at node: FerryProcess? = nil) -> Bool {
        becomes {
            let job = try (node ?? ferry).json("GET", "/v1/jobs/\(id)")
            return job["progress"]?["bytes_received"]?.integer == Int64(count)
        }
    }

    /// Settings of nodes with the same database.
    private func settings(_ database: TestDatabase) -> [String: String] {
        ["FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "0123456789abcdef0123456789abcdef"]
    }

    private func post(_ id: String, _ verb: String, _ body: String = "{}") throws -> (Int, JSON) {
        let response = try ferry.call("POST", "/v1/jobs/\(id)/\(verb)", body)
        return (response.status, try response.json)
    }

    /// Like `post`, but returns the job after it has stopped: the API waits only a second for the node.
    private func stop(_ id: String, _ verb: String, _ body: String = "{}") throws -> (Int, JSON) {
        var (status, job) = try post(id, verb, body)
        let hasStopped = becomes {
            if job["state"]?.string == "running" { job = try ferry.json("GET", "/v1/jobs/\(id)") }
            return job["state"]?.string != "running"
        }
        if !hasStopped { status = 0 }
        return (status, job)
    }

    /// Returns the resume data of a job that is cancelled after `count` bytes.
    private func resumeData(_ origin: MeteredOrigin, _ path: String, after count: Int) throws -> String {
        let id = try download(origin, path)
        #expect(receives(count, id))
        let (status, job) = try stop(id, "cancel", #"{"produce_resume_data":true}"#)
        #expect(status == 200 && job["state"]?.string == "cancelled", "\(job)")
        return try #require(job["resume_data"]?.string, "\(job)")
    }

    @Test("a job submitted as suspended sends no request before it is resumed")
    func submitted() throws {
        let origin = try MeteredOrigin(upTo: size)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let suspended = #","suspended":true"#
        let text = body(
            origin, "suspended/f",
            suspended
                + #","webhook":{"url":"\#(receiver.url)","events":["job.created","job.succeeded"]}"#)
        let created = try ferry.call("POST", "/v1/jobs", text, headers: ["Idempotency-Key": "suspended-1"])
        let job = try created.json
        #expect(created.status == 201 && job["state"]?.string == "suspended", "\(job)")
        #expect(job["waiting_reason"]?["code"]?.string == "suspended" && job["attempt"]?.integer == 0)
        let id = try #require(job["id"]?.string)
        let batch = try ferry.submitBatch(#"{"jobs":[\#(body(origin, "suspended/g", suspended))]}"#)
        #expect(try ferry.json("GET", "/v1/jobs/\(batch[0])")["state"]?.string == "suspended")
        let (status, resumed) = try post(id, "resume")
        #expect(status == 200 && resumed["state"]?.string != "suspended", "\(resumed)")
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        let again = try ferry.call("POST", "/v1/jobs", text, headers: ["Idempotency-Key": "suspended-1"])
        #expect(try again.json["state"]?.string == "suspended" && again.json["id"]?.string == id)
        let events = Dictionary(
            receiver.deliveries.wait(for: 2).map { ($0.json["type"]?.string, $0.job?["state"]?.string) },
            uniquingKeysWith: { first, _ in first })
        #expect(events == ["job.created": "suspended", "job.succeeded": "succeeded"])
        #expect(try post(batch[0], "cancel").1["state"]?.string == "cancelled")
        let retry = try ferry.call("POST", "/v1/jobs/\(batch[0])/retry", "{}").json
        let repeated = try ferry.finished(try #require(retry["id"]?.string))
        #expect(repeated["state"]?.string == "succeeded" && repeated["suspended"]?.bool == false)
    }

    @Test(
        "a suspended download resumes from its bytes and shows resumed_at_offset"
    )
    func suspend() throws {
        let origin = try MeteredOrigin(upTo: size / 2)
        defer { origin.stop() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let id = try download(
            origin, "suspend/f",
            #","webhook":{"url":"\#(receiver.url)","events":["job.resumed_at_offset","job.succeeded"]}"#)
        #expect(receives(size / 2, id))
        let (status, job) = try stop(id, "suspend")
        #expect(status == 200 && job["state"]?.string == "suspended" && job["node"]?.isNull == true, "\(job)")
        #expect(job["waiting_reason"]?["code"]?.string == "suspended")
        expectPartial(size / 2, job)
        let listed = try ferry.json("GET", "/v1/jobs?state=suspended&limit=500")["data"]?.array
        try expectPartial(size / 2, #require(listed?.first { $0["id"]?.string == id }))
        let (again, problem) = try post(id, "suspend")
        #expect(again == 409 && problem["state"]?.string == "suspended")
        #expect(names(in: ferry.files + "/suspend").count == 2, "the partial download and its record")
        origin.allow(upTo: size)
        let (resumed, queued) = try post(id, "resume")
        #expect(resumed == 200 && ["queued", "running"].contains(queued["state"]?.string), "\(queued)")
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(end["progress"]?["resumed_at_offset"]?.integer == Int64(size / 2))
        #expect(end["result"]?["resumed_at_offset"]?.integer == Int64(size / 2))
        #expect(readFile(ferry.files + "/suspend/f") == MeteredOrigin.bytes)
        #expect(origin.sentByteCount <= size + size / 100)
        #expect(try post(id, "resume").0 == 409)
        // The sender may send both events at once.
        let deliveries = receiver.deliveries.wait(for: 2).sorted {
            ($0.json["data"]?["sequence"]?.integer ?? 0) < ($1.json["data"]?["sequence"]?.integer ?? 0)
        }
        #expect(deliveries.map { $0.json["type"]?.string } == ["job.resumed_at_offset", "job.succeeded"])
        #expect(deliveries.first?.json["data"]?["offset"]?.integer == Int64(size / 2))
        #expect(deliveries.first?.job?["state"]?.string == "running")
        #expect(deliveries.last?.json["data"]?["offset"] == nil)
    }

    @Test("a waiting job can be suspended and resumed; cancelled, it has no resume data")
    func suspendWaiting() throws {
        let origin = try MeteredOrigin(upTo: size)
        defer { origin.stop() }
        let id = try download(
            origin, "waiting/f", #","schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}"#)
        let (status, job) = try post(id, "suspend")
        #expect(status == 200 && job["state"]?.string == "suspended" && job["waiting_for"]?.isNull == true)
        let (resumed, waiting) = try post(id, "resume")
        #expect(resumed == 200 && waiting["waiting_for"]?.string == "begin_date", "\(waiting)")
        #expect(try post(id, "suspend").0 == 200)
        let (cancelled, end) = try post(id, "cancel", #"{"produce_resume_data":true}"#)
        #expect(cancelled == 200 && end["resume_data"]?.isNull == true, "no byte was received")
        #expect(origin.ranges.isEmpty)
    }

    @Test("resume data continues the download in one other job; a second job starts at byte 0")
    func adopt() throws {
        let origin = try MeteredOrigin(upTo: size / 2)
        defer { origin.stop() }
        let data = try resumeData(origin, "adopt/old/f", after: size / 2)
        origin.allow(upTo: size)
        let first = try ferry.run(body(origin, "adopt/new", #","resume_data":"\#(data)""#))
        #expect(first["state"]?.string == "succeeded", "\(first)")
        #expect(first["progress"]?["resumed_at_offset"]?.integer == Int64(size / 2))
        #expect(readFile(ferry.files + "/adopt/new") == MeteredOrigin.bytes)
        #expect(origin.sentByteCount <= size + size / 100)
        #expect(names(in: ferry.files + "/adopt/old").isEmpty && names(in: ferry.files + "/adopt").count == 2)
        let second = try ferry.run(body(origin, "adopt/again", #","resume_data":"\#(data)""#))
        #expect(second["state"]?.string == "succeeded", "\(second)")
        #expect(second["progress"]?["resumed_at_offset"]?.integer == 0)
        #expect(readFile(ferry.files + "/adopt/again") == MeteredOrigin.bytes)
        #expect(origin.ranges.last == .some(nil))
    }

    @Test("resume data that is forged, of another tenant or of another URL is rejected with 422")
    func forged() throws {
        let origin = try MeteredOrigin(upTo: size / 4)
        defer { origin.stop() }
        let data = try resumeData(origin, "forged/f", after: size / 4)
        let flipped = data.prefix(40) + (data.dropFirst(40).first == "A" ? "B" : "A") + data.dropFirst(41)
        let url = #"{"kind":"download","request":{"url":"\#(origin.url)/other"},"resume_data":"\#(data)"}"#
        let other = try ferry.makeKey(role: "client", tenant: "resume-other")
        let attempts = [
            (body(origin, "forged/g", #","resume_data":"\#(flipped)""#), adminKey),
            (body(origin, "forged/g", #","resume_data":"eA==""#), adminKey),
            (body(origin, "forged/g", #","resume_data":"\#(data)""#), other),
            (url, adminKey),
        ]
        for (body, key) in attempts {
            let response = try ferry.call("POST", "/v1/jobs", body, key: key)
            #expect(response.status == 422)
            #expect(try response.json["errors"]?.array?.map { $0["pointer"]?.string } == ["#/resume_data"])
        }
    }

    @Test("a retry of a failed download, and a job with its resume data, resume from its bytes")
    func retried() throws {
        let origin = try MeteredOrigin(upTo: size / 4)
        defer { origin.stop() }
        let failed = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f?signature=1","timeout_for_request":6},"#
                + #""destination":{"path":"retried/f"},"retry":{"max_attempts":1}}"#)
        // `received` is all that was sent, unless the machine was slow for six seconds.
        let received = Int(failed["progress"]?["bytes_received"]?.integer ?? 0)
        #expect(received > 0, "\(failed)")
        // The first attempt has made progress, and has continued in vain. So has the second one.
        let before = origin.ranges.count
        #expect(before == 3 && failed["attempt"]?.integer == 2, "\(failed)")
        let (accepted, retry) = try post(failed["id"]?.string ?? "", "retry")
        let id = try #require(retry["id"]?.string)
        #expect(accepted == 201 && retry["resume_data"]?.isNull == true, "\(retry)")
        #expect(becomes { origin.ranges.count == before + 1 })
        origin.allow(upTo: size / 2)
        #expect(receives(size / 2, id))
        let (_, cancelled) = try stop(id, "cancel", #"{"produce_resume_data":true}"#)
        #expect(cancelled["state"]?.string == "cancelled", "\(cancelled)")
        let ended = try ferry.finished(id)
        let data = try #require(ended["resume_data"]?.string, "\(ended)")
        origin.allow(upTo: size)
        let last = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f?signature=2"},"#
                + #""destination":{"path":"retried/f"},"resume_data":"\#(data)"}"#)
        #expect(last["result"]?["resumed_at_offset"]?.integer == Int64(size / 2), "\(last)")
        #expect(readFile(ferry.files + "/retried/f") == MeteredOrigin.bytes)
        let continued = Array(repeating: "bytes=\(received)-", count: before)
        #expect(origin.ranges == [nil] + continued + ["bytes=\(size / 2)-"])
        #expect(origin.sentByteCount <= size + (size / 4 - received) + size / 100)
    }

    @Test("a failed download shows resume data; deleting the job removes its files")
    func failed() throws {
        let origin = try MeteredOrigin(upTo: size / 4)
        defer { origin.stop() }
        // In six seconds all sent bytes arrive, unless the machine is slow.
        let job = try ferry.run(body(origin, "failed/f", #","retry":{"max_attempts":1}"#, timeout: 6))
        let id = try #require(job["id"]?.string)
        #expect(job["error"]?["code"]?.string == "timed_out", "\(job)")
        #expect(job["resume_data"]?.string != nil)
        let received = Int(job["progress"]?["bytes_received"]?.integer ?? 0)
        #expect(received > 0)
        expectPartial(received, job)
        #expect(names(in: ferry.files + "/failed").count == 2)
        #expect(try ferry.call("DELETE", "/v1/jobs/\(id)").status == 204)
        #expect(becomes { names(in: ferry.files + "/failed").isEmpty })
    }

    @Test("a download between attempts shows its progress; after its deadline it has resume data")
    func betweenAttempts() throws {
        let origin = try MeteredOrigin(upTo: size / 4)
        defer { origin.stop() }
        let id = try download(
            origin, "between/f",
            #","retry":{"initial_delay":3600,"max_delay":3600},"#
                + #""schedule":{"deadline_at":"2099-01-01T00:00:00Z"}"#
        )
        #expect(receives(size / 4, id))
        origin.stop()
        let isWaiting = becomes { try ferry.json("GET", "/v1/jobs/\(id)")["waiting_for"]?.string == "retry" }
        #expect(isWaiting)
        let waiting = try ferry.json("GET", "/v1/jobs/\(id)")
        expectPartial(size / 4, waiting)
        #expect(waiting["resume_data"]?.isNull == true)
        let (status, suspended) = try post(id, "suspend")
        #expect(status == 200)
        expectPartial(size / 4, suspended)
        let deadline = Timestamp(microseconds: Sys.wallMicroseconds()) + 2
        let patch = #"{"schedule":{"deadline_at":"\#(deadline)"}}"#
        #expect(try ferry.call("PATCH", "/v1/jobs/\(id)", patch).status == 200)
        let end = try ferry.finished(id)
        #expect(end["error"]?["code"]?.string == "deadline_exceeded", "\(end)")
        expectPartial(size / 4, end)
        #expect(end["resume_data"]?.string != nil)
        #expect(names(in: ferry.files + "/between").count == 2)
        #expect(try ferry.call("DELETE", "/v1/jobs/\(id)").status == 204)
    }

    private func expectPartial(_ count: Int, _ job: JSON) {
        let progress = job["progress"]
        #expect(progress?["bytes_received"]?.integer == Int64(count), "\(job)")
        #expect(progress?["bytes_expected_to_receive"]?.integer == Int64(size))
        #expect(progress?["fraction_completed"]?.double == Double(count) / Double(size))
        #expect(progress?["bytes_per_second"]?.double == 0)
    }

    @Test("a restarted node removes the partial downloads of jobs that ended meanwhile")
    func sweep() throws {
        let database = try TestDatabase()
        let settings = settings(database)
        let first = try FerryProcess(settings)
        defer { first.remove() }
        let origin = try MeteredOrigin(upTo: size / 4)
        defer { origin.stop() }
        let id = try first.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f"},"destination":{"path":"d/e/f"}}"#)
        #expect(receives(size / 4, id, at: first))
        // The record is written shortly after the file.
        #expect(becomes { names(in: first.files + "/d/e").count == 2 })
        first.kill9()
        let unknownFile = first.files + "/d/.ferry-job_01m7z7hp0pe0wa24awkj95v2j4-1.part"
        try writeFile(unknownFile, [1])
        #expect(names(in: first.files + "/d/e").count == 2)
        let second = try FerryProcess(settings)
        defer { second.remove() }
        #expect(try second.call("POST", "/v1/jobs/\(id)/cancel", "{}").status == 200)
        #expect(
            becomes { try second.json("GET", "/v1/jobs/\(id)")["state"]?.string == "cancelled" })
        try first.start()
        #expect(becomes { names(in: first.files + "/d/e").isEmpty })
        #expect(readFile(unknownFile) == [1], "a recent file of an unknown job may belong to another service")
    }

    @Test("a cancellation on one node removes the partial download of an attempt on another")
    func cancelElsewhere() throws {
        let database = try TestDatabase()
        let settings = settings(database)
        let first = try FerryProcess(settings)
        defer { first.remove() }
        let origin = try MeteredOrigin(upTo: size / 4)
        defer { origin.stop() }
        let id = try first.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/f"},"destination":{"path":"d/f"},"#
                + #""retry":{"initial_delay":3600,"max_delay":3600}}"#)
        #expect(receives(size / 4, id, at: first))
        origin.stop()
        #expect(
            becomes { try first.json("GET", "/v1/jobs/\(id)")["waiting_for"]?.string == "retry" })
        #expect(names(in: first.files + "/d").count == 2)
        let second = try FerryProcess(settings.merging(["FERRY_STORAGE_ROOT": first.files]) { $1 })
        defer { second.remove() }
        let cancelled = try second.call("POST", "/v1/jobs/\(id)/cancel", "{}")
        let job = try cancelled.json
        #expect(cancelled.status == 200 && job["state"]?.string == "cancelled", "\(job)")
        #expect(becomes { names(in: first.files + "/d").isEmpty })
    }
}
