import FerryCLI
import Sys
import Testing

private let session =
    #"{"identifier":"s","tenant":"default","is_configured":true,"revision":3,"invalidation":null,"#
    + #""ended_at":null,"kind":"default","weight":2.0,"http_maximum_connections_per_host":6,"#
    + #""http_additional_headers":{"A":"b"},"proxy":null,"jobs":{"queued":1}}"#
private let secret =
    #"{"identifier":"s","is_configured":true,"revision":1,"weight":1,"proxy":{"password":{"set":true}}}"#

private let cookieList =
    #"{"data":[{"name":"sid","value":"treasure","domain":"a.example","path":"/","expires_at":null,"#
    + #""secure":true,"http_only":false,"host_only":true}],"next_cursor":null}"#
private let credential =
    #"{"name":"a","revision":1,"persistence":"permanent","user":"anna","password":{"set":true},"token":null,"#
    + #""protection_space":{"scheme":"https","host":"a.example","port":443,"realm":null,"method":"default"}}"#

@Suite("ferry sessions")
struct SessionCommandTests {
    private func service(_ shown: String = session) throws -> FakeService {
        try FakeService { request in
            switch (request.method, request.path) {
            case ("GET", "/v1/sessions?limit=500"): (200, #"{"data":[\#(shown)],"next_cursor":null}"#)
            case ("GET", "/v1/sessions/s"), ("PUT", "/v1/sessions/s"), ("PUT", "/v1/sessions/new"),
                ("POST", "/v1/sessions/s/invalidate"):
                (200, shown)
            case ("DELETE", "/v1/sessions/s"), ("DELETE", "/v1/sessions/s/cookies?domain=a.example"),
                ("DELETE", "/v1/sessions/s/credentials/a"):
                (204, "")
            case ("GET", "/v1/sessions/s/cookies?name=n%20m&limit=500"): (200, cookieList)
            case ("GET", "/v1/sessions/s/cookies"): (200, "# Netscape HTTP Cookie File\n")
            case ("PUT", "/v1/sessions/s/cookies"), ("POST", "/v1/sessions/s/cookies"): (200, cookieList)
            case ("POST", "/v1/sessions/s/reset"), ("POST", "/v1/sessions/s/flush"): (200, shown)
            case ("GET", "/v1/sessions/s/credentials?limit=500"):
                (200, #"{"data":[\#(credential)],"next_cursor":null}"#)
            case ("PUT", "/v1/sessions/s/credentials/a"): (200, credential)
            default: (404, #"{"title":"Not found","status":404,"code":"not_found","detail":"No."}"#)
            }
        }
    }

    @Test("a list is printed as a table, and a session with all fields")
    func reading() throws {
        let service = try service()
        defer { service.stop() }
        let list = run(Sessions.self, ["list", "--url", service.url])
        #expect(list.status == 0 && list.out == "s\tdefault\t2.0\t6\tvalid\n", "\(list.out)\(list.err)")
        let show = run(Sessions.self, ["show", "s", "--url", service.url])
        #expect(show.status == 0 && show.out.contains("jobs.queued:"))
        #expect(run(Sessions.self, ["show", "nobody", "--url", service.url]).status == 1)
    }

    @Test("cookies are listed without their values, written as text, added from a file and deleted")
    func cookies() throws {
        let service = try service()
        defer { service.stop() }
        let list = run(Sessions.self, ["cookies", "s", "--name", "n m", "--url", service.url])
        #expect(list.status == 0 && list.out == "a.example\t/\tsid\twith the session\tSecure, host only\n")
        let text = run(Sessions.self, ["cookies", "s", "--netscape", "--url", service.url])
        #expect(text.status == 0 && text.out.hasPrefix("# Netscape"), "\(text.err)")
        let deletion = run(
            Sessions.self, ["cookies", "s", "--domain", "a.example", "--delete", "--url", service.url])
        #expect(deletion.status == 0, "\(deletion.err)")
        _ = service.requests.take()
        try withTemporaryDirectory { directory in
            let file = directory + "/jar"
            write("a.example\tFALSE\t/\tFALSE\t0\tsid\t1\n", to: file)
            for option in ["--add", "--replace"] {
                let change = run(Sessions.self, ["cookies", "s", option, file, "--url", service.url])
                #expect(change.status == 0, "\(change.err)")
            }
        }
        let requests = service.requests.take()
        #expect(requests.map(\.method) == ["POST", "PUT"])
        #expect(requests.allSatisfy { $0.header("content-type") == "text/plain" })
        #expect(
            run(Sessions.self, ["cookies", "s", "--delete", "--netscape", "--url", service.url]).status == 2)
        for verb in ["reset", "flush"] {
            #expect(run(Sessions.self, [verb, "s", "--url", service.url]).status == 0)
        }
    }

    @Test("set changes only the named fields and requires the revision it has read")
    func setting() throws {
        let service = try service()
        defer { service.stop() }
        let run = run(
            Sessions.self,
            ["set", "s", "weight=4", "description=not JSON", "proxy=null", "--url", service.url])
        #expect(run.status == 0, "\(run.err)")
        let put = try #require(service.requests.take().first { $0.method == "PUT" })
        #expect(put.header("if-match") == "\"r3\"")
        #expect(
            put.body == #"{"kind":"default","http_maximum_connections_per_host":6,"#
                + #""http_additional_headers":{"A":"b"},"weight":4,"description":"not JSON","proxy":null}"#)
    }

    @Test("set creates a missing session and never sends masked secrets")
    func creating() throws {
        let plain = try service()
        defer { plain.stop() }
        #expect(run(Sessions.self, ["set", "new", "weight=4", "--url", plain.url]).status == 0)
        let put = try #require(plain.requests.take().first { $0.method == "PUT" })
        #expect(put.body == #"{"weight":4}"# && put.header("if-match") == nil)
        #expect(run(Sessions.self, ["set", "new", "weight", "--url", plain.url]).status == 2)
        let sealed = try service(secret)
        defer { sealed.stop() }
        let refused = run(Sessions.self, ["set", "s", "weight=4", "--url", sealed.url])
        #expect(refused.status == 2 && refused.err.contains("proxy"))
        #expect(run(Sessions.self, ["set", "s", "proxy=null", "--url", sealed.url]).status == 0)
    }

    @Test("credentials are listed, stored with a hidden secret, and deleted")
    func credentials() throws {
        let service = try service()
        defer { service.stop() }
        let list = run(Sessions.self, ["credentials", "list", "s", "--url", service.url])
        #expect(
            list.status == 0 && list.out == "a\thttps://a.example:443\t-\tdefault\tanna\tpermanent\n",
            "\(list.out)\(list.err)")
        _ = service.requests.take()
        let set = run(
            Sessions.self,
            [
                "credentials", "set", "s", "a", "https://A.example", "--user", "anna", "--realm", "r",
                "--permanent", "--url", service.url,
            ], secret: "hush")
        #expect(set.status == 0 && !set.out.contains("hush") && set.err.contains("Password"), "\(set.err)")
        let put = try #require(service.requests.take().first)
        #expect(
            put.body == #"{"protection_space":{"scheme":"https","host":"a.example","port":443,"realm":"r"},"#
                + #""persistence":"permanent","user":"anna","password":"hush"}"#)
        let blind = ["credentials", "set", "s", "a", "https://a.example", "--url", service.url]
        #expect(run(Sessions.self, blind).status == 2, "there is no terminal")
        #expect(run(Sessions.self, blind, secret: "hush").status == 0)
        #expect(try #require(service.requests.take().last).body.contains(#""token":"hush""#))
        #expect(
            run(Sessions.self, ["credentials", "set", "s", "a", "https://a.example/x"], secret: "x").status
                == 2)
        #expect(run(Sessions.self, ["credentials", "delete", "s", "a", "--url", service.url]).status == 0)
    }

    @Test("invalidate and delete send their requests")
    func ending() throws {
        let service = try service()
        defer { service.stop() }
        #expect(run(Sessions.self, ["invalidate", "s", "--cancel", "--url", service.url]).status == 0)
        #expect(try #require(service.requests.take().first).body == #"{"mode":"cancel"}"#)
        #expect(run(Sessions.self, ["delete", "s", "--url", service.url]).status == 0)
    }
}
