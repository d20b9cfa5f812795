import FerryCLI
import Testing

@Suite("Lists of several pages")
struct ListingTests {
    /// Returns a service with a list of two entries, each on its own page.
    private func service(_ path: String, _ first: String, _ second: String) throws -> FakeService {
        try FakeService { request in
            if request.path == "\(path)?limit=500" {
                return (200, #"{"data":[\#(first)],"next_cursor":"c 1"}"#)
            }
            guard request.path == "\(path)?limit=500&cursor=c%201" else { return (404, "{}") }
            return (200, #"{"data":[\#(second)],"next_cursor":null}"#)
        }
    }

    @Test("all pages of sessions are printed as one document or table")
    func sessions() throws {
        let service = try service("/v1/sessions", #"{"identifier":"a"}"#, #"{"identifier":"b"}"#)
        defer { service.stop() }
        let document = run(Sessions.self, ["list", "--json", "--url", service.url])
        let both = #"{"data":[{"identifier":"a"},{"identifier":"b"}],"next_cursor":null}"#
        #expect(document.status == 0 && document.out == both + "\n", "\(document)")
        let table = run(Sessions.self, ["list", "--url", service.url])
        #expect(table.out == "a\t?\t?\t-\tvalid\nb\t?\t?\t-\tvalid\n", "\(table)")
    }

    @Test("all pages of hosts are printed as one document or table")
    func hosts() throws {
        let service = try service("/v1/admin/hosts", #"{"host":"a"}"#, #"{"host":"b"}"#)
        defer { service.stop() }
        let document = run(Admin.self, ["hosts", "list", "--json", "--url", service.url])
        let both = #"{"data":[{"host":"a"},{"host":"b"}],"next_cursor":null}"#
        #expect(document.status == 0 && document.out == both + "\n", "\(document)")
        let table = run(Admin.self, ["hosts", "list", "--url", service.url])
        #expect(table.out.split(separator: "\n").map { $0.prefix(2) } == ["a\t", "b\t"], "\(table)")
    }

    @Test("the audit log prints one page and its cursor")
    func audit() throws {
        let service = try FakeService { request in
            request.path == "/v1/admin/audit?limit=1"
                ? (200, #"{"data":[{"operation":"createKey"}],"next_cursor":"c1"}"#) : (404, "{}")
        }
        defer { service.stop() }
        let document = run(Admin.self, ["audit", "--limit", "1", "--json", "--url", service.url])
        let page = #"{"data":[{"operation":"createKey"}],"next_cursor":"c1"}"#
        #expect(document.status == 0 && document.out == page + "\n", "\(document)")
    }
}
