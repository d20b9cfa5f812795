import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Confirmation right after the acceptance", .onOwnThread)
struct ConfirmationTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("50 due jobs show their question with 201 and accept the answer at once, each with one event")
    func atOnce() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        var ids: [String] = []
        for _ in 0..<50 {
            let accepted = try ferry.call(
                "POST", "/v1/jobs",
                #"{"kind":"data","request":{"url":"\#(origin.url)/f"},"#
                    + #""schedule":{"confirm_before_begin":true}}"#)
            let job = try accepted.json
            #expect(accepted.status == 201 && job["waiting_for"]?.string == "confirmation", "\(job)")
            #expect(job["waiting_reason"]?["code"]?.string == "confirmation")
            #expect(job["question"]?["kind"]?.string == "begin")
            #expect(job["next_attempt_at"] == job["question"]?["expires_at"])
            let id = try #require(job["id"]?.string)
            let read = try ferry.json("GET", "/v1/jobs/\(id)")
            for member in ["waiting_for", "waiting_reason", "question", "next_attempt_at", "revision"] {
                #expect(read[member] == job[member], "\(member): \(read)")
            }
            let answered = try ferry.call(
                "POST", "/v1/jobs/\(id)/begin", #"{"disposition":"continue_loading"}"#)
            #expect(answered.status == 200, "\(answered)")
            ids.append(id)
        }
        for id in ids {
            #expect(try ferry.finished(id)["state"]?.string == "succeeded")
            let types = try ferry.json("GET", "/v1/jobs/\(id)/events")["data"]?.array?
                .compactMap { $0["type"]?.string }
            #expect(types?.count { $0 == "job.will_begin" } == 1, "\(types ?? [])")
        }
    }

    @Test("before earliest_begin_at the answer gets 409, and the job shows begin_date")
    func early() throws {
        let id = try ferry.submit(
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"#
                + #""schedule":{"confirm_before_begin":true,"earliest_begin_at":"2040-01-01T00:00:00Z"}}"#)
        let job = try ferry.json("GET", "/v1/jobs/\(id)")
        #expect(job["waiting_for"]?.string == "begin_date" && job["question"]?.isNull == true)
        let answered = try ferry.call(
            "POST", "/v1/jobs/\(id)/begin", #"{"disposition":"continue_loading"}"#)
        #expect(answered.status == 409, "\(answered)")
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}").status == 200)
    }
}
