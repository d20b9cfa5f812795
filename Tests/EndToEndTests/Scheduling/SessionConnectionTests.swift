import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Proxies, TLS versions and pinned keys", .onOwnThread)
struct SessionConnectionTests {
    private let ferry: FerryProcess
    private let authority: TestAuthority
    /// Value of `request.tls.ca` as JSON.
    private let trusted: String

    init() throws {
        ferry = try FerryProcess.shared.get().ferry
        authority = try TestAuthority.shared.get()
        trusted = "\"" + authority.certificate.replacing("\n", with: "\\n") + "\""
    }

    @Test("jobs use the proxy of their session unless their own proxy is null")
    func proxy() throws {
        let proxy = try TestProxy(.http, asksForCredentials: true)
        defer { proxy.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let rules = #"{"proxy":{"url":"\#(proxy.url)","user":"user","password":"secret"}}"#
        let created = try ferry.call("PUT", "/v1/sessions/proxied", rules)
        #expect(created.status == 201 && !created.text.contains("secret"), "\(created.text)")
        for more in ["", #","proxy":null"#] {
            let job = try ferry.run(
                #"{"kind":"download","session":"proxied","#
                    + #""request":{"url":"http://localhost:\#(nginx.port)/file"\#(more)}}"#)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect((job["request"]?["proxy"]?["url"]?.string == proxy.url) == more.isEmpty, "\(job)")
            #expect(proxy.requests.count == 1)
        }
    }

    @Test("TLS versions of a session apply to its jobs, in addition to the jobs' own tls fields")
    func versions() throws {
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let cases: [(session: String, rules: String, good: SecureNginx.Kind, bad: SecureNginx.Kind)] = [
            ("tls-new", #"{"tls_minimum_version":"1.3"}"#, .new, .old),
            ("tls-old", #"{"tls_maximum_version":"1.2"}"#, .old, .new),
        ]
        for (session, rules, good, bad) in cases {
            #expect(try ferry.call("PUT", "/v1/sessions/\(session)", rules).status == 201)
            let run = { (kind: SecureNginx.Kind) throws -> JSON in
                try ferry.run(
                    #"{"kind":"download","session":"\#(session)","retry":{"max_attempts":1},"#
                        + #""schedule":{"waits_for_connectivity":false},"#
                        + #""request":{"url":"\#(nginx.url(kind))/file","tls":{"ca":\#(trusted)}}}"#)
            }
            let allowed = try run(good)
            #expect(allowed["state"]?.string == "succeeded", "\(allowed)")
            let refused = try run(bad)
            #expect(refused["error"]?["code"]?.string == "tls_failed", "\(refused)")
        }
    }

    @Test("a server key without a matching pin is rejected; one match of several pins is enough")
    func pins() throws {
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let run = { (pins: [String]) throws -> JSON in
            let list = pins.map { "\"\($0)\"" }.joined(separator: ",")
            return try ferry.run(
                #"{"kind":"download","request":{"url":"\#(nginx.url())/file","#
                    + #""tls":{"ca":\#(trusted),"pins":[\#(list)]}}}"#)
        }
        let wrong = try run([authority.alice.pin])
        #expect(wrong["error"]?["code"]?.string == "certificate_invalid", "\(wrong)")
        #expect(wrong["error"]?["message"]?.string == "The server's key is none of the pinned ones.")
        #expect(wrong["attempt"]?.integer == 1)
        let rotated = try run([authority.alice.pin, authority.server.pin])
        #expect(rotated["state"]?.string == "succeeded", "\(rotated)")
    }
}
