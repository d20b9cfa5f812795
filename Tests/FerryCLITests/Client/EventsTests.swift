import FerryCLI
import Sys
import Testing

@Suite("Following events")
struct EventsTests {
    private static func json(_ number: Int, _ type: String) -> String {
        #"{"id":"evt_\#(number)","type":"\#(type)","timestamp":"t\#(number)","#
            + #""data":{"session":"s","sequence":\#(number),"job":{"id":"job_a"}}}"#
    }

    private static func event(_ number: Int, _ type: String) -> String {
        "id: evt_\(number)\nevent: \(type)\ndata: \(json(number, type))\n\n"
    }

    private static func line(_ number: Int, _ type: String) -> String {
        "t\(number)\ts\t\(number)\t\(type)\tjob_a\n"
    }

    private func follow(_ service: FakeService, _ more: String...) -> Run {
        run(Events.self, ["--follow", "--url", service.url] + more)
    }

    @Test("the stream of a job continues after the list and after a break until the job ends")
    func ofJob() throws {
        let streams = Counter()
        let service = try FakeService { request in
            guard request.header("accept") == "text/event-stream" else {
                return (200, #"{"data":[\#(Self.json(2, "job.started")),\#(Self.json(1, "job.created"))]}"#)
            }
            return streams.next() == 1
                ? (200, Self.event(3, "job.attempt_failed") + "id: evt_4\ndata: {")
                : (200, ":\n\n" + Self.event(4, "job.succeeded") + Self.event(5, "job.acknowledged"))
        }
        defer { service.stop() }
        let run = follow(service, "job_a")
        #expect(
            run.out == Self.line(1, "job.created") + Self.line(2, "job.started")
                + Self.line(3, "job.attempt_failed") + Self.line(4, "job.succeeded"), "\(run)")
        #expect(run.status == 0)
        let requests = service.requests.take()
        #expect(requests.map { $0.header("last-event-id") } == [nil, "evt_2", "evt_3"])
    }

    @Test("short and empty pages are followed until there are enough events")
    func shortPages() throws {
        let service = try FakeService { request in
            switch request.path {
            case "/v1/events?type=job.failed&limit=2":
                (200, #"{"data":[\#(Self.json(9, "job.failed"))],"next_cursor":"a"}"#)
            case "/v1/events?type=job.failed&limit=1&cursor=a": (200, #"{"data":[],"next_cursor":"b"}"#)
            case "/v1/events?type=job.failed&limit=1&cursor=b":
                (200, #"{"data":[\#(Self.json(3, "job.failed"))],"next_cursor":"c"}"#)
            default: (404, "{}")
            }
        }
        defer { service.stop() }
        let run = run(Events.self, ["--type", "job.failed", "-n", "2", "--url", service.url])
        #expect(run.out == Self.line(3, "job.failed") + Self.line(9, "job.failed"), "\(run)")
        #expect(run.status == 0 && service.requests.take().count == 3)
    }

    @Test(
        "without a match, following begins after the newest event; a refused stream is polled as a list",
        arguments: [(429, "too_many_streams"), (503, "shutting_down")])
    func ofTenant(status: Int, code: String) throws {
        let streams = Counter()
        let service = try FakeService { request in
            guard request.header("accept") == "text/event-stream" else {
                if request.path == "/v1/events?limit=1" {
                    return (200, #"{"data":[\#(Self.json(7, "job.created"))]}"#)
                }
                let isFirst = request.path.contains("limit=50&") || request.path.hasSuffix("limit=50")
                return (200, isFirst ? #"{"data":[]}"# : #"{"data":[\#(Self.json(8, "job.failed"))]}"#)
            }
            switch streams.next() {
            case 1: return (status, #"{"code":"\#(code)"}"#)
            case 2: return (200, "id: evt_9\nevent: snapshot\ndata: {\"jobs\":[]}\n\n")
            default: return (404, #"{"detail":"enough","code":"not_found"}"#)
            }
        }
        defer { service.stop() }
        let run = follow(service, "--type", "job.failed", "--session", "s")
        #expect(run.out == Self.line(8, "job.failed") && run.err.contains("enough"), "\(run)")
        let requests = service.requests.take().filter { $0.header("accept") == "text/event-stream" }
        #expect(requests.map { $0.header("last-event-id") } == ["evt_7", "evt_8", "evt_9"])
        #expect(requests.allSatisfy { $0.path == "/v1/events?session=s&type=job.failed&progress=false" })
    }
}
