import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

/// With one slot the order in which an origin is asked is that of the starts.
@Suite("Who goes first", .onOwnThread)
struct ShareTests {
    /// The paths of so many jobs, in the order in which an origin was asked for them. `submit` queues them
    /// while nothing begins; `look` sees the service when all of them were asked for.
    private func asked(
        _ count: Int, _ submit: (_ ferry: FerryProcess, _ url: String) throws -> Void,
        look: (_ ferry: FerryProcess) throws -> Void = { _ in }
    ) throws -> [String] {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_CONCURRENCY": "1"])
        defer { withExtendedLifetime(database) { ferry.remove() } }
        // All of them take the same time, most of it here.
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
        try look(ferry)
        return origin.requests.map(\.path)
    }

    /// Shares are of the time for which jobs hold the slot: one that a busy machine holds up is worth many
    /// others. So what each took is what the service has recorded, and how far two sessions may be apart
    /// follows from the longest of their jobs, as wherever somebody's turn ends with a job (Goyal, Vin and
    /// Cheng, Start-time Fair Queueing, 1996, theorem 1): twice that, for a job is charged for as long as
    /// its session's took lately, and set right when it has ended.
    @Test("a session of weight three gets three times the time of one of weight one")
    func weights() throws {
        var ids: [String] = []
        var seconds: [String: Double] = [:]
        let paths = try asked(80) { ferry, url throws in
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
        } look: { ferry in
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
        let (apart, bound) = (sum(light) - sum(heavy) / 3, 2 * (longest(light) + longest(heavy) / 3))
        #expect(abs(apart) <= bound, "\(light.count) of 40, \(apart) s apart of at most \(bound)")
    }

    @Test("who waits goes first, the usual comes next, and what nobody waits for comes last")
    func serviceTypes() throws {
        let paths = try asked(3) { ferry, url in
            for type in ["background", "default", "responsive_data"] {
                _ = try ferry.submit(
                    #"{"kind":"data","request":{"url":"\#(url)/\#(type)"},"#
                        + #""schedule":{"network_service_type":"\#(type)"}}"#)
            }
        }
        #expect(paths == ["/responsive_data", "/default", "/background"])
    }
}
