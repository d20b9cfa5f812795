import Curl
import FerryCore
import Glibc
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Following content", .onOwnThread)
struct FollowTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Bytes that `RangeOrigin` sends at a time.
    private static let unit = 16_384

    /// An origin whose first response pauses after `count` bytes, a multiple of `unit`, until the gate opens.
    private func origin(
        _ bytes: [UInt8], tag: String? = "\"one\"", pausingAfter count: Int, until gate: Gate,
        cutAfter: Int? = nil
    ) throws -> RangeOrigin {
        try RangeOrigin(bytes, tag: tag) { answer, _, number in
            guard number == 0 else { return }
            answer.halfway = (after: count, body: { _ = gate.pass() })
            answer.cutAfter = cutAfter
        }
    }

    private func submit(
        _ origin: RangeOrigin, kind: String = "download", _ more: String = ""
    ) throws -> String {
        try ferry.submit(#"{"kind":"\#(kind)","request":{"url":"\#(origin.url)"}\#(more)}"#)
    }

    private func isWhole(_ client: FollowClient, _ bytes: [UInt8]) -> Bool {
        client.rest() == bytes && client.trailers == "X-Ferry-State: succeeded\r\n"
    }

    @Test(
        "a follower gets what has arrived, then the rest and the trailer, however small the body is",
        arguments: ["download", "data"], [2, 180])
    func arriving(kind: String, units: Int) throws {
        let (bytes, gate) = (patternBytes(units * Self.unit + 1, seed: 3), Gate())
        let half = units / 2 * Self.unit
        let origin = try origin(bytes, pausingAfter: half, until: gate)
        defer { origin.stop() }
        let id = try submit(origin, kind: kind)
        let client = try FollowClient(ferry, id)
        #expect(client.status == 200 && client.head.contains("Trailer: X-Ferry-State"), "\(client.head)")
        #expect(client.head.contains("Transfer-Encoding: chunked"))
        #expect(client.bytes(half) == Array(bytes[..<half]))
        #expect(client.isSilent(milliseconds: 20) && client.trailers == nil)
        gate.open()
        #expect(isWhole(client, bytes))
        #expect(try ferry.finished(id)["result"]?["sha256"]?.string == hexadecimal(Digest.of(bytes)))
    }

    @Test("a follower waits for a job that has not begun, and later ones get complete content")
    func waiting() throws {
        let (bytes, gate) = (patternBytes(300_000, seed: 4), Gate())
        gate.open()
        let origin = try origin(bytes, pausingAfter: 1, until: gate)
        defer { origin.stop() }
        let id = try submit(origin, #","suspended":true"#)
        let client = try FollowClient(ferry, id)
        #expect(client.status == 200 && client.isSilent(milliseconds: 20))
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/resume", "{}").status == 200)
        #expect(isWhole(client, bytes))
        let later = try FollowClient(ferry, id)
        #expect(isWhole(later, bytes))
        #expect(try FollowClient(ferry, id, method: "HEAD").status == 200)
        #expect(try FollowClient(ferry, id, "Range: bytes=0-1\r\n").status == 400)
        #expect(try FollowClient(ferry, id, version: "1.0").status == 400)
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content?follow=maybe").status == 400)
        #expect(try ferry.call("GET", "/v1/jobs/\(id)/content?follow=false").body == bytes)
    }

    @Test(
        "a failed or cancelled job closes the connection before the end of the body",
        arguments: [true, false])
    func failing(isCancelled: Bool) throws {
        let (bytes, gate) = (patternBytes(400_000, seed: 5), Gate())
        let origin = try origin(bytes, tag: nil, pausingAfter: 98_304, until: gate, cutAfter: 200_000)
        defer { origin.stop() }
        let id = try submit(origin, #","retry":{"max_attempts":1}"#)
        let client = try FollowClient(ferry, id)
        #expect(client.bytes(98_304) == Array(bytes[..<98_304]))
        if isCancelled { _ = try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}") }
        gate.open()
        let rest = client.rest()
        #expect(client.trailers == nil && rest == Array(bytes[..<rest.count]) && rest.count <= 200_000)
        #expect(try ferry.finished(id)["state"]?.string == (isCancelled ? "cancelled" : "failed"))
        #expect(try FollowClient(ferry, id).status == 409)
    }

    @Test("a download that restarts from byte 0 closes the connection; the next request gets the new bytes")
    func restarted() throws {
        let (bytes, gate, next) = (patternBytes(400_000, seed: 6), Gate(), Gate())
        let origin = try RangeOrigin(bytes, tag: nil) { answer, _, number in
            if number == 0 {
                answer.halfway = (after: 98_304, body: { _ = gate.pass() })
                answer.cutAfter = 200_000
            } else {
                answer.halfway = (after: 98_304, body: { _ = next.pass() })
            }
        }
        defer { origin.stop() }
        let id = try submit(origin, #","retry":{"initial_delay":0.1}"#)
        let client = try FollowClient(ferry, id)
        #expect(client.bytes(98_304) == Array(bytes[..<98_304]))
        gate.open()
        let rest = client.rest()
        #expect(client.trailers == nil && rest == Array(bytes[..<rest.count]))
        let second = try FollowClient(ferry, id)
        #expect(second.bytes(98_304) == Array(bytes[..<98_304]))
        next.open()
        #expect(isWhole(second, bytes))
    }

    @Test("an attempt that keeps the bytes of the one before continues the body")
    func resumed() throws {
        let (bytes, gate) = (patternBytes(4_000_000, seed: 7), Gate())
        let origin = try origin(bytes, pausingAfter: 1_998_848, until: gate)
        defer { origin.stop() }
        let id = try submit(origin)
        let client = try FollowClient(ferry, id)
        #expect(client.bytes(1_998_848) == Array(bytes[..<1_998_848]))
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/suspend", "{}").status == 200)
        #expect(becomes { try ferry.json("GET", "/v1/jobs/\(id)")["state"] == "suspended" })
        gate.open()
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/resume", "{}").status == 200)
        #expect(isWhole(client, bytes))
        #expect(origin.requests.count == 2 && origin.requests.last?.range?.lowerBound ?? 0 > 1_000_000)
    }

    @Test("a client that does not read delays no transfer, and gets everything later")
    func slowReader() throws {
        let (bytes, gate) = (patternBytes(32 << 20, seed: 8), Gate())
        let origin = try origin(bytes, pausingAfter: 1 << 20, until: gate)
        defer { origin.stop() }
        let id = try submit(origin)
        let client = try FollowClient(ferry, id, receiveBuffer: 65_536)
        #expect(client.bytes(1 << 20).count == 1 << 20)
        gate.open()
        #expect(try ferry.finished(id)["state"] == "succeeded")
        #expect(client.trailers == nil)
        #expect(isWhole(client, bytes))
    }

    @Test("of a download in segments, a follower gets the bytes before the first gap")
    func segments() throws {
        let (bytes, gate) = (patternBytes(8 << 20, seed: 9), Gate())
        let origin = try RangeOrigin(bytes) { answer, asked, _ in
            guard asked.range?.lowerBound == 0 else { return }
            answer.halfway = (after: 294_912, body: { _ = gate.pass() })
        }
        defer { origin.stop() }
        let id = try submit(origin, #","segments":4"#)
        let client = try FollowClient(ferry, id)
        #expect(client.bytes(200_000) == Array(bytes[..<200_000]))
        // The other segments have more bytes by now, behind the gap.
        let isFarther = becomes {
            try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer ?? 0 > 4 << 20
        }
        #expect(isFarther)
        gate.open()
        #expect(isWhole(client, bytes))
    }

    @Test("many clients follow a job, and those that leave disturb no other")
    func many() throws {
        let (bytes, gate) = (patternBytes(600_000, seed: 10), Gate())
        let origin = try origin(bytes, pausingAfter: 294_912, until: gate)
        defer { origin.stop() }
        let id = try submit(origin)
        var clients = try (0..<20).map { _ in try FollowClient(ferry, id) }
        for client in clients { #expect(client.bytes(294_912).count == 294_912) }
        clients.removeFirst(10)
        gate.open()
        for client in clients { #expect(isWhole(client, bytes)) }
    }

    @Test("when the node stops, its followers' connections close before the end of the body")
    func stopping() throws {
        let own = try FerryProcess()
        defer { own.remove() }
        let (bytes, gate) = (patternBytes(400_000, seed: 11), Gate())
        let origin = try origin(bytes, pausingAfter: 196_608, until: gate)
        defer { origin.stop() }
        let id = try own.submit(#"{"kind":"download","request":{"url":"\#(origin.url)"}}"#)
        let client = try FollowClient(own, id)
        #expect(client.bytes(196_608).count == 196_608)
        own.send(SIGTERM)
        #expect(client.rest().count < bytes.count && client.trailers == nil)
        gate.open()
        #expect(own.wait() == 0)
    }

    @Test("ferry get --follow writes the bytes to standard output while they arrive")
    func command() throws {
        let bytes = patternBytes(500_000, seed: 12).map { 65 + $0 % 26 }
        let (whole, cut) = (
            try RangeOrigin(bytes),
            try RangeOrigin(bytes, tag: nil) { answer, _, _ in
                answer.cutAfter = 98_304
            }
        )
        defer {
            whole.stop()
            cut.stop()
        }
        let run = { (url: String) in
            try Program.run(
                [Program.ferry, "get", url, "--follow", "-o", "-", "--attempts", "1"],
                environment: ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey])
        }
        let good = try run(whole.url)
        #expect(good.status == 0 && Array(good.output.utf8) == bytes)
        let bad = try run(cut.url)
        #expect(bad.status == 1 && bad.output.utf8.count <= 98_304)
    }
}
