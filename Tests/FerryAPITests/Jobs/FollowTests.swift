import FerryCore
import Glibc
import HTTPServer
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("GET /v1/jobs/{id}/content?follow=true")
struct FollowTests {
    private let fixture = Fixture()

    /// A follower that reads when it is woken.
    private final class Reader {
        let response: ReceivedResponse
        private let stream: any ResponseStream
        private let woken = Mailbox<Bool>()
        private(set) var bytes: [UInt8] = []

        init(_ response: ReceivedResponse) throws {
            guard case .stream(let stream, nil) = response.message.body else {
                throw Problem(.notFound, "no stream")
            }
            self.response = response
            self.stream = stream
            stream.attach(StreamWaker { [woken] in woken.send(true) })
        }
        deinit { stream.cancelled() }

        /// Reads until `count` bytes are there, or the stream has ended or failed. Returns the last step.
        func read(upTo count: Int = .max) -> StreamStep {
            var buffer = [UInt8](repeating: 0, count: 3)
            while true {
                let step = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
                switch step {
                case .bytes(let count): bytes += buffer[..<count]
                case .wait where bytes.count < count:
                    if woken.wait(milliseconds: 60_000).isEmpty { return .wait }
                case .wait, .end, .fail: return step
                }
            }
        }
    }

    private func open(_ id: JobID, key: String = Fixture.adminKey) throws -> Reader {
        try Reader(try fixture.send("GET", "/v1/jobs/\(id)/content?follow=true", key: key))
    }

    private func finish(_ id: JobID, body: [UInt8]) {
        let result = TransferResult(
            size: Int64(body.count), sha256: String(repeating: "0a", count: 32), body: body, verified: .length
        )
        fixture.store.finish(id, .succeeded) {
            $0.storedResult = Stored(result)
            $0.body = body
        }
        fixture.waiters.finished([id])
    }

    @Test("bytes are sent as they arrive, and the body of a data job at its end completes them")
    func arriving() throws {
        let id = try fixture.submit()
        let reader = try open(id)
        #expect(reader.response.status == 200 && reader.response.header("Cache-Control") == "no-store")
        #expect(reader.response.message.trailers.pairs.map(\.value) == ["succeeded"])
        fixture.arrivals.set(MemoryContent(file: 5, Array("01234".utf8)), of: id)
        #expect(reader.read(upTo: 5) == .wait && reader.bytes == Array("01234".utf8))
        // The next attempt keeps the file.
        fixture.arrivals.set(MemoryContent(file: 5, Array("0123456".utf8)), of: id)
        #expect(reader.read(upTo: 7) == .wait)
        finish(id, body: Array("0123456789".utf8))
        #expect(reader.read() == .end && reader.bytes == Array("0123456789".utf8))
        #expect(fixture.arrivals.followedCount == 0)
    }

    @Test("another file after bytes were sent, or a result with other bytes, fails the stream")
    func other() throws {
        let (id, second) = (try fixture.submit(), try fixture.submit())
        let readers = [try open(id), try open(second)]
        for (id, reader) in zip([id, second], readers) {
            fixture.arrivals.set(MemoryContent(file: 5, Array("01234".utf8)), of: id)
            #expect(reader.read(upTo: 5) == .wait)
        }
        fixture.arrivals.set(MemoryContent(file: 6, Array("abc".utf8)), of: id)
        #expect(readers[0].read() == .fail && readers[0].bytes.count == 5)
        finish(second, body: Array("0123x".utf8))
        #expect(readers[1].read() == .fail)
    }

    @Test(
        "a failed, cancelled or deleted job fails its streams",
        arguments: [JobState.failed, .cancelled, nil])
    func failing(state: JobState?) throws {
        let id = try fixture.submit()
        let reader = try open(id)
        if let state {
            fixture.store.finish(id, state)
        } else {
            fixture.store.state.withLock { $0.jobs[id] = nil }
        }
        fixture.waiters.finished([id])
        #expect(reader.read() == .fail && reader.bytes.isEmpty)
        #expect(fixture.arrivals.followedCount == 0)
        if let state {
            let refused = try fixture.send("GET", "/v1/jobs/\(id)/content?follow=true")
            #expect(refused.status == 409 && refused.json["code"] == "invalid_state", "\(state)")
        }
    }

    @Test("a succeeded job's content is sent whole, with its media type")
    func complete() throws {
        let id = try fixture.submit()
        finish(id, body: Array("0123456789".utf8))
        let reader = try open(id)
        #expect(reader.read() == .end && reader.bytes == Array("0123456789".utf8))
        let plain = try fixture.send("GET", "/v1/jobs/\(id)/content?follow=false")
        #expect(plain.body == Array("0123456789".utf8))
    }

    @Test("ranges and wrong values are rejected; a viewer may follow, another tenant may not")
    func refusals() throws {
        let id = try fixture.submit()
        let path = "/v1/jobs/\(id)/content?follow=true"
        for field in ["Range", "If-Range", "If-Match"] {
            let response = try fixture.send("GET", path, [(field, "bytes=0-1")])
            #expect(response.status == 400 && response.json["code"] == "invalid_parameter")
        }
        #expect(try fixture.send("GET", "/v1/jobs/\(id)/content?follow=1").status == 400)
        #expect(try fixture.send("GET", path, key: fixture.viewerKey).status == 200)
        #expect(try fixture.send("GET", path, key: fixture.strangerKey).status == 404)
    }

    @Test("a tenant with as many followers as it can have leaves as many to another one")
    func shares() throws {
        let id = try fixture.submit(#","suspended":true"#)
        var readers = try (0..<Limits.contentFollowerCountMax / 2).map { _ in try open(id) }
        let refused = try fixture.send(
            "GET", "/v1/jobs/\(id)/content?follow=true", key: fixture.viewerKey)
        #expect(refused.status == 429 && refused.code == "too_many_streams")
        #expect(refused.header("Retry-After") == "5" && refused.header("RateLimit") != nil)
        let created = try fixture.send("POST", "/v1/jobs", small(), key: fixture.strangerKey)
        let other = try #require(created.json["id"]?.string.flatMap { JobID($0) })
        let reader = try open(other, key: fixture.strangerKey)
        fixture.arrivals.set(MemoryContent(file: 5, [1, 2, 3]), of: other)
        #expect(reader.read(upTo: 3) == .wait && reader.bytes == [1, 2, 3])
        // The follower of the other tenant makes the share of this one smaller by one.
        readers.removeLast(2)
        readers.append(try open(id))
        #expect(fixture.api.followerCount == readers.count + 1)
    }

    @Test("after the end of streams, followers are refused")
    func stopping() throws {
        let id = try fixture.submit()
        let reader = try open(id)
        fixture.api.endStreams()
        #expect(reader.read() == .fail)
        let refused = try fixture.send("GET", "/v1/jobs/\(id)/content?follow=true")
        #expect(refused.status == 503 && refused.code == "shutting_down")
        #expect(refused.header("Retry-After") == "1")
    }

    @Test("a follower ends after the documented time without bytes, which begins again with each byte")
    func idle() throws {
        let (waiting, arriving) = (try fixture.submit(#","suspended":true"#), try fixture.submit())
        let (first, second) = (try open(waiting), try open(arriving))
        var bytes: [UInt8] = []
        // The waits are looked at every 0.5 s.
        for _ in 0..<1_200 where first.read(upTo: 0) == .wait {
            fixture.uptime.advance(Limits.contentFollowerWaitSecondsMax * 0.6)
            bytes.append(7)
            fixture.arrivals.set(MemoryContent(file: 5, bytes), of: arriving)
            #expect(second.read(upTo: bytes.count) == .wait)
            _ = poll(nil, 0, 100)
        }
        #expect(first.read() == .fail && first.bytes.isEmpty)
        #expect(second.bytes == bytes)
    }
}
