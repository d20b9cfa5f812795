import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

/// With one slot, the origin gets requests in the order of the starts.
@Suite("Queue order", .onOwnThread)
struct QueueOrderTests {
    /// Returns the paths of `count` requests in their order at the origin. `submit` queues the jobs while the
    /// cluster is paused; `inspect` runs after the last request.
    private func requestedPaths(
        _ count: Int, _ submit: (_ ferry: FerryProcess, _ url: String) throws -> Void,
        inspect: (_ ferry: FerryProcess) throws -> Void = { _ in }
    ) throws -> [String] {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_CONCURRENCY": "1"])
        defer { withExtendedLifetime(database) { ferry.remove() } }
        // All jobs take about the same time, most of it here.
        let origin = try ScriptedOrigin.answering { _, _ in
            usleep(30_000)
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        #expect(try ferry.call("POST", "/v1/admin/pause", "{}").status == 200)
        try submit(ferry, origin.url)
        #expect(try ferry.call("POST", "/v1/admin/resume", "{}").status == 200)
        let isOver = becomes { origin.requests.count >= count }
        #expect(isOver)
        try inspect(ferry)
        return origin.requests.map(\.path)
    }

    /// Weights divide the time in which jobs use the slot. On a busy machine one slow job may equal many
    /// others, so the test uses the recorded durations. The allowed difference between two sessions follows
    /// from the longest of their jobs (Goyal, Vin and Cheng, Start-time Fair Queueing, 1996, theorem 1). It
    /// is twice that bound: a job is charged with a recent duration of its session, and corrected when it has
    /// ended.
    @Test("a session of weight 3 gets three times the slot time of a session of weight 1")
    func weights() throws {
        var ids: [String] = []
        var seconds: [String: Double] = [:]
        let paths = try requestedPaths(80) { ferry, url throws in
            for (session, weight) in [("heavy", 3), ("light", 1)] {
                let rules = #"{"weight":\#(weight),"http_maximum_connections_per_host":null}"#
                #expect(try ferry.call("PUT", "/v1/sessions/\(session)", rules).status == 201)
            }
            let jobs = (0..<40).flatMap { number in
                ["light", "heavy"].map { session in
                    #"{"kind":"data","session":"\#(session)","#
                        + #""request":{"url":"\#(url)/\#(session)/\#(number)"}}"#
                }
            }
            ids = try ferry.submitBatch(#"{"jobs":[\#(jobs.joined(separator: ","))]}"#)
            #expect(ids.count == 80)
        } inspect: { ferry in
            for (index, id) in ids.enumerated() {
                var job = JSON.null
                #expect(
                    becomes {
                        job = try ferry.json("GET", "/v1/jobs/\(id)")
                        return job["state"]?.string == "succeeded"
                    })
                let times = ["started_at", "finished_at"].compactMap {
                    job[$0]?.string.flatMap { Timestamp(rfc3339: $0) }
                }
                try #require(times.count == 2)
                seconds[(index % 2 == 0 ? "/light/" : "/heavy/") + "\(index / 2)"] = times[1] - times[0]
            }
        }
        let light = paths.prefix(40).filter { $0.hasPrefix("/light/") }
        let heavy = paths.prefix(40).filter { $0.hasPrefix("/heavy/") }
        let sum = { (paths: [String]) in paths.reduce(0) { $0 + (seconds[$1] ?? .infinity) } }
        let longest = { (paths: [String]) in paths.compactMap { seconds[$0] }.max() ?? 0 }
        #expect(!light.isEmpty && light.count + heavy.count == 40)
        let (difference, bound) = (sum(light) - sum(heavy) / 3, 2 * (longest(light) + longest(heavy) / 3))
        #expect(abs(difference) <= bound, "\(light.count) of 40, \(difference) s apart of at most \(bound)")
    }

    @Test("responsive_data jobs start before default jobs, and these before background jobs")
    func serviceTypes() throws {
        let paths = try requestedPaths(3) { ferry, url in
            for type in ["background", "default", "responsive_data"] {
                _ = try ferry.submit(
                    #"{"kind":"data","request":{"url":"\#(url)/\#(type)"},"#
                        + #""schedule":{"network_service_type":"\#(type)"}}"#)
            }
        }
        #expect(paths == ["/responsive_data", "/default", "/background"])
    }
}
