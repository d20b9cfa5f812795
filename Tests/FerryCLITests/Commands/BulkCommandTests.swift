import FerryCLI
import Synchronization
import Sys
import Testing

private func operation(_ state: String, _ counts: String) -> String {
    #"{"id":"opn_a","kind":"cancel","state":"\#(state)",\#(counts),"reasons":{}}"#
}

private let running = operation("running", #""matched":1,"changed":1,"skipped":0,"failed":0"#)
private let succeeded = operation("succeeded", #""matched":3,"changed":3,"skipped":0,"failed":0"#)
private let failed =
    #"{"id":"opn_a","kind":"cancel","state":"failed","matched":2,"changed":1,"skipped":0,"failed":1,"#
    + #""reasons":{"busy":1}}"#

@Suite("Commands for many jobs")
struct BulkCommandTests {
    private func service(ends end: String = succeeded) throws -> FakeService {
        let looks = Atomic<Int>(0)
        return try FakeService { request in
            switch (request.method, request.path) {
            case ("POST", "/v1/jobs/job_a/cancel"): (200, #"{"id":"job_a","state":"cancelled"}"#)
            case ("POST", _) where request.body.contains("dry_run"): (200, #"{"matched":7}"#)
            case ("POST", "/v1/operations/opn_a/cancel"): (200, succeeded)
            case ("POST", _): (202, running)
            case ("GET", "/v1/operations/opn_a"):
                (200, looks.add(1, ordering: .relaxed).newValue < 2 ? running : end)
            case ("GET", _): (200, #"{"data":[\#(succeeded)],"next_cursor":null}"#)
            default: (404, #"{"title":"Not found","status":404,"code":"not_found","detail":"No."}"#)
            }
        }
    }

    @Test("filters start an operation, for which the command waits")
    func filters() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(
            Retry.self,
            ["--failed", "--host", "a.example", "--tag", "k=v", "--unacknowledged", "--url", service.url])
        #expect(run.status == 0, "\(run.err)")
        #expect(run.out == "opn_a\tsucceeded\tmatched 3, changed 3, skipped 0, failed 0\n")
        let requests = service.requests.take()
        #expect(requests.first?.path == "/v1/jobs/retry" && requests.count == 3)
        #expect(
            requests.first?.body
                == #"{"filter":{"state":"failed","host":"a.example","acknowledged":false,"metadata.k":"v"}}"#)
    }

    @Test("a failed operation is exit status 1 with its reasons")
    func failure() throws {
        let service = try service(ends: failed)
        defer { service.stop() }
        let run = run(Cancel.self, ["--all", "--url", service.url])
        #expect(run.status == 1 && run.out.contains("failed 1 (busy 1)"))
        #expect(service.requests.take().first?.body == #"{"filter":{}}"#)
    }

    @Test("a dry run prints the number of jobs; a detached command prints the identifier")
    func dryRunAndDetach() throws {
        let service = try service()
        defer { service.stop() }
        #expect(run(Suspend.self, ["job_a", "job_b", "--dry-run", "--url", service.url]).out == "7\n")
        #expect(
            service.requests.take().first?.body == #"{"ids":["job_a","job_b"],"dry_run":true}"#)
        #expect(run(Resume.self, ["--kind", "data", "--detach", "--url", service.url]).out == "opn_a\n")
    }

    @Test("identifiers are requested one after another, as without filters")
    func identifiers() throws {
        let service = try service()
        defer { service.stop() }
        #expect(run(Cancel.self, ["job_a", "--url", service.url]).out == "job_a\tcancelled\n")
        #expect(service.requests.take().map(\.path) == ["/v1/jobs/job_a/cancel"])
    }

    @Test(
        "contradictory choices are wrong usage",
        arguments: [
            [], ["job_a", "--host", "a"], ["job_a", "--all"], ["--all", "--host", "a"],
            ["--failed", "--state", "queued"], ["job_a", "--detach"], ["--tag", "nothing"],
        ])
    func usage(_ arguments: [String]) throws {
        #expect(run(Cancel.self, arguments).status == 2)
    }

    @Test("operations are listed, shown, watched and cancelled")
    func operations() throws {
        let service = try service()
        defer { service.stop() }
        let options = ["--url", service.url]
        #expect(run(BulkOperations.self, ["list"] + options).out.hasPrefix("opn_a\tcancel\tsucceeded\t"))
        #expect(run(BulkOperations.self, ["show", "opn_a"] + options).out.contains("\trunning\t"))
        #expect(run(BulkOperations.self, ["watch", "opn_a"] + options).out.contains("\tsucceeded\t"))
        #expect(run(BulkOperations.self, ["cancel", "opn_a"] + options).out.contains("\tsucceeded\t"))
    }
}
