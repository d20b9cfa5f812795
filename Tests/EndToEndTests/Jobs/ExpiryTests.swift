import Curl
import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("The time after which a job fails", .onOwnThread)
struct ExpiryTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func body(_ schedule: String, more: String = "") -> String {
        #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"schedule":{\#(schedule)}\#(more)}"#
    }

    private func time(_ name: String, of job: JSON) throws -> Timestamp {
        try #require(job[name]?.string.flatMap { Timestamp(rfc3339: $0) }, "\(name) of \(job)")
    }

    private func date(_ name: String, of job: JSON) throws -> Timestamp {
        try #require(job["schedule"]?[name]?.string.flatMap { Timestamp(rfc3339: $0) }, "\(name) of \(job)")
    }

    /// The job fails at `expires_at`, and long before a sweep of 30 s.
    private func expectEnd(of id: String) throws {
        let expiry = try time("expires_at", of: ferry.json("GET", "/v1/jobs/\(id)"))
        let end = try ferry.finished(id)
        #expect(end["error"]?["code"]?.string == "resource_timeout", "\(end)")
        let late = try time("finished_at", of: end) - expiry
        #expect(late >= 0 && late < 20, "\(late) s after expires_at")
    }

    @Test("timeout_for_resource ends a suspended job and one that waits for a confirmation on time")
    func onTime() throws {
        let limit = #""timeout_for_resource":2"#
        let suspended = try ferry.submit(body(limit, more: #","suspended":true"#))
        let waiting = try ferry.submit(body(limit + #","confirm_before_begin":true"#))
        for id in [suspended, waiting] {
            let job = try ferry.json("GET", "/v1/jobs/\(id)")
            #expect(try time("expires_at", of: job) - time("created_at", of: job) == 2)
        }
        try expectEnd(of: suspended)
        try expectEnd(of: waiting)
    }

    @Test("timeout_for_resource counts from a later earliest_begin_at, given or set by PATCH")
    func beginDate() throws {
        let begin = Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600
        let id = try ferry.submit(body(#""timeout_for_resource":60,"earliest_begin_at":"\#(begin)""#))
        let given = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(try time("expires_at", of: given) - date("earliest_begin_at", of: given) == 60)
        let path = "/v1/jobs/\(id)"
        let later = try ferry.json("PATCH", path, #"{"schedule":{"earliest_begin_at":"\#(begin + 3_600)"}}"#)
        #expect(try time("expires_at", of: later) - time("expires_at", of: given) == 3_600)
        let longer = try ferry.json("PATCH", path, #"{"schedule":{"timeout_for_resource":90}}"#)
        #expect(try time("expires_at", of: longer) - time("expires_at", of: later) == 30)
        // Without a begin date the time counts from the acceptance, which is long enough ago.
        let none = try ferry.call(
            "PATCH", path, #"{"schedule":{"earliest_begin_at":null,"timeout_for_resource":1}}"#)
        #expect(none.status == 200, "\(none.text)")
        #expect(try ferry.finished(id)["state"]?.string == "failed")
    }

    @Test("a deadline_at before the begin date is 422, and a PATCH with it changes nothing")
    func deadlineBeforeBegin() throws {
        let begin = Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600
        let early = #""deadline_at":"\#(begin + -1)""#
        let refused = try ferry.call("POST", "/v1/jobs", body(#""earliest_begin_at":"\#(begin)",\#(early)"#))
        #expect(refused.status == 422 && refused.text.contains("#/schedule/deadline_at"), "\(refused.text)")
        let id = try ferry.submit(body(#""earliest_begin_at":"\#(begin)""#))
        let path = "/v1/jobs/\(id)"
        let before = try ferry.json("GET", path)
        #expect(try ferry.call("PATCH", path, #"{"schedule":{\#(early)}}"#).status == 422)
        let accepted = try ferry.call("PATCH", path, #"{"schedule":{"deadline_at":"\#(begin + 1)"}}"#)
        #expect(accepted.status == 200, "\(accepted.text)")
        let moved = try ferry.call("PATCH", path, #"{"schedule":{"earliest_begin_at":"\#(begin + 2)"}}"#)
        #expect(moved.status == 422, "\(moved.text)")
        let job = try ferry.json("GET", path)
        #expect(try date("earliest_begin_at", of: job) == date("earliest_begin_at", of: before))
        #expect(try date("deadline_at", of: job) - date("earliest_begin_at", of: job) == 1)
        #expect(try time("expires_at", of: job) == time("expires_at", of: before))
        _ = try ferry.call("POST", "\(path)/cancel")
    }
}
