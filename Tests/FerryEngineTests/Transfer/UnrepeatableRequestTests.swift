import FerryCore
import FerryEngine
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// Requests that must not be sent twice: how they are noted before, and what makes them repeatable.
@Suite(.serialized, .onOwnThread) struct UnrepeatableRequestTests {
    /// Replies as told, and keeps the attempts and how many requests the origin had by then.
    private final class Marker: RequestMarker {
        let marked = Mutex<[(job: JobID, requestCount: Int)]>([])
        let isHeld: Bool
        let origin: ScriptedOrigin

        init(_ origin: ScriptedOrigin, isHeld: Bool = true) {
            self.origin = origin
            self.isHeld = isHeld
        }

        func mark(_ attempt: Attempt, reply: @escaping @Sendable (Bool) -> Void) {
            marked.withLock { $0.append((attempt.job, origin.requests.count)) }
            reply(isHeld)
        }

        func note(_ upload: ResumableUpload?, of attempt: Attempt) {}
    }

    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, _ in
            if request.path == "/begin" {
                return Array("HTTP/1.1 307 x\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
    }

    private static func post(_ draft: inout Draft) {
        draft.spec.request.method = "POST"
        draft.payload = Array("x".utf8)
    }

    @Test("a POST is noted once, before its first request; a request that may be repeated is not")
    func marked() throws {
        let rules: [(isMarked: Bool, change: @Sendable (inout Draft) -> Void)] = [
            (true, { Self.post(&$0) }), (false, { _ in }),
            (
                false,
                {
                    Self.post(&$0); $0.spec.retry.repeatsNonIdempotent = true
                }
            ),
            (
                false,
                {
                    Self.post(&$0); $0.spec.request.idempotencyKey = "job"
                }
            ),
        ]
        for rule in rules {
            let origin = try Self.origin()
            let marker = Marker(origin)
            let fixture = try Fixture { $0.marker = marker }
            defer {
                fixture.stop()
                origin.stop()
            }
            let result = try #require(fixture.run(.data, origin.url + "/begin", rule.change))
            #expect(result.success != nil && origin.requests.count == 2)
            let marked = marker.marked.withLock { $0 }
            #expect(marked.map(\.job) == (rule.isMarked ? [result.attempt.job] : []))
            #expect(marked.allSatisfy { $0.requestCount == 0 })
        }
    }

    @Test("an attempt without its lease sends nothing, and is released")
    func lostLease() throws {
        let origin = try Self.origin()
        let marker = Marker(origin, isHeld: false)
        let fixture = try Fixture { $0.marker = marker }
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = try #require(fixture.run(.data, origin.url + "/begin") { Self.post(&$0) })
        #expect(result.isReleased && origin.requests.isEmpty)
    }

    @Test("all requests of a job have its key, also at another origin, and may be repeated")
    func idempotencyKey() throws {
        let other = try ScriptedOrigin { connection in
            // Takes the request and closes the connection without a response.
            while let request = connection.readRequest() {
                _ = connection.readBody(of: request)
                return
            }
        }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 307 x\r\nLocation: \(other.url)/\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
            other.stop()
        }
        for (key, isRetryable) in [("job", true), ("order-7", true), (nil, false)] as [(String?, Bool)] {
            let (before, beforeThere) = (origin.requests.count, other.requests.count)
            let result = try #require(
                fixture.run(.data, origin.url) {
                    Self.post(&$0)
                    $0.spec.request.idempotencyKey = key
                })
            #expect(result.failure?.isRetryable == isRetryable, "\(result.outcome)")
            let sent = origin.requests.dropFirst(before) + other.requests.dropFirst(beforeThere)
            let expected = key == "job" ? result.attempt.job.description : key
            #expect(sent.count >= 2 && sent.allSatisfy { $0.header("idempotency-key") == expected })
        }
        let (first, second) = (fixture.ids.make() as JobID, fixture.ids.make() as JobID)
        for (job, number) in [(first, 1), (first, 2), (second, 1)] as [(JobID, Int32)] {
            _ = fixture.run(.data, origin.url, job: job, number: number) {
                Self.post(&$0)
                $0.spec.request.idempotencyKey = "job"
            }
        }
        let keys = origin.requests.suffix(3).map { $0.header("idempotency-key") }
        #expect(keys == [first.description, first.description, second.description])
    }
}
