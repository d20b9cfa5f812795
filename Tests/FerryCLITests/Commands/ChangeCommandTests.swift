import FerryCLI
import FerryCore
import Sys
import Testing

@Suite("change, delete and admin windows")
struct ChangeCommandTests {
    private func service() throws -> FakeService {
        try FakeService { request in
            switch (request.method, request.path) {
            case ("PATCH", "/v1/jobs/job_a"): (200, #"{"id":"job_a","state":"queued"}"#)
            case ("DELETE", "/v1/jobs/job_a"): (204, "")
            case ("DELETE", "/v1/jobs/job_b"):
                (409, #"{"status":409,"code":"job_not_ended","detail":"The job has not ended."}"#)
            case ("GET", "/v1/admin/windows"), ("PATCH", "/v1/admin/windows"):
                (200, #"{"windows":[{"name":"night","open":false}]}"#)
            default: (404, #"{"status":404,"code":"not_found","detail":"No such job."}"#)
            }
        }
    }

    @Test("change sends its options as a merge patch, or the patch of a file")
    func change() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            write(#"{"metadata":{"team":null}}"#, to: "\(directory)/patch")
            let cases: [(arguments: [String], body: String)] = [
                (["--priority", "0.9"], #"{"schedule":{"priority":0.9}}"#),
                (
                    ["--deadline", "none", "--description", "x", "--target", "http://b/"],
                    #"{"description":"x","request":{"url":"http://b/"},"schedule":{"deadline_at":null}}"#
                ),
                (["\(directory)/patch"], #"{"metadata":{"team":null}}"#),
            ]
            for (arguments, body) in cases {
                let run = run(Change.self, ["job_a"] + arguments + ["--url", service.url])
                #expect(run.status == 0 && run.out == "job_a\tqueued\n")
                #expect(service.requests.take().map(\.body) == [body])
            }
            for arguments in [[], ["\(directory)/patch", "--priority", "1"]] {
                #expect(run(Change.self, ["job_a"] + arguments + ["--url", service.url]).status == 2)
            }
            #expect(service.requests.take().isEmpty)
        }
    }

    @Test("delete deletes each job and names those that cannot be deleted")
    func delete() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(Delete.self, ["job_b", "job_a", "--url", service.url])
        #expect(run.status == 1 && run.err.contains("job_b: The job has not ended."))
        #expect(service.requests.take().map(\.path) == ["/v1/jobs/job_b", "/v1/jobs/job_a"])
    }

    @Test("admin windows shows the windows, and set sends the patch of a file")
    func windows() throws {
        try withTemporaryDirectory { directory in
            let service = try service()
            defer { service.stop() }
            write(#"{"windows":[]}"#, to: "\(directory)/patch")
            let shown = run(Admin.self, ["windows", "--url", service.url])
            let set = run(Admin.self, ["windows", "set", "\(directory)/patch", "--url", service.url])
            for run in [shown, set] {
                let names = run.out.split(separator: "\n").map { $0.split(separator: " ") }
                #expect(names == [["windows.0.name:", "night"], ["windows.0.open:", "false"]])
            }
            let requests = service.requests.take()
            #expect(requests.map(\.method) == ["GET", "PATCH"] && requests.last?.body == #"{"windows":[]}"#)
        }
    }
}
