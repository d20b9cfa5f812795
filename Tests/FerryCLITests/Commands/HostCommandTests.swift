import FerryCLI
import FerryCore
import Sys
import Testing

@Suite("admin hosts")
struct HostCommandTests {
    /// Returns a service that lists `hosts` and has unfinished jobs of these hosts.
    private func service(_ hosts: [String], jobs: [String] = []) throws -> FakeService {
        try FakeService { request in
            guard request.method == "GET" else { return (200, #"{"host":"changed"}"#) }
            let entries =
                request.path.hasPrefix("/v1/jobs/summary?by=host&")
                ? jobs.map { #"{"value":"\#($0)","count":1}"# } : hosts.map { #"{"host":"\#($0)"}"# }
            return (200, #"{"data":[\#(entries.joined(separator: ","))],"next_cursor":null}"#)
        }
    }

    private func set(
        _ name: String, _ service: FakeService, isTerminal: Bool = false, answer: String? = nil
    ) -> (run: Run, changed: [String]) {
        let arguments = ["hosts", "set", name, "--maximum", "3", "--url", service.url]
        let run = run(Admin.self, arguments, isTerminal: isTerminal, answer: answer)
        return (run, service.requests.take().filter { $0.method == "PATCH" }.map(\.path))
    }

    private func path(_ origin: String) -> String { "/v1/admin/hosts/\(percentEncoded(origin))" }

    @Test("a name without a scheme is the listed host, else that of unfinished jobs")
    func named() throws {
        let cases: [(name: String, hosts: [String], jobs: [String], changed: String)] = [
            ("a.example", ["http://a.example:80"], ["https://a.example:443"], "http://a.example:80"),
            ("A.example:81", ["http://a.example:80", "http://a.example:81"], [], "http://a.example:81"),
            ("a.example", [], ["http://a.example:81"], "http://a.example:81"),
            (
                "https://a.example", ["https://a.example:443", "http://a.example:80"], [],
                "https://a.example:443"
            ),
        ]
        for (name, hosts, jobs, changed) in cases {
            let service = try service(hosts, jobs: jobs)
            defer { service.stop() }
            let set = set(name, service)
            #expect(set.run.status == 0 && set.run.err.isEmpty, "\(set.run.err)")
            #expect(set.changed == [path(changed)])
        }
    }

    @Test("several hosts are a question on a terminal, and a usage error elsewhere")
    func several() throws {
        let hosts = ["http://a.example:80", "https://a.example:443"]
        let service = try service(hosts)
        defer { service.stop() }
        let refused = set("a.example", service)
        #expect(refused.run.status == 2 && refused.changed.isEmpty)
        #expect(hosts.allSatisfy { refused.run.err.contains($0) })
        let chosen = set("a.example", service, isTerminal: true, answer: "2")
        #expect(chosen.run.status == 0 && chosen.changed == [path(hosts[1])])
        for answer in ["3", "", nil] as [String?] {
            let none = set("a.example", service, isTerminal: true, answer: answer)
            #expect(none.run.status == 2 && none.changed.isEmpty)
        }
    }

    @Test("an unknown host is changed with a warning")
    func unknown() throws {
        let service = try service(["https://b.example:443"], jobs: [])
        defer { service.stop() }
        let set = set("a.example", service)
        #expect(set.run.status == 0 && set.run.err.hasPrefix("Warning: https://a.example:443"))
        #expect(set.changed == [path("https://a.example:443")])
    }

    @Test("the list has columns for the limits of operators")
    func columns() throws {
        let host =
            #"{"host":"https://a.example:443","state":"limited","minimum_connections":1,"#
            + #""maximum_connections":4,"max_bytes_per_second":1000,"max_requests_per_second":0.5,"#
            + #""paused":true}"#
        let service = try FakeService { _ in (200, #"{"data":[\#(host)],"next_cursor":null}"#) }
        defer { service.stop() }
        let lines = run(Admin.self, ["hosts", "--url", service.url]).out.split(separator: "\n")
        let rows = lines.map { $0.split(separator: "\t").map(String.init) }
        // Without a terminal there is no heading.
        let row = try #require(rows.first)
        #expect(rows.count == 1 && row.suffix(5) == ["1", "4", "1000", "0.5", "yes"])
    }
}
