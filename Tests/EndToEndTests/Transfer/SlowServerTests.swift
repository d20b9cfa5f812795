import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

/// Memory of thousands of responses that stall, and of uploads whose server does not read.
@Suite("Memory while servers are slow", .onOwnThread)
struct SlowServerTests {
    private static let bodyCount = 500
    private static let headCount = 600
    private static let uploadCount = 100
    /// Bytes of each body: almost all that is collected in memory before a file is created.
    private static let announced = 256 << 10
    private static let sent = 250 << 10
    /// Bytes that the origin reads of each upload, in pieces.
    private static let pieceByteCount = 64 << 10
    private static let pieceCount = 10
    /// Allowed memory of a job, its transfer, its connection and its head. The target is 24 KiB in a release
    /// build.
    private static let transferByteCount = 64 << 10
    /// Allowed memory of an upload: libcurl's buffer for a large body, and the transfer.
    private static let uploadByteCount = (512 << 10) + transferByteCount
    /// Allowed memory of collected bodies, with the allocator's overhead.
    private static let capacity = 64 << 20

    /// Returns an origin that stalls each connection at the point of its path and fires `reached`.
    private static func origin(_ reached: Signal<Void>, _ gate: Gate) throws -> ScriptedOrigin {
        let body = patternBytes(sent)
        return try ScriptedOrigin { connection in
            if !serve(connection, body) { return }
            reached.fire(())
            _ = gate.pass(seconds: 600)
        }
    }

    private static func serve(_ connection: OriginConnection, _ body: [UInt8]) -> Bool {
        guard let request = connection.readRequest() else { return false }
        switch request.path.split(separator: "/").first {
        case "known":
            return connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(announced)\r\n\r\n")
                && connection.send(body)
        case "chunked":
            let size = String(announced, radix: 16)
            return connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\(size)\r\n")
                && connection.send(body)
        case "head":
            let head =
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-Slow: " + String(repeating: "x", count: 4_000)
            return Array(head.utf8.prefix(100)).allSatisfy { connection.send([$0]) }
                && connection.send(Array(head.utf8.dropFirst(100)))
        default:
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            return (0..<pieceCount).allSatisfy { _ in
                connection.read(pieceByteCount).count == pieceByteCount
            }
        }
    }

    private static func number(_ name: String, _ ferry: FerryProcess) throws -> Int {
        let text = try ferry.call("GET", "/metrics").text
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return Int(try #require(line?.split(separator: " ").last.flatMap { Double($0) }))
    }

    /// Submits the jobs, waits until their servers stall, and returns the growth of resident memory in bytes.
    private static func grown(
        _ ferry: FerryProcess, _ reached: Signal<Void>, _ jobs: [String], received byteCount: Int = 0
    ) throws -> Int {
        let (resident, received) = (
            "process_resident_memory_bytes", #"ferry_transferred_bytes_total{direction="received"}"#
        )
        let (before, last) = (try number(resident, ferry), try number(received, ferry))
        _ = try ferry.submitBatch(#"{"jobs":["# + jobs.joined(separator: ",") + "]}")
        #expect(reached.wait(for: jobs.count, seconds: 240).count == jobs.count)
        #expect(becomes(seconds: 240) { try number(received, ferry) - last >= byteCount })
        // Collected bytes are written to disk after a second.
        _ = becomes(seconds: 5) { try number(resident, ferry) - before < jobs.count * (16 << 10) }
        return try number(resident, ferry) - before
    }

    /// Returns a request with a timeout that is long enough for a slow machine.
    private static func request(_ url: String, _ method: String = "GET") -> String {
        #""request":{"url":"\#(url)","method":"\#(method)","timeout_for_request":3600}"#
    }

    @Test("the memory of a stalled transfer is bounded")
    func bounded() throws {
        let (reached, gate) = (Signal<Void>(), Gate())
        // Separate hosts, because host control limits requests to a host that does not respond.
        let origins = try (0..<3).map { _ in try Self.origin(reached, gate) }
        let ferry = try FerryProcess(["FERRY_CONCURRENCY": "4000", "FERRY_FILE_SYNC": "none"])
        defer {
            gate.open()
            ferry.remove()
            for origin in origins { origin.stop() }
        }
        let bodies = [("download", "known"), ("download", "chunked"), ("data", "known"), ("data", "chunked")]
        for (kind, path) in bodies {
            let jobs = (1...Self.bodyCount).map {
                #"{"kind":"\#(kind)",\#(Self.request("\(origins[0].url)/\(path)/\($0)"))}"#
            }
            let grown = try Self.grown(ferry, reached, jobs, received: jobs.count * Self.sent)
            let bound = Self.capacity + jobs.count * Self.transferByteCount
            #expect(grown < bound, "\(kind), \(path): \(grown >> 20) MiB")
        }
        let heads = (1...Self.headCount).map {
            #"{"kind":"data",\#(Self.request("\(origins[1].url)/head/\($0)"))}"#
        }
        let grownByHeads = try Self.grown(ferry, reached, heads)
        #expect(grownByHeads < heads.count * Self.transferByteCount, "heads: \(grownByHeads >> 20) MiB")

        // A sparse file, which uses no disk space.
        try writeFile(ferry.files + "/large", [])
        try #require(truncate(ferry.files + "/large", 64 << 20) == 0)
        let uploads = (1...Self.uploadCount).map {
            #"{"kind":"upload",\#(Self.request("\(origins[2].url)/put/\($0)", "PUT")),"#
                + #""source":{"path":"large"}}"#
        }
        let grownByUploads = try Self.grown(ferry, reached, uploads)
        #expect(grownByUploads < uploads.count * Self.uploadByteCount, "uploads: \(grownByUploads >> 20) MiB")
        let status = try ferry.json("GET", "/v1/admin/status")
        let all = Int64(bodies.count * Self.bodyCount + Self.headCount + Self.uploadCount)
        #expect(status["jobs"]?["running"]?.integer == all, "all of them still run")
    }
}
