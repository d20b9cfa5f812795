import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Validation of submitted jobs", .onOwnThread)
struct AcceptanceTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    private func errors(_ body: String, at path: String = "/v1/jobs") throws -> [[String]] {
        let response = try ferry.call("POST", path, body)
        #expect(response.status == 422, "\(response.text)")
        return try response.json["errors"]?.array?.map {
            [$0["pointer"]?.string ?? "", $0["code"]?.string ?? ""]
        } ?? []
    }

    private func upload(
        _ source: String, _ more: String = "", to url: String = "http://127.0.0.1:1/"
    ) -> String {
        #"{"kind":"upload","request":{"url":"\#(url)"},"source":\#(source)\#(more)}"#
    }

    /// Submits two jobs that do not begin: one of this tenant and one of another tenant.
    private func waitingJobs() throws -> (own: String, foreign: String) {
        let otherKey = try ferry.makeKey(role: "client", tenant: "sources-other")
        let later =
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"#
            + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#
        return (try ferry.submit(later), try ferry.submit(later, key: otherKey))
    }

    @Test("a source job that is unknown or of another tenant is rejected with 422 and its pointer")
    func sources() throws {
        let (own, foreign) = try waitingJobs()
        let unknown = "job_01m7z7hp0pe0wa24awkj95v2j4"
        for job in [foreign, unknown] {
            #expect(
                try errors(upload(#"{"job":"\#(job)"}"#)) == [["#/source/job", "invalid_value"]])
            let form = upload(#"{"job":"\#(job)","form":{"fields":{"a":"b"}}}"#)
            #expect(try errors(form) == [["#/source/job", "invalid_value"]])
        }
        let parts =
            #"{"kind":"data","request":{"url":"http://127.0.0.1:1/","method":"POST","body":{"multipart":["#
            + #"{"name":"a","text":"b"},{"name":"c","job":"\#(foreign)"}]}},"#
            + #""schedule":{"depends_on":["\#(unknown)"]}}"#
        let batch = #"{"jobs":[\#(upload(#"{"job":"\#(own)"}"#)),\#(parts)]}"#
        #expect(
            try errors(batch, at: "/v1/jobs/batch") == [
                ["#/jobs/1/request/body/multipart/1/job", "invalid_value"],
                ["#/jobs/1/schedule/depends_on/0", "invalid_value"],
            ])
        #expect(try ferry.call("POST", "/v1/jobs", upload(#"{"job":"\#(own)"}"#)).status == 201)
    }

    @Test("a schedule or a retry whose source job is missing is rejected with 422")
    func repeatedSources() throws {
        let (own, foreign) = try waitingJobs()
        let schedule = { (job: String) in #"{"interval":86400,"job":\#(upload(#"{"job":"\#(job)"}"#))}"# }
        let created = try ferry.call("POST", "/v1/schedules", schedule(own))
        #expect(created.status == 201, "\(created.text)")
        let path = "/v1/schedules/\(try created.json["id"]?.string ?? "")"
        for job in [foreign, "job_01m7z7hp0pe0wa24awkj95v2j4"] {
            let refused = [["#/job/source/job", "invalid_value"]]
            #expect(try errors(schedule(job), at: "/v1/schedules") == refused)
            let replaced = try ferry.call("PUT", path, schedule(job))
            #expect(replaced.status == 422 && replaced.text.contains("#/job/source/job"), "\(replaced.text)")
        }
        #expect(try ferry.call("DELETE", path).status == 204)
        // Another host: other tests' failures of 127.0.0.1:1 would make the job wait.
        let failed = try ferry.run(upload(#"{"job":"\#(own)"}"#, to: "http://127.0.0.2:1/"))
        #expect(failed["error"]?["code"]?.string == "source_not_found", "\(failed)")
        let again = "/v1/jobs/\(failed["id"]?.string ?? "")/retry"
        #expect(try ferry.call("POST", again, "{}").status == 201)
        #expect(try ferry.call("POST", "/v1/jobs/\(own)/cancel", "{}").status == 200)
        #expect(try ferry.call("DELETE", "/v1/jobs/\(own)").status == 204)
        #expect(try errors("{}", at: again) == [["#/source/job", "invalid_value"]])
    }

    @Test("an inline source that contradicts integrity is rejected with 422; a matching one is sent")
    func inline() throws {
        let wrong = #","integrity":{"size":9,"md5":"00000000000000000000000000000000","crc32c":"00000000"}"#
        #expect(
            try errors(upload(#"{"text":"abc"}"#, wrong)) == [
                ["#/integrity/size", "invalid_combination"]
            ])
        let digests = wrong.replacing(#""size":9"#, with: #""size":3"#)
        let both = ["#/integrity/md5", "#/integrity/crc32c"].map { [$0, "invalid_combination"] }
        #expect(try errors(upload(#"{"base64":"YWJj"}"#, digests)) == both)
        let form = upload(#"{"text":"abc","form":{"fields":{"x":"yz"}}}"#, #","integrity":{"size":5}"#)
        #expect(try errors(form) == [["#/integrity/size", "invalid_combination"]])
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        let right =
            #","integrity":{"size":3,"md5":"900150983cd24fb0d6963f7d28e17f72","#
            + #""sha1":"a9993e364706816aba3e25717850c26c9cd0d89d","crc32c":"364b3fb7","adler32":"024d0127"}"#
        for source in [#"{"text":"abc"}"#, #"{"text":"abc","form":{"fields":{"x":"yz"}}}"#] {
            let body = upload(source, right).replacing("http://127.0.0.1:1", with: origin.url)
            let job = try ferry.run(body)
            #expect(job["state"]?.string == "succeeded", "\(job)")
        }
    }

    @Test("resume_data of a data job or of a POST download is rejected as an invalid combination")
    func resumeData() throws {
        let data = #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"},"resume_data":"eA=="}"#
        #expect(try errors(data) == [["#/resume_data", "invalid_combination"]])
        let post =
            #"{"kind":"download","request":{"url":"http://127.0.0.1:1/","method":"POST"},"#
            + #""resume_data":"eA=="}"#
        #expect(try errors(post) == [["#/resume_data", "invalid_combination"]])
    }

    @Test("a job shows its effective accept.status, and submitting that list again has the same effect")
    func acceptedStatus() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".utf8)
        }
        defer { origin.stop() }
        // The default of downloads is no list of classes.
        let kinds = [("data", "succeeded", "5xx"), ("download", "failed", nil)]
        for (kind, state, last) in kinds {
            let plain = #"{"kind":"\#(kind)","request":{"url":"\#(origin.url)/"},"retry":{"max_attempts":1}"#
            let first = try ferry.run(plain + "}")
            let shown = first["accept"]?["status"]?.array?.compactMap(\.string) ?? []
            #expect(shown.last == last && first["state"]?.string == state)
            let list = shown.map { "\"\($0)\"" }.joined(separator: ",")
            let second = try ferry.run(plain + #","accept":{"status":[\#(list)]}}"#)
            #expect(second["accept"] == first["accept"] && second["state"]?.string == state)
        }
    }

    @Test("a job's content has the media type with parameters that the origin sent")
    func mediaType() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let type =
                request.path == "/csv" ? "Text/CSV; charset=\"windows-1252\"; header=present" : "text/csv; =x"
            return Array("HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nContent-Length: 1\r\n\r\n".utf8) + [
                0xE9
            ]
        }
        defer { origin.stop() }
        for kind in ["data", "download"] {
            let job = try ferry.run(#"{"kind":"\#(kind)","request":{"url":"\#(origin.url)/csv"}}"#)
            #expect(job["response"]?["mime_type"]?.string == "text/csv", "\(job)")
            let content = try ferry.call("GET", "/v1/jobs/\(job["id"]?.string ?? "")/content")
            #expect(content.header("content-type") == "text/csv; charset=\"windows-1252\"; header=present")
            #expect(content.body == [0xE9])
        }
        let odd = try ferry.run(#"{"kind":"data","request":{"url":"\#(origin.url)/odd"}}"#)
        let content = try ferry.call("GET", "/v1/jobs/\(odd["id"]?.string ?? "")/content")
        #expect(content.header("content-type") == "text/csv")
    }

    @Test("traceparent and a valid tracestate of the client go to the origin and to the webhook")
    func traceContext() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let receiver = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { receiver.stop() }
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        let body =
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"webhook":{"url":"\#(receiver.url)/h"}}"#
        let states = ["vendor=a b,other=c", "vendor=" + String(repeating: "x", count: 600), "no list", nil]
        for state in states {
            var headers = ["traceparent": parent, "Prefer": "wait=60"]
            headers["tracestate"] = state
            let job = try ferry.json("POST", "/v1/jobs", body, headers: headers)
            #expect(job["state"]?.string == "succeeded", "\(job)")
        }
        let sent = origin.requests.map { ($0.header("traceparent"), $0.header("tracestate")) }
        #expect(sent.map(\.0) == Array(repeating: parent, count: 4))
        #expect(sent.map(\.1) == ["vendor=a b,other=c", nil, nil, nil])
        #expect(becomes { receiver.requests.count == 4 })
        let delivered = receiver.requests.compactMap { $0.header("tracestate") }
        #expect(delivered == ["vendor=a b,other=c"])
        let alone = try ferry.json(
            "POST", "/v1/jobs", body, headers: ["tracestate": "a=b", "Prefer": "wait=60"])
        #expect(alone["state"]?.string == "succeeded" && origin.requests.last?.header("tracestate") == nil)
    }
}
