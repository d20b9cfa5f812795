import FerryCore
import HTTPServer
import Synchronization
import Sys
import Testing

@testable import FerryAPI

@Suite("Events of groups")
struct GroupEventsTests {
    private let fixture = Fixture()

    /// Creates a group, closes it, and adds its event to the log.
    private func finish(_ name: String) throws {
        _ = try fixture.send("POST", "/v1/job_groups", "{\"name\": \"\(name)\"}")
        let closed = try fixture.send("POST", "/v1/job_groups/\(name)/close")
        #expect(closed.status == 200)
        let (entry, sink) = try fixture.store.state.withLock { state in
            let group = try #require(state.groups.first { $0.draft.name == name })
            let number = UInt64(state.events.count + 1)
            let time = group.createdAt + Double(number)
            let record = EventRecord(.groupFinished, job: nil, at: time, detail: group.shown())
            let event = Event(
                id: EventID(high: 1, low: number), tenant: "default", session: "", sequence: Int64(number),
                timestamp: time, record: record)
            let entry = EventEntry(event: event, job: nil)
            state.events.append(entry)
            return (entry, state.sink)
        }
        if let sink, sink.wants(entry.event) { sink.receive([entry]) }
    }

    private func stream(after: String? = nil) throws -> any ResponseStream {
        var headers = [(name: "Accept", value: "text/event-stream")]
        if let after { headers.append((name: "Last-Event-ID", value: after)) }
        let response = try fixture.send("GET", "/v1/job_groups/night/events", nil, headers)
        guard case .stream(let stream, _) = response.message.body else {
            throw Problem(.notFound, "no stream")
        }
        return stream
    }

    private func text(_ stream: any ResponseStream) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1_000)
        while case .bytes(let count) = buffer.withUnsafeMutableBytes({ stream.read(into: $0) }) {
            bytes += buffer[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test("a group's own events are listed, and those of other groups and of jobs are not")
    func list() throws {
        #expect(try fixture.send("GET", "/v1/job_groups/night/events").status == 404)
        try finish("night")
        try finish("other")
        fixture.store.addEvent(.jobCreated, try fixture.submit())
        let page = try fixture.send("GET", "/v1/job_groups/night/events")
        let events = try #require(page.json["data"]?.array)
        #expect(events.map { $0["data"]?["group"]?["name"]?.string } == ["night"])
        #expect(events.first?["type"]?.string == "group.finished")
        #expect(
            try fixture.send("GET", "/v1/job_groups/night/events", key: fixture.strangerKey).status == 404)
        let wrong = try fixture.send("GET", "/v1/job_groups/night/events?progress=true")
        #expect(wrong.status == 400)
    }

    @Test(
        "parameters that a stream does not have are 400", arguments: ["limit=5", "cursor=a", "since=today"])
    func streamParameters(query: String) throws {
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        let path = "/v1/job_groups/night/events?\(query)"
        #expect(try fixture.send("GET", path, nil, [("Accept", "text/event-stream")]).status == 400)
    }

    @Test("a stream begins with the group, and goes on with its events only")
    func live() throws {
        _ = try fixture.send("POST", "/v1/job_groups", #"{"name": "night"}"#)
        let stream = try stream()
        let first = text(stream)
        #expect(first.contains("event: snapshot") && first.contains(#""group":{"name":"night""#))
        fixture.store.addEvent(.jobCreated, try fixture.submit())
        try finish("other")
        #expect(text(stream).isEmpty)
        try finish("night")
        let next = text(stream)
        #expect(next.contains("event: group.finished") && next.contains(#""name":"night""#))
        stream.cancelled()
        #expect(fixture.api.listenerCount == 0)
    }

    @Test("a stream after an event sends what the client has missed")
    func resumed() throws {
        fixture.store.addEvent(.jobCreated, try fixture.submit())
        try finish("other")
        try finish("night")
        let stream = try stream(after: "\(EventID(high: 1, low: 1))")
        let text = text(stream)
        #expect(text.contains("event: group.finished") && !text.contains("snapshot"))
        #expect(!text.contains(#""name":"other""#))
    }
}
