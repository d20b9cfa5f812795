import Curl
import FerryCore
import Sys
import TestSupport
import Testing

@Suite("Limits of bytes a second", .onOwnThread)
struct RateTests {
    @Test("a running job's rate and description are changed at once, and its end tells of them")
    func job() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(2_000_000))
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"paced"},"#
                + #""network":{"max_bytes_per_second":20000}}"#)
        #expect(
            becomes {
                try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer ?? 0 > 10_000
            })
        let before = try ferry.call("GET", "/v1/jobs/\(id)")
        #expect(try before.json["state"]?.string == "running")
        let tag = before.header("etag") ?? ""
        let patch = { (body: String) in
            try ferry.call("PATCH", "/v1/jobs/\(id)", body, headers: ["If-Match": tag])
        }
        let refused = try patch(#"{"retry":{"max_attempts":3}}"#)
        #expect(refused.status == 409, "\(refused.text)")
        let changed = try patch(#"{"description":"faster","metadata":{"a":"b"}}"#)
        #expect(changed.status == 200, "\(changed.text)")
        #expect(try patch(#"{"description":"late"}"#).status == 412)
        let hurried = try ferry.call(
            "PATCH", "/v1/jobs/\(id)",
            #"{"network":{"max_bytes_per_second":50000000},"schedule":{"priority":0.75}}"#)
        #expect(hurried.status == 200, "\(hurried.text)")
        let job = try ferry.finished(id)
        #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 1, "\(job)")
        #expect(job["description"]?.string == "faster" && job["schedule"]?["priority"]?.double == 0.75)
        #expect(try ferry.call("PATCH", "/v1/jobs/\(id)", "{}").status == 409)
    }

    @Test("the service's limits are configured, changed while transfers run, and survive a restart")
    func service() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(3_000_000))
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_DATABASE_URL": database.url, "FERRY_MAX_BYTES_PER_SECOND": "50000",
        ])
        defer { ferry.remove() }
        #expect(
            try ferry.json("GET", "/v1/admin/limits")["max_bytes_received_per_second"]?.integer == 50_000)
        let ids = try (0..<2).map { index in
            try ferry.submit(
                #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"#
                    + #""destination":{"path":"\#(index)"}}"#
            )
        }
        let received = { (id: String) in
            try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer ?? 0
        }
        #expect(becomes { try ids.allSatisfy { try received($0) > 30_000 } })
        for id in ids { #expect(try received(id) < 1_000_000) }
        let changed = try ferry.call(
            "PATCH", "/v1/admin/limits",
            #"{"max_bytes_received_per_second":20000000,"max_bytes_per_second_per_host":null}"#,
            headers: ["Content-Type": "application/merge-patch+json"])
        #expect(changed.status == 200, "\(changed.text)")
        #expect(try changed.json["max_bytes_sent_per_second"]?.integer == 50_000)
        for id in ids { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
        ferry.terminate()
        try ferry.start()
        #expect(
            try ferry.json("GET", "/v1/admin/limits")["max_bytes_received_per_second"]?.integer == 20_000_000)
    }
}
