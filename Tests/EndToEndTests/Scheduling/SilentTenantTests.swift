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

    @Test("a job begins within 5 s while all slots have slow or silent requests of another tenant")
    func slowOrigins() throws {
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "\(Self.slotCount)"])
        defer { ferry.remove() }
        let gate = Gate()
        let slow = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil,
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            else { return }
            while !gate.pass(seconds: 0.5) {
                guard connection.send("x") else { return }
            }
        }
        let silent = try ScriptedOrigin { connection in
            if connection.readRequest() != nil { _ = connection.waitUntilClosed() }
        }
        let healthy = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") else { return }
            }
        }
        defer {
            gate.open()
            for origin in [slow, silent, healthy] { origin.stop() }
        }
        let bad = try ferry.makeKey(role: "client", tenant: "slow")
        let good = try ferry.makeKey(role: "client", tenant: "healthy")
        // Six connections of each session. With one byte each half second, no attempt is silent for 5 s.
        var waiting: [String] = []
        for session in 0..<2 {
            waiting += try submit(6, to: slow.url, session: "s\(session)", on: ferry, key: bad)
        }
        #expect(becomes { slow.requests.count >= Self.slotCount }, "all slots are used")
        waiting += try submit(6, to: silent.url, session: "s2", on: ferry, key: bad)
        for number in 0..<8 {
            let id = try #require(try submit(1, to: healthy.url, on: ferry, key: good).first)
            let job = try ferry.finished(id, key: good)
            let times = ["created_at", "started_at"].compactMap {
                job[$0]?.string.flatMap { Timestamp(rfc3339: $0) }
            }
            try #require(times.count == 2, "\(job)")
            // A second on an idle machine.
            #expect(times[1] - times[0] < 5, "job \(number) began after \(times[1] - times[0]) s")
        }
        for id in waiting {
            let job = try ferry.json("GET", "/v1/jobs/\(id)", key: bad)
            #expect(job["finished_at"]?.isNull == true, "\(job)")
        }
    }
}
