import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Retention", .onOwnThread)
struct RetentionTests {
    @Test("finished jobs and their managed files are removed after their retention; unfinished ones stay")
    func retention() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_RETENTION": "2"])
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(1_000))
        // With an acknowledgement, the job stays until the test has read it, however slow the test is.
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"acknowledgement":{}}"#)
        let id = try #require(job["id"]?.string)
        #expect(job["state"]?.string == "succeeded")
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content").body == patternBytes(1_000))
        #expect(managedFileCount(below: ferry.directory + "/results") == 1)
        // A job without acknowledgement.
        let plain = try ferry.submit(#"{"kind":"download","request":{"url":"\#(nginx.url)/file"}}"#)
        #expect(becomes(seconds: 60) { try ferry.call("GET", "/v1/jobs/\(plain)").status == 404 })
        #expect(try ferry.call("GET", "/v1/jobs/\(id)").status == 200)
        let waiting = try ferry.submit(
            #"{"kind":"data","request":{"url":"\#(nginx.url)/file"},"#
                + #""schedule":{"earliest_begin_at":"2100-01-01T00:00:00Z"}}"#)
        let destination = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"acknowledgement":{},"#
                + #""destination":{"path":"mine"}}"#)
        #expect(destination["state"]?.string == "succeeded")
        for done in [id, destination["id"]?.string ?? ""] {
            #expect(try ferry.call("POST", "/v1/jobs/\(done)/acknowledge").status == 200)
            #expect(becomes(seconds: 60) { try ferry.call("GET", "/v1/jobs/\(done)").status == 404 })
        }
        let results = ferry.directory + "/results"
        #expect(becomes(seconds: 60) { managedFileCount(below: results) == 0 })
        #expect(try ferry.json("GET", "/v1/jobs/\(waiting)")["state"]?.string == "waiting")
        #expect(readFile(ferry.files + "/mine") == patternBytes(1_000), "a client's own file stays")
        let metrics = try ferry.call("GET", "/metrics").text
        #expect(metrics.contains("\nferry_finished_jobs_removed_total "))
        let session = try ferry.call("PUT", "/v1/sessions/s", #"{"retention":3}"#)
        #expect(session.status == 422, "a session's retention may not exceed the service's")
        #expect(try ferry.call("PUT", "/v1/sessions/s", #"{"retention":2}"#).status == 201)
    }

    @Test("events of a removed job still reach a receiver that was down, before session.events_finished")
    func deliveredAfterRetention() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_RETENTION": "1"])
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(1_000))
        let isUp = Gate()
        let receiver = try WebhookReceiver { _ in isUp.pass(seconds: 0) ? 204 : 503 }
        defer { receiver.stop() }
        let endpoint = try ferry.call(
            "POST", "/v1/webhooks",
            #"{"url":"\#(receiver.url)/","events":["job.succeeded","session.events_finished"],"#
                + #""retry":{"delays":[1,1,2,4,8,8,8,8,8,8,8]}}"#)
        #expect(endpoint.status == 201)
        let job = try ferry.run(
            #"{"kind":"data","session":"told","request":{"url":"\#(nginx.url)/file"}}"#)
        let id = try #require(job["id"]?.string)
        #expect(becomes(seconds: 60) { try ferry.call("GET", "/v1/jobs/\(id)").status == 404 })
        let refused = receiver.deliveries.wait()
        isUp.open()
        var delivered: [WebhookReceiver.Delivery] = []
        while delivered.last?.json["type"]?.string != "session.events_finished" {
            let more = receiver.deliveries.wait(seconds: 60)
            try #require(!more.isEmpty)
            delivered += more
        }
        // session.events_finished waits while the receiver refuses job.succeeded.
        #expect((refused + delivered.dropLast()).allSatisfy { $0.json["type"]?.string == "job.succeeded" })
        #expect(delivered.count >= 2 && delivered.first?.job?["id"]?.string == id)
    }

    private func managedFileCount(below directory: String) -> Int {
        names(in: directory).reduce(0) { $0 + names(in: "\(directory)/\($1)").count }
    }
}
