import FerryCore
import HTTPServer
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("Event streams")
struct EventStreamTests {
    private let fixture = Fixture()

    /// A stream with the bytes that it sends until it waits.
    private final class Reader {
        let stream: any ResponseStream
        let woken = Mailbox<Bool>()
        private(set) var last = StreamStep.wait

        init(_ response: ReceivedResponse) throws {
            guard case .stream(let stream, _) = response.message.body else {
                throw Problem(.notFound, "no stream")
            }
            self.stream = stream
            let woken = woken
            stream.attach(StreamWaker { woken.send(true) })
        }

        func text(pieceMax: Int = 100) -> String {
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: pieceMax)
            while true {
                last = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
                guard case .bytes(let count) = last else { return String(decoding: bytes, as: UTF8.self) }
                bytes.append(contentsOf: buffer[..<count])
            }
        }
    }

    private func open(_ path: String, after: String? = nil) throws -> Reader {
        var headers = [(name: "Accept", value: "text/event-stream")]
        if let after { headers.append((name: "Last-Event-ID", value: after)) }
        let response = try fixture.send("GET", path, nil, headers)
        #expect(response.status == 200 && response.header("Content-Type") == "text/event-stream")
        return try Reader(response)
    }

    private func types(_ text: String) -> [String] {
        text.split(separator: "\n").filter { $0.hasPrefix("event: ") }.map { String($0.dropFirst(7)) }
    }

    @Test("a stream sends the events of its tenant, session and types, in pieces of any size")
    func live() throws {
        let job = try fixture.submit()
        let reader = try open("/v1/events?session=a&type=job.created,job.succeeded")
        #expect(reader.text().hasPrefix("id: evt_"))
        fixture.store.addEvent(.jobCreated, job, session: "a")
        fixture.store.addEvent(.jobCreated, job, session: "b")
        fixture.store.addEvent(.jobStarted, job, session: "a")
        fixture.store.addEvent(.jobCreated, job, tenant: "other", session: "a")
        fixture.store.addEvent(.jobSucceeded, job, session: "a")
        #expect(reader.woken.wait(milliseconds: 120_000).isEmpty == false)
        let text = reader.text(pieceMax: 7)
        #expect(types(text) == ["job.created", "job.succeeded"] && reader.last == .wait)
        let data = try #require(text.split(separator: "\n").first { $0.hasPrefix("data: ") })
        let shown = try JSON.parse(Array(data.utf8.dropFirst(6)))
        #expect(shown["data"]?["job"]?["id"]?.string == "\(job)" && shown["type"]?.string == "job.created")
        reader.stream.cancelled()
        #expect(fixture.api.listenerCount == 0 && fixture.store.state.withLock { $0.sink == nil })
    }

    @Test("a resumed stream sends the missed events page by page, then new ones, each once")
    func resume() throws {
        let job = try fixture.submit()
        for _ in 0..<250 { fixture.store.addEvent(.jobStarted, job) }
        let reader = try open("/v1/events", after: "\(EventID(high: 1, low: 3))")
        fixture.store.addEvent(.jobSucceeded, job)
        let ids = reader.text(pieceMax: 1_000).split(separator: "\n").filter { $0.hasPrefix("id: ") }
        #expect(
            ids.map { String($0.dropFirst(4)) } == (UInt64(4)...251).map { "\(EventID(high: 1, low: $0))" })
        fixture.store.addEvent(.jobSucceeded, job)
        #expect(types(reader.text()) == ["job.succeeded"])
        let late = try open("/v1/events", after: "\(EventID(high: 9, low: 9))")
        #expect(types(late.text()) == ["snapshot"])
        let junk = try fixture.send(
            "GET", "/v1/events", [("Accept", "text/event-stream"), ("Last-Event-ID", "7")])
        #expect(junk.status == 400 && junk.code == "invalid_header")
        reader.stream.cancelled()
        late.stream.cancelled()
    }

    @Test(
        "a resumed stream holds one page of missed events in memory, for a tenant and for one job",
        arguments: [("", 0), ("", 100_000), ("of one job", 0), ("of one job", 100_000)])
    func pages(subject: String, byteCount: Int) throws {
        let pairs = (0..<byteCount / 2_000).map { #""\#($0)":"\#(String(repeating: "x", count: 2_000))""# }
        let job = try fixture.submit(#","metadata":{\#(pairs.joined(separator: ","))}"#)
        for _ in 0..<250 { fixture.store.addEvent(.jobStarted, job) }
        let path = subject.isEmpty ? "/v1/events" : "/v1/jobs/\(job)/events"
        let reader = try open(path, after: "\(EventID(high: 1, low: 3))")
        let stream = try #require((reader.stream as? KeyedStream)?.stream as? EventStream)
        #expect(stream.queued.textCount <= 101 && stream.queued.byteCount <= 1_300_000)
        let ids = reader.text(pieceMax: 100_000).split(separator: "\n").filter { $0.hasPrefix("id: ") }
        #expect(
            ids.map { String($0.dropFirst(4)) } == (UInt64(4)...250).map { "\(EventID(high: 1, low: $0))" })
        #expect(reader.last == .wait)
        fixture.store.finish(job, .succeeded)
        fixture.store.addEvent(.jobSucceeded, job)
        #expect(types(reader.text(pieceMax: 100_000)) == ["job.succeeded"])
        #expect(reader.last == (subject.isEmpty ? .wait : .end))
        reader.stream.cancelled()
    }

    @Test("a stream whose snapshot cannot be read completely is refused, so that the client reconnects")
    func unreadableSnapshot() throws {
        _ = try fixture.submit()
        fixture.store.state.withLock { $0.unreadable = .suspended }
        let headers = [
            (name: "Accept", value: "text/event-stream"),
            (name: "Last-Event-ID", value: "\(EventID(high: 9, low: 9))"),
        ]
        #expect(try fixture.send("GET", "/v1/events", nil, headers).status == 503)
        #expect(fixture.api.listenerCount == 0)
        fixture.store.state.withLock { $0.unreadable = nil }
        let reader = try open("/v1/events", after: "\(EventID(high: 9, low: 9))")
        #expect(reader.text().contains(#""complete":true"#))
        reader.stream.cancelled()
    }

    @Test("a job's stream ends with the job; it is 404 for another tenant and 204 if no event will follow")
    func ofJob() throws {
        let job = try fixture.submit()
        let reader = try open("/v1/jobs/\(job)/events")
        #expect(types(reader.text()) == ["snapshot"])
        fixture.store.addEvent(.jobSucceeded, try fixture.submit())
        fixture.store.addEvent(.jobSucceeded, job)
        #expect(types(reader.text()) == ["job.succeeded"] && reader.last == .end)
        fixture.store.finish(job, .succeeded)
        let accept = [(name: "Accept", value: "text/event-stream")]
        let last = (name: "Last-Event-ID", value: "\(EventID(high: 1, low: 2))")
        #expect(try fixture.send("GET", "/v1/jobs/\(job)/events", accept + [last]).status == 204)
        #expect(
            try fixture.send("GET", "/v1/jobs/\(job)/events", nil, key: fixture.strangerKey, accept).status
                == 404)
        reader.stream.cancelled()
        #expect(fixture.api.listenerCount == 0)
    }

    @Test(
        "a resumed stream of an ended job sends the events after the end and then ends",
        arguments: [EventType.jobUnacknowledged, .jobAcknowledged, .jobAcknowledgementExpired])
    func afterTheEnd(_ type: EventType) throws {
        let job = try fixture.submit()
        fixture.store.finish(job, .succeeded)
        fixture.store.addEvent(.jobSucceeded, job)
        fixture.store.state.withLock { $0.hasUnnumberedEvents = true }
        let reader = try open("/v1/jobs/\(job)/events", after: "\(EventID(high: 1, low: 1))")
        #expect(reader.text().isEmpty && reader.last == .wait)
        fixture.store.addEvent(type, job)
        #expect(types(reader.text()) == [type.rawValue] && reader.last == .end)
        reader.stream.cancelled()
        #expect(fixture.api.listenerCount == 0)
    }

    @Test("a stream that reads too slowly ends, and its queue stays within the bound")
    func slow() throws {
        let job = try fixture.submit(#","description":"\#(String(repeating: "x", count: 1_000))""#)
        let reader = try open("/v1/events")
        for _ in 0..<2_000 { fixture.store.addEvent(.jobStarted, job) }
        let text = reader.text(pieceMax: 65_536)
        #expect(text.contains(": too slow") && reader.last == .end)
        #expect(text.utf8.count < Limits.eventQueueByteCountMax)
        reader.stream.cancelled()
    }

    @Test(
        "a stream frees the events that it has sent, even if its queue is never empty", arguments: [1, 300])
    func givenBack(_ behind: Int) throws {
        let reader = try open("/v1/events")
        _ = reader.text()
        let stream = try #require((reader.stream as? KeyedStream)?.stream as? EventStream)
        var sent: [UInt8] = []
        var got: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64)
        var (textCountMax, byteCountMax) = (0, 0)
        for number in 1...5_000 {
            let text = Array("event \(number)\n".utf8)
            stream.push(EventID(high: 9, low: UInt64(number)), text, isLast: false)
            sent += text
            // At least one byte stays in the queue each time.
            while sent.count - got.count > behind * 10 {
                let count = min(buffer.count, sent.count - got.count - behind)
                let step = buffer.withUnsafeMutableBytes {
                    stream.read(into: UnsafeMutableRawBufferPointer(rebasing: $0[..<count]))
                }
                guard step == .bytes(count) else { break }
                got += buffer[..<count]
            }
            let queued = stream.queued
            textCountMax = max(textCountMax, queued.textCount)
            byteCountMax = max(byteCountMax, queued.byteCount)
        }
        #expect(got.count > 45_000 && sent.count > got.count)
        // A text in the queue has about ten bytes; the text that is being read is still whole.
        #expect(textCountMax <= 3 * behind + 8 && byteCountMax <= behind * 10 + 32)
        got += Array(reader.text().utf8)
        #expect(got == sent)
        let queued = stream.queued
        #expect(queued.textCount == 0 && queued.byteCount == 0)
        reader.stream.cancelled()
    }

    @Test("progress is sent unless the stream declines it; lists refuse the parameter with the reason")
    func progress() throws {
        let job = try fixture.submit()
        let readers = try ["/v1/events", "/v1/jobs/\(job)/events"].flatMap { path in
            [try open(path), try open(path + "?progress=false")]
        }
        for reader in readers { _ = reader.text() }
        fixture.store.state.withLock { state in
            state.running = [
                RunningTransfer(
                    job: job, tenant: "default", session: "default",
                    progress: TransferProgress(bytesReceived: 7))
            ]
        }
        for reader in [readers[0], readers[2]] {
            #expect(reader.woken.wait(milliseconds: 120_000).isEmpty == false)
            let text = reader.text()
            #expect(types(text) == ["progress"] && text.contains(#""bytes_received":7"#))
        }
        fixture.store.addEvent(.jobSucceeded, job)
        for reader in [readers[1], readers[3]] {
            #expect(types(reader.text()) == ["job.succeeded"])
        }
        for reader in readers { reader.stream.cancelled() }
        for path in ["/v1/events", "/v1/jobs/\(job)/events"] {
            let list = try fixture.send("GET", path + "?progress=true")
            #expect(list.status == 400 && list.json["detail"]?.string?.contains("event-stream") == true)
            for query in ["progress=1", "limit=5", "cursor=x"] {
                let refused = try fixture.send("GET", path + "?\(query)", [("Accept", "text/event-stream")])
                #expect(refused.status == 400, "\(query)")
            }
        }
    }

    @Test("a tenant that opens as many streams as it can leaves as many to another one")
    func shares() throws {
        let accept = [(name: "Accept", value: "text/event-stream")]
        var readers: [Reader] = []
        for _ in 0..<Limits.eventListenerCountMax / 2 { readers.append(try open("/v1/events")) }
        let refused = try fixture.send("GET", "/v1/events", accept)
        #expect(refused.status == 429 && refused.code == "too_many_streams")
        #expect(refused.header("Retry-After") == "5" && refused.header("RateLimit") != nil)
        let other = try fixture.send("GET", "/v1/events", nil, key: fixture.strangerKey, accept)
        #expect(other.status == 200)
        try Reader(other).stream.cancelled()
        readers.removeLast().stream.cancelled()
        readers.append(try open("/v1/events"))
        for reader in readers { reader.stream.cancelled() }
        #expect(fixture.api.listenerCount == 0)
    }

    @Test("a stopping node ends its streams")
    func stop() throws {
        let reader = try open("/v1/events")
        _ = reader.text()
        fixture.api.endStreams()
        #expect(reader.text().isEmpty && reader.last == .end)
        reader.stream.cancelled()
        let response = try fixture.send("GET", "/v1/events", [("Accept", "text/event-stream")])
        #expect(response.status == 503 && response.code == "shutting_down")
    }

    @Test("events are listed in pages, newest first")
    func lists() throws {
        let job = try fixture.submit()
        for _ in 0..<5 { fixture.store.addEvent(.jobStarted, job) }
        fixture.store.addEvent(.sessionEventsFinished, nil)
        let page = try fixture.send("GET", "/v1/events?limit=2").json
        #expect(page["data"]?.array?.count == 2 && page["data"]?.array?[0]["data"]?["job"] == .null)
        let cursor = try #require(page["next_cursor"]?.string)
        let rest = try fixture.send("GET", "/v1/events?cursor=\(cursor)").json
        #expect(rest["data"]?.array?.count == 4 && rest["next_cursor"] == .null)
        #expect(try fixture.send("GET", "/v1/jobs/\(job)/events").json["data"]?.array?.count == 5)
        for query in ["type=x", "since=never", "limit=0", "cursor=x", "progress=true", "session="] {
            #expect(try fixture.send("GET", "/v1/events?\(query)").status == 400, "\(query)")
        }
    }
}
