import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("TLS, authentication and proxies of jobs", .onOwnThread)
struct ConnectionTests {
    private let ferry: FerryProcess
    private let database: TestDatabase
    private let authority: TestAuthority

    init() throws {
        (ferry, database) = try FerryProcess.shared.get()
        authority = try TestAuthority.shared.get()
    }

    /// Returns a PEM text as a JSON string.
    private func quoted(_ text: String) -> String {
        "\"" + text.replacing("\n", with: "\\n") + "\""
    }

    @Test(
        "a job uses its CA, client certificate, pin and Basic credentials, and shows no secret")
    func allFields() throws {
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        let tls =
            #"{"ca":\#(quoted(authority.certificate)),"client_certificate":"#
            + #"\#(quoted(authority.alice.certificate)),"client_key":\#(quoted(authority.alice.key)),"#
            + #""pins":["\#(authority.server.pin)"],"minimum_version":"1.3"}"#
        let submitted = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(nginx.url(.mutual))/echo","tls":\#(tls),"#
                + #""auth":{"type":"basic","user":"me","password":"open-sesame-55417"}}}"#,
            headers: ["Prefer": "wait=60"])
        let job = try submitted.json
        #expect(job["state"]?.string == "succeeded", "\(submitted.text)")
        let basic = "Basic " + Base64.encode(Array("me:open-sesame-55417".utf8))
        #expect(job["result"]?["body"]?.string == "CN=alice|\(basic)|HTTP/1.1")
        #expect(job["request"]?["auth"]?["password"]?["set"]?.bool == true)
        #expect(job["request"]?["tls"]?["client_key"]?["set"]?.bool == true)
        #expect(job["request"]?["tls"]?["pins"]?.array?.count == 1)
        let dump = try Program.run(
            ["pg_dump", "--dbname", database.url], environment: ["PATH": "/usr/bin:/bin"])
        let keyLine = try #require(authority.alice.key.split(separator: "\n").dropFirst().first)
        let id = try #require(job["id"]?.string)
        let shown = try ferry.call("GET", "/v1/jobs/\(id)").text
        for text in [dump.output, ferry.log, shown] {
            #expect(!text.contains("open-sesame-55417") && !text.contains(keyLine))
        }
        // A retry has the same secrets.
        let again = try ferry.json("POST", "/v1/jobs/\(id)/retry", "{}", headers: ["Prefer": "wait=60"])
        #expect(again["result"]?["body"]?.string == job["result"]?["body"]?.string)
    }

    @Test("unreadable certificates and keys are rejected with 422 and their pointer")
    func unreadable() throws {
        let cases = [
            (#"{"ca":"hello"}"#, "ca"),
            (#"{"ca":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}"#, "ca"),
            (#"{"ca":\#(quoted(authority.certificate + authority.certificate.dropLast(60)))}"#, "ca"),
            (#"{"ca":\#(quoted(authority.alice.key))}"#, "ca"),
            (
                #"{"client_certificate":\#(quoted(authority.alice.certificate)),"#
                    + #""client_key":\#(quoted(authority.bob.key))}"#, "client_key"
            ),
            (
                #"{"client_certificate":\#(quoted(authority.alice.certificate)),"#
                    + #""client_key":\#(quoted(authority.encryptedKey))}"#, "client_key"
            ),
            (
                #"{"client_certificate":\#(quoted(authority.alice.certificate)),"client_key":"x"}"#,
                "client_key"
            ),
        ]
        let huge = try Program.run(["openssl", "genrsa", "-primes", "5", "8208"])
        let large =
            #"{"client_certificate":\#(quoted(authority.alice.certificate)),"client_key":"#
            + #"\#(quoted(huge.output))}"#
        for (tls, member) in cases + [(large, "client_key")] {
            let response = try ferry.call(
                "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"https://127.0.0.1:1/","tls":\#(tls)}}"#
            )
            #expect(response.status == 422, "\(response.text)")
            let errors = try response.json["errors"]?.array ?? []
            #expect(errors.compactMap { $0["pointer"]?.string } == ["#/request/tls/\(member)"])
            #expect(errors.compactMap { $0["code"]?.string } == ["invalid_value"])
        }
        let good = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"https://127.0.0.1:1/","tls":{"ca":"#
                + #"\#(quoted(authority.certificate + "\n# two\n" + authority.stranger))}},"#
                + #""retry":{"max_attempts":1},"schedule":{"waits_for_connectivity":false}}"#
        )
        #expect(good.status == 201, "\(good.text)")
    }

    @Test("an expired server certificate fails the job at its first attempt with its message")
    func certificates() throws {
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(nginx.url(.expired))/file","#
                + #""tls":{"ca":\#(quoted(authority.certificate))}}}"#)
        #expect(job["error"]?["code"]?.string == "certificate_invalid", "\(job)")
        #expect(job["error"]?["message"]?.string == "The server's certificate has expired.")
        #expect(job["error"]?["phase"]?.string == "securing" && job["attempt"]?.integer == 1)
    }

    @Test("a job uses its own proxy; responses are counted by protocol")
    func proxy() throws {
        let proxy = try TestProxy(.http, asksForCredentials: true)
        defer { proxy.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        func job(_ password: String) -> String {
            #"{"kind":"download","request":{"url":"http://localhost:\#(nginx.port)/file","proxy":{"#
                + #""url":"\#(proxy.url)","user":"user","password":"\#(password)"}}}"#
        }
        let good = try ferry.run(job("secret"))
        #expect(good["state"]?.string == "succeeded", "\(good)")
        #expect(good["request"]?["proxy"]?["password"]?["set"]?.bool == true)
        #expect(proxy.requests.count == 1)
        let bad = try ferry.run(job("wrong"))
        #expect(bad["error"]?["code"]?.string == "authentication_required", "\(bad)")
        #expect(bad["attempt"]?.integer == 1)
        let metrics = try ferry.call("GET", "/metrics").text
        #expect(metrics.contains("ferry_transfer_responses_total{protocol=\"1.1\"}"))
        #expect(metrics.contains("ferry_transfer_responses_total{protocol=\"2\"}"))
    }

    @Test("FERRY_PROXY applies to all hosts except those in FERRY_NO_PROXY")
    func serviceProxy() throws {
        let proxy = try TestProxy(.http, asksForCredentials: true)
        defer { proxy.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [1, 2, 3])
        let ownDatabase = try TestDatabase()
        let own = try FerryProcess([
            "FERRY_DATABASE_URL": ownDatabase.url, "FERRY_NO_PROXY": "127.0.0.0/8",
            "FERRY_PROXY": proxy.url.replacing("http://", with: "http://user:secret@"),
        ])
        defer { own.remove() }
        for (host, count) in [("localhost", 1), ("127.0.0.1", 1), ("localhost", 2)] {
            let job = try own.run(
                #"{"kind":"download","request":{"url":"http://\#(host):\#(nginx.port)/file"}}"#)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect(proxy.requests.count == count, "\(host)")
        }
        let blocked = try own.call(
            "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"http://10.0.0.1/"}}"#)
        #expect(blocked.status == 422, "a private address is rejected also with a proxy")
        #expect(!own.log.contains("secret@"))
    }

    @Test("options of ferry get set CA, client certificate, pin, and a password from a file")
    func commands() throws {
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        try nginx.serve("file", Array("hello".utf8))
        let directory = try TemporaryDirectory.make("options")
        defer { TemporaryDirectory.remove(directory) }
        try writeFile(directory + "/ca", Array(authority.certificate.utf8))
        try writeFile(directory + "/cert", Array(authority.alice.certificate.utf8))
        try writeFile(directory + "/key", Array(authority.alice.key.utf8))
        try writeFile(directory + "/password", Array("secret\n".utf8))
        let environment = ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey, "PATH": "/usr/bin:/bin"]
        let options = [
            "--ca-file", directory + "/ca", "--cert-file", directory + "/cert", "--cert-key-file",
            directory + "/key", "--pin", authority.server.pin, "--user", "me", "--password-file",
            directory + "/password", "--http-version", "1.1",
        ]
        let got = try Program.run(
            [Program.ferry, "get", nginx.url(.mutual) + "/echo", "-o", "-"] + options,
            environment: environment)
        #expect(got.status == 0, "\(got.messages)")
        #expect(got.output == "CN=alice|Basic " + Base64.encode(Array("me:secret".utf8)) + "|HTTP/1.1")
        let bad = try Program.run(
            [Program.ferry, "get", nginx.url(.mutual) + "/echo", "--user", "me"], environment: environment)
        #expect(bad.status == 2 && bad.messages.contains("--password-file"), "\(bad.messages)")
    }

    @Test("proxy variables of the environment have no effect")
    func environmentProxies() throws {
        let unusedURL = "http://127.0.0.1:1"
        let own = try TestDatabase()
        var settings = ["FERRY_DATABASE_URL": own.url]
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
            settings[name] = unusedURL
        }
        settings["no_proxy"] = "127.0.0.1"
        let ferry = try FerryProcess(settings)
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let direct = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(nginx.url)/echo-headers"},"retry":{"max_attempts":1}}"#)
        #expect(direct["response"]?["status"]?.integer == 200, "\(direct)")
        // no_proxy has no effect either.
        let named = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(nginx.url)/echo-headers","proxy":{"url":"\#(unusedURL)"}},"#
                + #""retry":{"max_attempts":1},"schedule":{"waits_for_connectivity":false}}"#)
        #expect(named["error"]?["code"]?.string == "could_not_connect", "\(named)")
    }
}
