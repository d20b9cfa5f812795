import Curl
import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Discretionary jobs", .onOwnThread)
struct DiscretionaryTests {
    private let never = #"{"windows":[{"name":"never","cron":"0 0 29 2 *","duration":60}]}"#
    private let always = #"{"windows":[{"name":"always","cron":"* * * * *","duration":3600}]}"#

    private func start() throws -> (ferry: FerryProcess, origin: ScriptedOrigin, database: TestDatabase) {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        return (ferry, origin, database)
    }

    private func body(_ origin: ScriptedOrigin, _ more: String = "") -> String {
        #"{"kind":"data","request":{"url":"\#(origin.url)/"},"schedule":{"discretionary":true\#(more)}}"#
    }

    @Test(
        "a job waits for a window that opens by PATCH; without windows it runs at once")
    func window() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        #expect(try ferry.run(body(origin))["state"]?.string == "succeeded", "the service is idle")
        let closed = try ferry.json("PATCH", "/v1/admin/windows", never)
        #expect(closed["windows"]?.array?.first?["open"]?.bool == false)
        let id = try ferry.submit(body(origin))
        let waiting = try ferry.json("GET", "/v1/jobs/\(id)", headers: ["Prefer": "wait=3"])
        #expect(waiting["state"]?.string == "waiting" && waiting["waiting_for"]?.string == "discretionary")
        #expect(waiting["waiting_reason"]?["code"]?.string == "discretionary")
        #expect(waiting["schedule"]?["discretionary"]?.bool == true)
        let latest = try #require(waiting["next_attempt_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        let created = try #require(waiting["created_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        #expect(abs(latest - created - (604_800 - 3_600 - 300)) < 1)
        #expect(try ferry.json("GET", "/v1/admin/status")["jobs"]?["waiting"]?.integer == 1)
        let open = try ferry.json("PATCH", "/v1/admin/windows", always)
        #expect(open["windows"]?.array?.first?["open"]?.bool == true)
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        #expect(try ferry.json("GET", "/v1/admin/status")["jobs"]?["waiting"]?.integer == 0)
        let shown = try ferry.json("GET", "/v1/admin/windows")["windows"]?.array?.first
        #expect(shown?["name"]?.string == "always" && shown?["closes_at"]?.isNull == false)
    }

    @Test("a near deadline, also one set by PATCH, starts a job outside of windows")
    func deadline() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        _ = try ferry.json("PATCH", "/v1/admin/windows", never)
        let at = { (seconds: Double) in Timestamp(microseconds: wallMicroseconds()) + seconds }
        // At the assumed rate of 1 MiB/s and with the margin, the latest start is in ten seconds; the
        // deadline then leaves enough time.
        let first = try ferry.json(
            "POST", "/v1/jobs",
            body(origin, #","deadline_at":"\#(at(120))","expected_bytes_to_receive":\#(98 << 20)"#))
        let near = try #require(first["id"]?.string, "\(first)")
        #expect(first["waiting_for"]?.string == "discretionary", "\(first)")
        let far = try ferry.submit(body(origin, #","deadline_at":"\#(at(8_000))""#))
        let end = try ferry.finished(near)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(try ferry.json("GET", "/v1/jobs/\(far)")["state"]?.string == "waiting")
        let patch =
            #"{"schedule":{"deadline_at":"\#(at(120))","expected_bytes_to_receive":\#(105 << 20)}}"#
        #expect(try ferry.call("PATCH", "/v1/jobs/\(far)", patch).status == 200)
        #expect(try ferry.finished(far)["state"]?.string == "succeeded")
        let other = try ferry.submit(body(origin))
        #expect(
            try ferry.call("PATCH", "/v1/jobs/\(other)", #"{"schedule":{"discretionary":false}}"#).status
                == 200)
        #expect(
            try ferry.finished(other)["state"]?.string == "succeeded",
            "a change to discretionary false starts the job")
    }

    @Test("the latest start of a job follows from the measured rate of its host")
    func measured() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(2_000_000))
        _ = try ferry.json("PATCH", "/v1/admin/windows", never)
        let deadline = Timestamp(microseconds: wallMicroseconds()) + 86_400
        let instant = { (job: JSON, name: String) throws -> Timestamp in
            try #require(job[name]?.string.flatMap { Timestamp(rfc3339: $0) })
        }
        // Returns the planned duration of a transfer of 1 GiB, without the margin of five minutes.
        let transfer = { () throws -> Double in
            let job = try ferry.json(
                "POST", "/v1/jobs",
                #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"#
                    + #""schedule":{"discretionary":true,"deadline_at":"\#(deadline)","#
                    + #""expected_bytes_to_receive":\#(1 << 30)}}"#)
            return try deadline - instant(job, "next_attempt_at") - 300
        }
        #expect(try abs(transfer() - 1_024) < 1, "the default is 1 MiB/s")
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"#
                + #""network":{"max_bytes_per_second":400000}}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        let seconds = try instant(job, "finished_at") - instant(job, "started_at")
        // Plans use half of the measured rate.
        let expected = Double(1 << 30) / (2_000_000 / seconds / 2)
        let ratio = try transfer() / expected
        #expect((0.8...1.25).contains(ratio), "\(ratio) times \(expected) s")
    }

    @Test("a window starts only as many jobs as its byte budget allows")
    func budget() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        _ = try ferry.json("PATCH", "/v1/admin/windows", never)
        let ids = try (0..<6).map { _ in
            try ferry.submit(body(origin, #","expected_bytes_to_receive":1000"#))
        }
        let daily = #"{"windows":[{"name":"d","cron":"0 0 * * *","duration":86400,"max_bytes":3000}]}"#
        _ = try ferry.json("PATCH", "/v1/admin/windows", daily)
        #expect(becomes { origin.requests.count == 3 })
        let last = try ferry.json("GET", "/v1/jobs/\(ids[5])", headers: ["Prefer": "wait=3"])
        #expect(last["state"]?.string == "waiting")
        #expect(origin.requests.count == 3)
    }

    @Test("waiting_reason names the window, its budget or the paused host, and the next check")
    func reason() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        _ = try ferry.json("PATCH", "/v1/admin/windows", never)
        let small = try ferry.submit(body(origin, #","expected_bytes_to_receive":1000"#))
        let large = try ferry.submit(body(origin, #","expected_bytes_to_receive":3000"#))
        var shown: JSON?
        let shows = { (id: String, text: String, opening: (Timestamp) throws -> Bool) in
            becomes {
                shown = try ferry.json("GET", "/v1/jobs/\(id)")["waiting_reason"]
                let at = shown?["next_check_at"]?.string.flatMap { Timestamp(rfc3339: $0) }
                return try shown?["code"]?.string == "discretionary"
                    && shown?["detail"]?.string?.contains(text) == true && at.map(opening) == true
            }
        }
        let latest = try #require(
            try ferry.json("GET", "/v1/jobs/\(large)")["next_attempt_at"]?.string
                .flatMap { Timestamp(rfc3339: $0) })
        #expect(shows(large, "off-peak window opens", { $0 <= latest }), "\(shown ?? .null)")
        // Open now, and again at the next midnight, which is before the latest start.
        let daily = #"{"windows":[{"name":"d","cron":"0 0 * * *","duration":90000,"max_bytes":3500}]}"#
        let opened = try ferry.json("PATCH", "/v1/admin/windows", daily)
        let next = try #require(
            opened["windows"]?.array?.first?["opens_at"]?.string.flatMap { Timestamp(rfc3339: $0) })
        #expect(try ferry.finished(small)["state"]?.string == "succeeded")
        #expect(shows(large, "budget", { $0 == next && $0 < latest }), "\(shown ?? .null)")
        let host = origin.url.replacing("/", with: "%2F").replacing(":", with: "%3A")
        _ = try ferry.json("PATCH", "/v1/admin/hosts/\(host)", #"{"paused":true}"#)
        let pausedJob = try ferry.submit(body(origin, #","expected_bytes_to_receive":500"#))
        #expect(shows(pausedJob, "host is paused", { $0 <= latest + 60 }), "\(shown ?? .null)")
    }

    @Test("a replayed submission shows that it waits for a window; responsive_data is rejected")
    func replay() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        _ = try ferry.json("PATCH", "/v1/admin/windows", never)
        let first = try ferry.call("POST", "/v1/jobs", body(origin), headers: ["Idempotency-Key": "d"])
        let again = try ferry.call("POST", "/v1/jobs", body(origin), headers: ["Idempotency-Key": "d"])
        for response in [first, again] {
            #expect(try response.status == 201 && response.json["waiting_for"]?.string == "discretionary")
        }
        #expect(try first.json["id"] == again.json["id"])
        let responsive = body(origin, #","network_service_type":"responsive_data""#)
        let refused = try ferry.json("POST", "/v1/jobs", responsive)
        #expect(refused["errors"]?.array?.first?["pointer"]?.string == "#/schedule/discretionary")
    }

    @Test("an open window limits the rate of transfers")
    func rate() throws {
        let (ferry, origin, database) = try start()
        defer { withExtendedLifetime(database) { ferry.remove() } }
        defer { origin.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("big", patternBytes(3_000_000))
        let job = #"{"kind":"download","request":{"url":"\#(nginx.url)/big"}}"#
        _ = try ferry.json(
            "PATCH", "/v1/admin/windows",
            #"""
            {"windows":[{"name":"slow","cron":"* * * * *","duration":3600,"discretionary":false,
             "max_bytes_per_second":500000}]}
            """#)
        // Event loops learn the rate when the node has read the windows again.
        #expect(
            becomes(seconds: 60) {
                let start = monotonicNanoseconds()
                let end = try ferry.run(job)
                return end["state"]?.string == "succeeded" && monotonicNanoseconds() - start > 2_000_000_000
            })
        _ = try ferry.json("PATCH", "/v1/admin/windows", #"{"windows":null}"#)
        #expect(
            becomes(seconds: 60) {
                let start = monotonicNanoseconds()
                return try ferry.run(job)["state"]?.string == "succeeded"
                    // With the limit, the transfer takes at least five seconds.
                    && monotonicNanoseconds() - start < 4_000_000_000
            })
    }
}
