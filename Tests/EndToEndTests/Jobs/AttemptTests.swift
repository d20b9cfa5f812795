import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Attempts", .onOwnThread)
struct AttemptTests {
    private func attempts(_ ferry: FerryProcess, _ id: String, key: String = adminKey) throws -> [JSON] {
        let response = try ferry.call("GET", "/v1/jobs/\(id)/attempts", key: key)
        #expect(response.status == 200, "\(response.text)")
        return try response.json["data"]?.array ?? []
    }

    private func job(_ url: String, _ more: String = "") -> String {
        #"{"kind":"download","request":{"url":"\#(url)"}\#(more)}"#
    }

    @Test("an attempt with a redirect shows two transactions with ascending times")
    func transactions() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(1_000))
        let done = try ferry.run(job(nginx.url + "/redirect/file"))
        #expect(done["state"]?.string == "succeeded", "\(done)")
        let all = try attempts(ferry, done["id"]?.string ?? "")
        try #require(all.count == 1)
        #expect(all[0]["number"]?.integer == 1 && all[0]["outcome"]?.string == "succeeded")
        #expect(all[0]["node"] == done["node"] && all[0]["error"] == .null)
        #expect(all[0]["redirect_count"]?.integer == 1)
        let transactions = all[0]["transactions"]?.array ?? []
        #expect(transactions.map { $0["response"]?["status"]?.integer } == [302, 200])
        let urls = transactions.compactMap { $0["request"]?["url"]?.string }
        #expect(urls == [nginx.url + "/redirect/file", nginx.url + "/file"])
        #expect(transactions.map { $0["is_reused_connection"]?.bool } == [false, true])
        #expect(transactions.map { $0["network_protocol_name"]?.string } == ["http/1.1", "http/1.1"])
        #expect(transactions.last?["count_of_response_body_bytes_received"]?.integer == 1_000)
        let times = ["fetch_start_at", "connect_start_at", "connect_end_at", "request_start_at"]
            .compactMap { transactions[0][$0]?.string }
        #expect(times.count == 4 && times == times.sorted(), "\(times)")
        #expect(transactions[1]["connect_start_at"] == .null)
        let created = try #require(done["created_at"]?.string)
        let finished = try #require(done["finished_at"]?.string)
        for transaction in transactions {
            let end = try #require(transaction["response_end_at"]?.string)
            #expect(created <= end && end <= finished, "\(created) \(end) \(finished)")
        }
    }

    @Test("failed attempts stay listed after a restart and kill -9; only operators see curl diagnostics")
    func restarts() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_LOG_LEVEL": "info"])
        defer { ferry.remove() }
        let isRestarted = Gate()
        let responseCount = Counter()
        let isRunning = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            guard isRestarted.pass(seconds: 0) else {
                // 10 s are usually enough to see the failed attempt and to stop the process.
                connection.send("HTTP/1.1 503 No\r\nRetry-After: 10\r\nContent-Length: 0\r\n\r\n")
                return
            }
            switch responseCount.next() {
            case 0: return
            case 1:
                isRunning.fire(())
                _ = connection.waitUntilClosed()
            default: connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        defer { origin.stop() }
        let id = try ferry.submit(
            job(origin.url, #","retry":{"max_attempts":30,"initial_delay":0.1,"max_delay":1}"#))
        #expect(becomes { try attempts(ferry, id).first?["outcome"]?.string == "failed" })
        ferry.terminate()
        try ferry.start()
        isRestarted.open()
        #expect(isRunning.wait().count == 1)
        let running = try attempts(ferry, id).last
        #expect(running?["finished_at"] == .null && running?["outcome"] == .null)
        #expect(running?["transactions"]?.array?.first?["request_end_at"]?.string != nil)
        ferry.kill9()
        try ferry.start()
        let done = try ferry.finished(id)
        #expect(done["state"]?.string == "succeeded", "\(done)")
        let all = try attempts(ferry, id)
        let outcomes = all.compactMap { $0["outcome"]?.string }.filter { $0 != "released" }
        let failed = all.filter { $0["outcome"]?.string == "failed" }
        // The origin has sent 503 more than once if the restart took long.
        #expect(failed.count >= 2)
        #expect(outcomes == failed.map { _ in "failed" } + ["lost", "succeeded"], "\(all)")
        let codes = failed.compactMap { $0["error"]?["code"]?.string }
        #expect(Set(codes.dropLast()) == ["unacceptable_status"] && codes.last == "connection_lost")
        #expect(failed.allSatisfy { $0["transactions"]?.array?.count == 1 })
        #expect(failed.last?["diagnostics"]?["curl_code"]?.integer == 52)
        let logged = ferry.log.split(separator: "\n").filter { $0.contains("attempt failed") }
        #expect(logged.count == failed.count && logged.allSatisfy { $0.contains(id) }, "\(ferry.log)")
        #expect(logged.last?.contains("curl.code") == true)
        #expect(all.last?["number"] == done["attempt"])
        let viewer = try ferry.makeKey(role: "viewer", tenant: "default")
        #expect(try attempts(ferry, id, key: viewer).allSatisfy { $0["diagnostics"] == nil })
        let otherKey = try ferry.makeKey(role: "admin", tenant: "other")
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/attempts", key: otherKey).status == 404)
    }
}
