import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Slots of silent requests", .onOwnThread)
struct SilentTenantTests {
    private static let slotCount = 8

    /// Submits `count` jobs of the session, whose requests wait for an hour for a response.
    private func submit(
        _ count: Int, to url: String, session: String = "default", on ferry: FerryProcess, key: String
    ) throws -> [String] {
        try (0..<count).map { number in
            try ferry.submit(
                #"{"kind":"data","session":"\#(session)","#
                    + #""request":{"timeout_for_request":3600,"url":"\#(url)/f/\#(number)"}}"#, key: key)
        }
    }

    @Test("jobs of a tenant succeed while requests of another tenant to silent origins wait for an hour")
    func silentOrigins() throws {
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "\(Self.slotCount)"])
        defer { ferry.remove() }
        let silent = try ScriptedOrigin { connection in
            if connection.readRequest() != nil { _ = connection.waitUntilClosed() }
        }
        defer { silent.stop() }
        let healthy = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") else { return }
            }
        }
        defer { healthy.stop() }
        let bad = try ferry.makeKey(role: "client", tenant: "silent")
        let good = try ferry.makeKey(role: "client", tenant: "healthy")
        // Six connections of each session.
        var waiting: [String] = []
        for session in 0..<4 {
            waiting += try submit(6, to: silent.url, session: "s\(session)", on: ferry, key: bad)
        }
        #expect(becomes { silent.requests.count >= Self.slotCount }, "all slots are used")
        for id in try submit(20, to: healthy.url, on: ferry, key: good) {
            #expect(try ferry.finished(id, key: good)["state"]?.string == "succeeded")
        }
        for id in waiting {
            let job = try ferry.json("GET", "/v1/jobs/\(id)", key: bad)
            #expect(job["finished_at"]?.isNull == true, "\(job)")
        }
    }
}
