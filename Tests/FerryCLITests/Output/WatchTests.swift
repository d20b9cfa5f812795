import FerryCLI
import Sys
import Testing

private let running = #"{"id":"job_a","state":"running","progress":{"bytes_received":1}}"#
private let succeeded = #"{"id":"job_a","state":"succeeded"}"#

@Suite("Watching a job")
struct WatchTests {
    private func watch(_ service: FakeService, _ more: String...) -> Run {
        run(Watch.self, ["job_a", "--url", service.url] + more)
    }

    private static func event(_ id: String, _ type: String, _ job: String) -> String {
        "id: \(id)\nevent: \(type)\ndata: {\"data\":{\"job\":\(job)}}\n\n"
    }

    @Test("watch continues after the last event when the stream breaks, and reads the job once")
    func follows() throws {
        let streams = Counter()
        let service = try FakeService { request in
            guard request.path.hasSuffix("/events") else { return (200, succeeded) }
            switch streams.next() {
            case 1:
                let snapshot = "id: evt_1\nevent: snapshot\ndata: {\"job\":\(running)}\n\n"
                let progress = "event: progress\ndata: {\"progress\":{\"bytes_received\":2}}\n\n"
                return (200, snapshot + progress + Self.event("evt_2", "job.attempt_failed", running))
            case 2:
                // An event that is incomplete when the connection breaks is ignored.
                return (200, ":\n\n" + String(Self.event("evt_3", "job.succeeded", succeeded).dropLast(20)))
            default: return (200, Self.event("evt_3", "job.succeeded", succeeded))
            }
        }
        defer { service.stop() }
        let watched = watch(service)
        #expect(watched.status == 0 && watched.out == "job_a\tsucceeded\n", "\(watched)")
        let requests = service.requests.take()
        try #require(requests.count == 4)
        #expect(requests.map { $0.path.hasSuffix("/events") } == [true, true, true, false])
        #expect(
            requests.map { $0.header("last-event-id") } == [nil, "evt_2", "evt_2", nil])
        #expect(requests[0].header("accept") == "text/event-stream")
        #expect(requests[0].header("prefer") == nil && requests[3].header("accept") == "application/json")
    }

    @Test("204 ends the watch, and after 429 or 503 the job is requested", arguments: [429, 503])
    func withoutStream(status: Int) throws {
        let answers = Counter()
        let service = try FakeService { request in
            guard request.path.hasSuffix("/events") else {
                return (200, request.header("prefer") == nil ? succeeded : running)
            }
            return answers.next() == 1 ? (status, #"{"code":"too_many_streams"}"#) : (204, "")
        }
        defer { service.stop() }
        #expect(watch(service).status == 0)
        let requests = service.requests.take()
        #expect(requests.map { $0.header("prefer") } == [nil, "wait=25", nil, nil])
    }

    @Test("a missing job fails at once")
    func missing() throws {
        let service = try FakeService { _ in (404, #"{"detail":"No such job.","code":"not_found"}"#) }
        defer { service.stop() }
        let watched = watch(service)
        #expect(watched.status == 1 && watched.err.contains("No such job."))
        #expect(service.requests.take().count == 1)
    }
}
