import FerryCore
import FerryEngine
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// Targets of redirects, such as signed URLs, that have expired.
@Suite(.serialized, .onOwnThread) struct ExpiredRedirectTests {
    /// Redirects `/file` to `/signed/N`, with another number each time. Answers the target with the status,
    /// if `isExpired` says so for the number, and else with the file or the requested range.
    private static func origin(
        status: Int = 403, redirect: Int = 307, _ bytes: [UInt8] = Array("content".utf8), head: String = "",
        isExpired: @escaping @Sendable (Int) -> Bool
    ) throws -> ScriptedOrigin {
        let count = Atomic<Int>(0)
        return try ScriptedOrigin.answering { request, _ in
            guard request.path != "/file" else {
                let number = count.add(1, ordering: .relaxed).newValue
                return Array(
                    "HTTP/1.1 \(redirect) x\r\nLocation: /signed/\(number)\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            let number = Int(request.path.split(separator: "/").last ?? "") ?? 0
            guard !isExpired(number) else {
                return Array("HTTP/1.1 \(status) x\r\n\(head)Content-Length: 0\r\n\r\n".utf8)
            }
            let ends =
                request.header("range")?.dropFirst(6).split(separator: "-").compactMap { Int($0) } ?? []
            let (first, end) = (ends.first ?? 0, ends.count > 1 ? ends[1] + 1 : bytes.count)
            let range = "Content-Range: bytes \(first)-\(end - 1)/\(bytes.count)\r\n"
            let line = ends.isEmpty ? "200 OK\r\n" : "206 x\r\n\(range)"
            let fields = "ETag: \"one\"\r\nContent-Length: \(end - first)\r\n"
            return Array("HTTP/1.1 \(line)\(fields)\r\n".utf8) + bytes[first..<end]
        }
    }

    private static func run(
        _ origin: ScriptedOrigin, _ kind: JobKind = .download, _ change: (inout Draft) -> Void = { _ in }
    ) throws -> AttemptResult {
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        return try #require(
            fixture.run(kind, origin.url + "/file") {
                if kind == .download { $0.to("file") }
                change(&$0)
            })
    }

    private static func paths(_ origin: ScriptedOrigin) -> [String] { origin.requests.map(\.path) }

    @Test("an expired target of a redirect begins again at the job's own URL", arguments: [401, 403, 410])
    func beginsAgain(status: Int) throws {
        let origin = try Self.origin(status: status) { $0 == 1 }
        let result = try Self.run(origin)
        #expect(result.success?.size == 7, "\(result.outcome)")
        #expect(Self.paths(origin) == ["/file", "/signed/1", "/file", "/signed/2"])
        #expect(result.response?.url.hasSuffix("/signed/2") == true)
    }

    @Test("a second refusal in a row is the response")
    func onceInARow() throws {
        let origin = try Self.origin { _ in true }
        let result = try Self.run(origin)
        #expect(result.failure?.code == .unacceptableStatus && result.failure?.isRetryable == false)
        #expect(Self.paths(origin) == ["/file", "/signed/1", "/file", "/signed/2"])
    }

    @Test("another status, and a refusal of the job's own URL, do not begin again")
    func otherResponses() throws {
        let origin = try Self.origin(status: 404) { _ in true }
        #expect(try Self.run(origin).failure?.code == .unacceptableStatus)
        #expect(Self.paths(origin) == ["/file", "/signed/1"])
        let own = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        #expect(try Self.run(own).failure?.code == .unacceptableStatus)
        #expect(Self.paths(own) == ["/file"])
    }

    @Test("an upload begins again with its whole body; a POST only if it may be repeated")
    func bodies() throws {
        for (method, allows, requestCount) in [("PUT", false, 4), ("POST", false, 2), ("POST", true, 4)] {
            let origin = try Self.origin { $0 == 1 }
            let result = try Self.run(origin, .upload) {
                $0.spec.request.method = method
                $0.payload = Array("hello".utf8)
                $0.spec.source = .inline(.init(form: .base64, byteCount: 5))
                $0.spec.retry.repeatsNonIdempotent = allows
            }
            #expect(origin.requests.count == requestCount, "\(method) \(allows)")
            #expect((result.success?.size == 5) == (requestCount == 4), "\(result.outcome)")
            #expect(origin.requests.allSatisfy { $0.header("content-length") == "5" })
        }
    }

    @Test("a response that the job accepts, retries or asks about does not begin again")
    func otherRules() throws {
        let rules: [@Sendable (inout Draft) -> Void] = [
            { $0.spec.accept.status = [StatusPattern("403")] },
            { $0.spec.retry.statuses = [StatusPattern("403")] },
            { $0.spec.onURLExpired = .ask },
        ]
        for rule in rules {
            let origin = try Self.origin { _ in true }
            let result = try Self.run(origin) { rule(&$0) }
            #expect(Self.paths(origin) == ["/file", "/signed/1"], "\(result.outcome)")
        }
        let delayed = try Self.origin(head: "Retry-After: 7\r\n") { _ in true }
        let result = try Self.run(delayed)
        #expect(result.failure?.isRetryable == true && result.retryAfter == 7)
        #expect(delayed.requests.count == 2)
    }

    @Test("the parts of a file begin again each, and keep what they have")
    func parts() throws {
        let bytes = patternBytes(8 << 20, seed: 11)
        let used = Mutex<[Int: Int]>([:])
        // Each signed URL serves two requests.
        let origin = try Self.origin(bytes) { number in
            used.withLock { used in
                used[number, default: 0] += 1
                return used[number, default: 0] > 2
            }
        }
        let result = try Self.run(origin) { $0.spec.segmentCountMax = 4 }
        #expect(result.success?.sha256 == sha256(bytes), "\(result.outcome)")
        #expect(result.bytesReceived == Int64(bytes.count))
        #expect(Self.paths(origin).count { $0 == "/file" } > 1)
    }
}
