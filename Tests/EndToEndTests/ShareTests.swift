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
    /// while nothing begins.
    private func asked(
        _ count: Int, _ submit: (_ ferry: FerryProcess, _ url: String) throws -> Void
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
        return origin.requests.map(\.path)
    }

    @Test("a session of weight three gets three turns for each of one of weight one")
    func weights() throws {
        // Ten of the first forty; without weights twenty.
        let expected = 6...14
        var counts: [Int] = []
        // Shares are of the time for which jobs hold the slot: one that a busy machine holds up is worth
        // many others. Without weights no measurement is right.
        for _ in 1...3 where !counts.contains(where: { expected.contains($0) }) {
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
                #expect(try ferry.submitBatch(#"{"jobs":[\#(jobs.joined(separator: ","))]}"#).count == 80)
            }
            counts.append(paths.prefix(40).filter { $0.hasPrefix("/light/") }.count)
        }
        #expect(counts.contains { expected.contains($0) }, "\(counts)")
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
