import FerryCLI
import FerryCore
import Synchronization
import Sys
import Testing

private func group(_ state: String, running: Int = 0, failures: Int = 0) -> String {
    """
    {"name":"night","description":null,"state":"\(state)","round":1,"counts":{"waiting":0,"queued":0,\
    "running":\(running),"suspended":0,"succeeded":2,"failed":\(failures),"cancelled":0},\
    "open_failures":\(failures),"created_at":"2026-11-29T22:00:00Z","closed_at":null,"finished_at":null}
    """
}

private let operation =
    #"{"id":"opn_a","kind":"retry","state":"succeeded","matched":1,"changed":1,"skipped":0,"failed":0,"#
    + #""reasons":{}}"#

@Suite("Commands for groups")
struct GroupCommandTests {
    private func service(failures: Int = 0) throws -> FakeService {
        let looks = Atomic<Int>(0)
        return try FakeService { request in
            switch (request.method, request.path) {
            case ("GET", "/v1/job_groups/night"):
                looks.add(1, ordering: .relaxed).newValue < 3
                    ? (200, group("closed", running: 1)) : (200, group("finished", failures: failures))
            case ("GET", "/v1/job_groups?limit=500"):
                (200, #"{"data":[\#(group("open", running: 1))],"next_cursor":null}"#)
            case ("POST", "/v1/job_groups"): (201, group("open"))
            case ("POST", "/v1/job_groups/night/close"): (200, group("closed"))
            case ("DELETE", "/v1/job_groups/night"): (204, "")
            case ("POST", "/v1/jobs"): (201, #"{"id":"job_a"}"#)
            case ("POST", "/v1/jobs/batch"): (201, #"{"data":[{"id":"job_a"}]}"#)
            case ("POST", _) where request.body.contains("dry_run"): (200, #"{"matched":7}"#)
            case ("POST", _): (202, operation)
            default: (404, #"{"title":"Not found","status":404,"code":"not_found","detail":"No."}"#)
            }
        }
    }

    @Test("groups are listed, shown, created, closed and deleted")
    func groups() throws {
        let service = try service()
        defer { service.stop() }
        let url = ["--url", service.url]
        #expect(run(Groups.List.self, url).out == "night\topen\t1\t2\t0\t0\n")
        let shown = run(Groups.Show.self, ["night"] + url)
        #expect(shown.out.contains("running:        1\n") && !shown.out.contains("description"))
        _ = service.requests.take()
        #expect(run(Groups.Create.self, ["night", "--description", "d"] + url).status == 0)
        #expect(service.requests.take().first?.body == #"{"name":"night","description":"d"}"#)
        #expect(run(Groups.Close.self, ["night"] + url).out.contains("state:          closed\n"))
        #expect(run(Groups.Delete.self, ["night"] + url).status == 0)
        #expect(run(Groups.Delete.self, ["other"] + url).status == 1)
    }

    @Test("commands on a group start an operation, or count its jobs")
    func commands() throws {
        let service = try service()
        defer { service.stop() }
        let url = ["--url", service.url]
        let retried = run(Groups.Retry.self, ["night"] + url)
        #expect(retried.status == 0 && retried.out.hasPrefix("opn_a\tsucceeded\tmatched 1"))
        #expect(run(Groups.Cancel.self, ["night", "--dry-run"] + url).out == "7\n")
        #expect(run(Groups.Suspend.self, ["night", "--detach"] + url).out == "opn_a\n")
        #expect(run(Groups.Resume.self, ["night", "--detach"] + url).status == 0)
        #expect(
            service.requests.take().map(\.path) == [
                "/v1/job_groups/night/retry", "/v1/job_groups/night/cancel", "/v1/job_groups/night/suspend",
                "/v1/job_groups/night/resume",
            ])
        #expect(run(Groups.Cancel.self, ["night", "--dry-run", "--detach"] + url).status == 2)
    }

    @Test("watch waits until the group is finished; open failures are exit status 1")
    func watch() throws {
        let service = try service()
        defer { service.stop() }
        let watched = run(Watch.self, ["--group", "night", "--url", service.url])
        #expect(watched.status == 0, "\(watched.err)")
        #expect(
            watched.out == "night\tfinished\t0 unfinished, 2 succeeded, 0 open failures, 0 cancelled\n")
        #expect(service.requests.take().count == 3)
        let failing = try self.service(failures: 1)
        defer { failing.stop() }
        let failed = run(Watch.self, ["--group", "night", "--url", failing.url])
        #expect(failed.status == 1 && failed.err.contains("ferry jobs --group night"))
        let late = try self.service()
        defer { late.stop() }
        let timedOut = run(Watch.self, ["--group", "night", "--timeout", "0.01", "--url", late.url])
        #expect(timedOut.status == 4 && timedOut.err.contains("ferry watch --group night"))
        #expect(run(Watch.self, ["job_a", "--group", "night"]).status == 2)
        #expect(run(Watch.self, []).status == 2)
    }

    @Test("submit names a group for jobs that have none, and closes it as a batch")
    func submit() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            func body(_ text: String, _ options: [String]) throws -> (path: String, json: JSON) {
                write(text, to: "\(directory)/jobs")
                let done = run(Submit.self, ["\(directory)/jobs", "--url", service.url] + options)
                #expect(done.status == 0 && done.out == "job_a\n", "\(done.err)")
                let request = try #require(service.requests.take().first)
                return (request.path, try JSON.parse(Array(request.body.utf8)))
            }
            let one = try body(#"{"kind":"data"}"#, ["--group", "night"])
            #expect(one.path == "/v1/jobs" && one.json["group"]?.string == "night")
            let own = try body(#"{"kind":"data","group":null}"#, ["--group", "night"])
            #expect(own.json["group"] == .null)
            let closing = try body(#"{"kind":"data"}"#, ["--group", "night", "--close-group"])
            #expect(closing.path == "/v1/jobs/batch" && closing.json["group"]?.string == "night")
            #expect(closing.json["close_group"]?.bool == true && closing.json["jobs"]?.array?.count == 1)
            let batch = try body(#"[{"kind":"data"}]"#, ["--group", "night"])
            #expect(batch.json["group"]?.string == "night" && batch.json["close_group"] == nil)
            #expect(run(Submit.self, ["\(directory)/jobs", "--close-group"]).status == 2)
        }
    }
}
