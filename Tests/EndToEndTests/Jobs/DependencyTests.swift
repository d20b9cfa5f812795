import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Job dependencies", .onOwnThread)
struct DependencyTests {
    private func data(_ url: String, after jobs: [String] = [], _ more: String = "") -> String {
        let list = jobs.map { #""\#($0)""# }.joined(separator: ",")
        return #"{"kind":"data","request":{"url":"\#(url)"},"schedule":{"depends_on":[\#(list)]\#(more)}}"#
    }

    @Test("jobs of a batch run in the order of their dependencies; a failed dependency fails the job")
    func batch() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let jobs = [
            data("\(origin.url)/f/1"), data("\(origin.url)/f/2", after: ["#/jobs/0"]),
            #"{"kind":"download","request":{"url":"http://127.0.0.1:1/"},"retry":{"max_attempts":1},"#
                + ##""schedule":{"depends_on":["#/jobs/1"],"waits_for_connectivity":false}}"##,
            data("\(origin.url)/f/4", after: ["#/jobs/2"]),
            data(
                "\(origin.url)/f/5", after: ["#/jobs/2", "#/jobs/0"], #","on_dependency_failure":"ignore""#),
        ]
        let ids = try ferry.submitBatch(#"{"jobs":[\#(jobs.joined(separator: ","))]}"#)
        #expect(origin.stopped.wait(for: 1) == [1])
        let waiting = try ferry.json("GET", "/v1/jobs/\(ids[4])")
        #expect(waiting["state"]?.string == "waiting" && waiting["waiting_for"]?.string == "dependency")
        #expect(waiting["waiting_reason"]?["code"]?.string == "dependency")
        #expect(
            Set(waiting["waiting_reason"]?["jobs"]?.array?.compactMap(\.string) ?? []) == [ids[0], ids[2]])
        #expect(waiting["schedule"]?["depends_on"]?.array?.compactMap(\.string) == [ids[2], ids[0]])
        origin.open()
        let ends = try ids.map { try ferry.finished($0) }
        let states = ends.map { $0["state"]?.string }
        #expect(states == ["succeeded", "succeeded", "failed", "failed", "succeeded"], "\(ends)")
        #expect(ends[3]["error"]?["code"]?.string == "dependency_failed")
        #expect(ends[3]["error"]?["message"]?.string?.contains(ids[2]) == true)
        #expect(ends[3]["started_at"]?.isNull == true && origin.requestCount == 3)
        let again = try ferry.json("POST", "/v1/jobs/\(ids[3])/retry", "{}", headers: ["Prefer": "wait=60"])
        #expect(again["state"]?.string == "succeeded", "\(again)")
    }

    @Test("an unknown dependency is rejected with 422 and its pointer")
    func missing() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let otherKey = try ferry.makeKey(role: "client", tenant: "dependencies-other")
        let other = try ferry.submit(data("http://127.0.0.1:1/"), key: otherKey)
        let first = try ferry.call("POST", "/v1/jobs", data("http://127.0.0.1:1/", after: [other]))
        #expect(first.status == 422)
        #expect(try first.json["errors"]?.array?.first?["pointer"]?.string == "#/schedule/depends_on/0")
        let jobs = [data("http://127.0.0.1:1/"), data("http://127.0.0.1:1/", after: ["#/jobs/0", other])]
        let batch = try ferry.call("POST", "/v1/jobs/batch", #"{"jobs":[\#(jobs.joined(separator: ","))]}"#)
        #expect(
            try batch.json["errors"]?.array?.map { $0["pointer"]?.string }
                == ["#/jobs/1/schedule/depends_on/1"])
        let late = try ferry.call(
            "POST", "/v1/jobs/batch", #"{"jobs":[\#(data("http://127.0.0.1:1/", after: ["#/jobs/0"]))]}"#)
        #expect(late.status == 422)
    }

    @Test("an idempotency key replays the first response after the named jobs were deleted")
    func replay() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let origin = try HalfwayOrigin(free: 100)
        defer { origin.stop() }
        let first = try ferry.submit(data("\(origin.url)/f/1"))
        _ = try ferry.finished(first)
        let after = data("\(origin.url)/f/2", after: [first])
        let sending =
            ##"{"kind":"upload","request":{"url":"\##(origin.url)/f/3","method":"PUT"},"##
            + ##""source":{"job":"\##(first)"}}"##
        let send = { (path: String, body: String, key: String) in
            try ferry.call("POST", path, body, headers: ["Idempotency-Key": key])
        }
        let requests = [
            ("/v1/jobs", after), ("/v1/jobs", sending),
            ("/v1/jobs/batch", #"{"jobs":[\#(sending),\#(after)]}"#),
        ]
        let responses = try requests.enumerated().map { try send($1.0, $1.1, "named-\($0)") }
        #expect(responses.map(\.status) == [201, 201, 201])
        for job in try responses.flatMap({ try ids(in: $0.json) }) { _ = try ferry.finished(job) }
        #expect(try ferry.call("DELETE", "/v1/jobs/\(first)").status == 204)
        for (number, (path, body)) in requests.enumerated() {
            let again = try send(path, body, "named-\(number)")
            #expect(again.status == 201 && again.header("idempotency-replayed") == "true", "\(again.text)")
            #expect(try ids(in: again.json) == ids(in: responses[number].json))
            let late = try send(path, body, "late-\(number)")
            #expect(try late.status == 422 && late.json["code"]?.string == "invalid_fields", "\(late.text)")
            let changed = body.replacing(#""kind":"#, with: #""description":"changed","kind":"#)
            let other = try send(path, changed, "named-\(number)")
            #expect(try other.json["code"]?.string == "idempotency_key_reused")
        }
        #expect(origin.requestCount == 5)
    }

    private func ids(in response: JSON) -> [String] {
        (response["data"]?.array ?? [response]).compactMap { $0["id"]?.string }
    }

    @Test("after kill -9, every job of a dependency chain ends in the state that its dependencies allow")
    func crash() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_CONCURRENCY": "8"])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 25)
        defer { origin.stop() }
        // Chains of five jobs. In every third chain, the third job fails by its status.
        var jobs: [String] = []
        for chain in 0..<20 {
            for link in 0..<5 {
                let after = link == 0 ? [] : ["#/jobs/\(jobs.count - 1)"]
                let status = chain % 3 == 0 && link == 2 ? "500" : "200"
                let list = after.map { #""\#($0)""# }.joined(separator: ",")
                jobs.append(
                    #"{"kind":"data","request":{"url":"\#(origin.url)/f/\#(jobs.count)"},"#
                        + #""accept":{"status":["\#(status)"]},"schedule":{"depends_on":[\#(list)]}}"#)
            }
        }
        let ids = try ferry.submitBatch(#"{"jobs":[\#(jobs.joined(separator: ","))]}"#)
        #expect(origin.stopped.wait(for: 4).count >= 4)
        ferry.kill9()
        origin.open()
        try ferry.start()
        for (number, id) in ids.enumerated() {
            let job = try ferry.finished(id)
            let hasFailed = number / 5 % 3 == 0 && number % 5 >= 2
            #expect(job["state"]?.string == (hasFailed ? "failed" : "succeeded"), "\(number): \(job)")
        }
        #expect(try ferry.unfinishedCount() == 0)
    }
}
