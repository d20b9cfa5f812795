import FerryCore
import HTTPServer
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("Snapshots of event streams")
struct EventSnapshotTests {
    private let fixture = Fixture()

    private func open(_ path: String, after id: EventID) throws -> EventStream {
        let response = try fixture.send(
            "GET", path, [("Accept", "text/event-stream"), ("Last-Event-ID", "\(id)")])
        guard case .stream(let body, _) = response.message.body,
            let stream = (body as? KeyedStream)?.stream as? EventStream
        else {
            throw Problem(.notFound, "no stream")
        }
        stream.attach(StreamWaker {})
        return stream
    }

    /// Returns a stream without a log. `pages` gets the events after which it requests a page.
    private func unconnected(_ pages: Mailbox<EventID>) -> EventStream {
        let stream = EventStream(
            EventStream.Subject(query: EventQuery(tenant: "t"), job: nil, showsProgress: false), number: 1,
            readPage: { pages.send($1) }, onEnd: { _ in })
        stream.attach(StreamWaker {})
        return stream
    }

    /// Returns the text that a stream sends until it waits or ends.
    private func read(_ stream: EventStream) -> (text: String, last: StreamStep) {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let step = buffer.withUnsafeMutableBytes { stream.read(into: $0) }
            guard case .bytes(let count) = step else { return (String(decoding: bytes, as: UTF8.self), step) }
            bytes.append(contentsOf: buffer[..<count])
        }
    }

    private func types(_ text: String) -> [String] {
        text.split(separator: "\n").filter { $0.hasPrefix("event: ") }.map { String($0.dropFirst(7)) }
    }

    private func snapshot(_ text: String) throws -> (jobs: [String], isComplete: Bool) {
        let data = try #require(text.split(separator: "\n").first { $0.hasPrefix("data: ") })
        let shown = try JSON.parse(Array(data.utf8.dropFirst(6)))
        return (shown["jobs"]?.array?.compactMap { $0["id"]?.string } ?? [], shown["complete"] == .bool(true))
    }

    private let unknown = EventID(high: 9, low: 9)

    @Test("a snapshot has as many jobs as fit into the queue, and is marked as incomplete if there are more")
    func bounded() throws {
        let text = String(repeating: "x", count: 2_000)
        let pairs = (0..<50).map { #""\#($0)":"\#(text)""# }.joined(separator: ",")
        let ids = try (0..<30).map { _ in try fixture.submit(#","metadata":{\#(pairs)}"#).description }
        let stream = try open("/v1/events", after: unknown)
        #expect(stream.queued.byteCount <= Limits.eventQueueByteCountMax + 1_000)
        let (jobs, isComplete) = try snapshot(read(stream).text)
        #expect((8...10).contains(jobs.count) && jobs == Array(ids.reversed().prefix(jobs.count)))
        #expect(!isComplete)
        stream.cancelled()
    }

    @Test("a snapshot is read in pages and has every unfinished job once")
    func pages() throws {
        let ids = try (0..<120).map { _ in try fixture.submit() }
        for id in ids[..<5] { fixture.store.finish(id, .succeeded) }
        for id in ids[5..<65] { fixture.store.finish(id, .suspended) }
        let stream = try open("/v1/events", after: unknown)
        let (jobs, isComplete) = try snapshot(read(stream).text)
        #expect(jobs.count == 115 && Set(jobs) == Set(ids[5...].map(\.description)) && isComplete)
        stream.cancelled()
    }

    @Test("a snapshot continues stopped scans a few times, then it is marked as incomplete")
    func stoppedScans() throws {
        let ids = try (0..<20).map { _ in try fixture.submit() }
        for id in ids[1...] { fixture.store.finish(id, .succeeded) }
        for (scanCount, isFound) in [(5, true), (3, false)] {
            fixture.store.state.withLock { $0.scanCount = scanCount }
            // Before the scan that finds the oldest job, three scans stop, or more than allowed.
            fixture.store.finish(ids[0], .waiting)
            let stream = try open("/v1/events", after: unknown)
            let (jobs, isComplete) = try snapshot(read(stream).text)
            #expect(jobs == (isFound ? [ids[0].description] : []) && !isComplete)
            stream.cancelled()
        }
        fixture.store.state.withLock { $0.scanCount = 20 }
        let stream = try open("/v1/events", after: unknown)
        let (jobs, isComplete) = try snapshot(read(stream).text)
        #expect(jobs == [ids[0].description] && isComplete)
        stream.cancelled()
    }

    @Test("an unknown or removed Last-Event-ID gets a snapshot, then new events")
    func unknownIdentifiers() throws {
        let job = try fixture.submit()
        for path in ["/v1/events", "/v1/jobs/\(job)/events"] {
            let stream = try open(path, after: unknown)
            #expect(types(read(stream).text) == ["snapshot"])
            fixture.store.addEvent(.jobStarted, job)
            #expect(types(read(stream).text) == ["job.started"], "\(path)")
            stream.cancelled()
        }
        fixture.store.finish(job, .succeeded)
        let over = try open("/v1/jobs/\(job)/events", after: unknown)
        let (text, last) = read(over)
        #expect(types(text) == ["snapshot"] && last == .end)
        over.cancelled()
    }

    private func event(_ number: UInt64) -> (id: EventID, text: [UInt8], isLast: Bool) {
        let padding = String(repeating: "x", count: 1_000)
        return (EventID(high: 1, low: number), Array("event \(number) \(padding)\n".utf8), false)
    }

    private func text(_ numbers: ClosedRange<UInt64>) -> String {
        String(decoding: numbers.flatMap { event($0).text }, as: UTF8.self)
    }

    @Test("events that do not fit while a snapshot is read come from the log, each once")
    func busy() {
        let pages = Mailbox<EventID>()
        let stream = unconnected(pages)
        stream.start(after: unknown)
        for number in 1...2_000 as ClosedRange<UInt64> {
            stream.push(event(number).id, event(number).text, isLast: false)
        }
        stream.addSnapshot(Array("snapshot\n".utf8), upTo: event(1_500).id)
        stream.add([], isWhole: true)
        // The client has not read the snapshot yet.
        for number in 2_001...4_000 as ClosedRange<UInt64> {
            stream.push(event(number).id, event(number).text, isLast: false)
        }
        #expect(stream.queued.textCount == 1)
        #expect(read(stream).text == "snapshot\n" && pages.take() == [event(1_500).id])
        // A page is being sent, and more events come than fit.
        stream.add((1_501...3_999).map { event($0) }, isWhole: true)
        #expect(read(stream).text == text(1_501...3_999) && pages.take() == [event(3_999).id])
        stream.push(event(4_001).id, event(4_001).text, isLast: false)
        stream.add([event(4_000)], isWhole: true)
        stream.push(event(4_002).id, event(4_002).text, isLast: false)
        let (rest, last) = read(stream)
        #expect(rest == text(4_000...4_002) && last == .wait && pages.take().isEmpty)
    }

    @Test(
        "a stream that reads too slowly ends after its snapshot or page", arguments: [0, 70_000])
    func letGo(readCount: Int) {
        let pages = Mailbox<EventID>()
        for isSnapshot in [true, false] {
            let stream = unconnected(pages)
            if isSnapshot {
                stream.addSnapshot(Array(text(1...900).utf8), upTo: event(900).id)
                stream.add([], isWhole: true)
            } else {
                stream.add((1...900).map { event($0) }, isWhole: true)
            }
            var begun = [UInt8](repeating: 0, count: readCount)
            let step = begun.withUnsafeMutableBytes { stream.read(into: $0) }
            #expect(step == (readCount == 0 ? .wait : .bytes(readCount)))
            for number in 901...2_000 as ClosedRange<UInt64> {
                stream.push(event(number).id, event(number).text, isLast: false)
            }
            let (rest, last) = read(stream)
            let whole = String(decoding: begun, as: UTF8.self) + rest
            #expect(whole == text(1...900) + ": too slow, come again\n\n")
            #expect(last == .end && pages.take().isEmpty)
        }
    }
}
