import FerryCore
import Testing

/// A node that accepts every text with these words as a certificate or key.
private let ableNode = NodeAbilities(
    hasHTTP3: true, certificateError: { $0.contains("CERTIFICATE") ? nil : "This is no certificate." },
    keyError: { $0.contains("KEY") && $1 != nil ? nil : "This is no key." })

private func request(_ members: String, scheme: String = "https") -> String {
    #"{"kind":"data","request":{"url":"\#(scheme)://a.example/",\#(members)}}"#
}

private func accepted(_ members: String, scheme: String = "https") throws -> JobRequest {
    try JobRequest(JSONView(parsing: Array(request(members, scheme: scheme).utf8)), node: ableNode) { _ in
        nil
    }
}

private func refused(_ members: String, scheme: String = "https") throws -> [String] {
    do {
        _ = try JobRequest(JSONView(parsing: Array(request(members, scheme: scheme).utf8)), node: ableNode) {
            $0.host == "10.0.0.1" ? "This address may not be reached." : nil
        }
        return []
    } catch let error as InvalidFields {
        return error.errors.map { "\($0.pointer.dropFirst("#/request/".count)) \($0.code)" }
    }
}

@Suite("Connection rules")
struct ConnectionRulesTests {
    private static let pin = "sha256//" + Base64.encode([UInt8](repeating: 7, count: 32))

    @Test("a job without connection rules stores none and shows the defaults")
    func plain() throws {
        let job = try accepted(#""auth":null,"tls":null,"proxy":null,"http_version":"auto""#)
        #expect(job.spec.request.connection == nil && job.secrets.isEmpty)
        let shown = try JSON.parse(job.spec.encode())["request"]
        #expect(shown?["http_version"]?.string == "auto")
        for name in ["auth", "tls", "proxy"] { #expect(shown?[name]?.isNull == true) }
        let stored = try JSON.parse(job.spec.encodeStored())["request"]
        for name in ["auth", "tls", "proxy"] { #expect(stored?[name] == nil) }
    }

    @Test("all rules are stored, read back, and shown without secrets")
    func everything() throws {
        let job = try accepted(
            #""http_version":"2","auth":{"type":"digest","user":"ü","password":"hush-1"},"#
                + #""tls":{"ca":"CERTIFICATE hush-2","client_certificate":"CERTIFICATE hush-3","#
                + #""client_key":"KEY hush-4","pins":["\#(Self.pin)"],"minimum_version":"1.3"},"#
                + #""proxy":{"url":"HTTPS://Proxy.example:8443/","user":"me","password":"hush-5","#
                + #""ca":"CERTIFICATE hush-6","no_proxy":["example.org","10.0.0.0/8"]}"#)
        let spec = job.spec
        #expect(spec.request.connection?.httpVersion == .http2)
        #expect(spec.request.connection?.authentication == .init(.digest, user: "ü"))
        #expect(spec.request.connection?.proxy?.url.string == "https://proxy.example:8443")
        #expect(spec.request.connection?.tls?.pins == [Self.pin])
        #expect(job.secrets.connection?.clientKey == "KEY hush-4")
        #expect(try JobSpec(storedJSON: spec.encode()) == spec)
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
        #expect(try JobSecrets(json: job.secrets.encode()) == job.secrets)
        let shown = String(decoding: spec.encode(), as: UTF8.self)
        #expect(!shown.contains("hush"))
        let request = try JSON.parse(spec.encode())["request"]
        for (object, name) in [
            ("auth", "password"), ("tls", "ca"), ("tls", "client_key"), ("proxy", "password"),
            ("proxy", "ca"),
        ] {
            #expect(request?[object]?[name]?["set"]?.bool == true, "\(object).\(name)")
        }
        #expect(request?["auth"]?["token"]?.isNull == true)
    }

    @Test("a bearer token is encrypted")
    func bearer() throws {
        let job = try accepted(#""auth":{"type":"bearer","token":"abc"}"#, scheme: "http")
        #expect(job.secrets.connection?.token == "abc")
        #expect(try JobSpec(storedJSON: job.spec.encodeStored()) == job.spec)
    }

    @Test(
        "invalid values and combinations are rejected with their pointers",
        arguments: [
            (#""auth":{"type":"basic"}"#, ["auth/user required", "auth/password required"]),
            (#""auth":{}"#, ["auth/type required"]),
            (#""auth":{"type":"negotiate"}"#, ["auth/type invalid_value"]),
            (#""auth":{"type":"ntlm","user":"a","password":"b"}"#, ["auth/type not_supported"]),
            (
                #""proxy":{"url":"socks5://p.example:1","user":"a","password":"b","type":"digest"}"#,
                ["proxy/type invalid_combination"]
            ),
            (#""auth":{"type":"bearer","token":"a b"}"#, ["auth/token invalid_value"]),
            (#""auth":{"type":"bearer","token":"a","user":"b"}"#, ["auth/user invalid_combination"]),
            (#""auth":{"type":"basic","user":"a:b","password":""}"#, ["auth/user invalid_value"]),
            (#""auth":{"type":"basic","user":"a","password":"\n"}"#, ["auth/password invalid_value"]),
            (#""auth":{"type":"basic","user":"a","password":{"set":true}}"#, ["auth/password wrong_type"]),
            (#""auth":{"type":"bearer","token":"a","x":1}"#, ["auth/x unknown_field"]),
            (
                #""headers":{"authorization":"x"},"auth":{"type":"bearer","token":"a"}"#,
                ["auth invalid_combination"]
            ),
            (#""tls":{"ca":"x"}"#, ["tls/ca invalid_value"]),
            (#""tls":{"client_certificate":"CERTIFICATE"}"#, ["tls/client_key required"]),
            (#""tls":{"client_key":"KEY"}"#, ["tls/client_certificate required"]),
            (
                #""tls":{"client_certificate":"CERTIFICATE","client_key":"x"}"#,
                ["tls/client_key invalid_value"]
            ),
            (#""tls":{"pins":["sha256//AAAA"]}"#, ["tls/pins/0 invalid_value"]),
            (#""tls":{"pins":["AAAA"]}"#, ["tls/pins/0 invalid_value"]),
            (#""tls":{"minimum_version":"1.1"}"#, ["tls/minimum_version invalid_value"]),
            (
                #""tls":{"minimum_version":"1.3","maximum_version":"1.2"}"#,
                ["tls/maximum_version invalid_combination"]
            ),
            (#""proxy":{}"#, ["proxy/url required"]),
            (#""proxy":{"url":"http://p.example"}"#, ["proxy/url invalid_value"]),
            (#""proxy":{"url":"ftp://p.example:21"}"#, ["proxy/url invalid_value"]),
            (#""proxy":{"url":"http://a:b@p.example:1"}"#, ["proxy/url invalid_value"]),
            (#""proxy":{"url":"http://p.example:1/x"}"#, ["proxy/url invalid_value"]),
            (#""proxy":{"url":"http://10.0.0.1:3128"}"#, ["proxy/url blocked_address"]),
            (#""proxy":{"url":"socks5://p.example:1","user":"a"}"#, ["proxy/password required"]),
            (#""proxy":{"url":"socks5://p.example:1","password":"a"}"#, ["proxy/user required"]),
            (#""proxy":{"url":"http://p.example:1","ca":"CERTIFICATE"}"#, ["proxy/ca invalid_combination"]),
            (#""proxy":{"url":"http://p.example:1","no_proxy":["a/b"]}"#, ["proxy/no_proxy/0 invalid_value"]),
            (
                #""http_version":"3","proxy":{"url":"http://p.example:1"}"#,
                ["http_version invalid_combination"]
            ),
        ])
    func refusals(members: String, expected: [String]) throws {
        #expect(try refused(members) == expected)
    }

    @Test("TLS fields on an http URL are rejected")
    func secureOnly() throws {
        #expect(try refused(#""tls":{}"#, scheme: "http") == ["tls invalid_combination"])
        #expect(
            try refused(#""http_version":"3""#, scheme: "http") == ["http_version invalid_combination"])
        #expect(try refused(#""http_version":"2""#, scheme: "http").isEmpty)
        #expect(try accepted(#""http_version":"3""#).spec.request.connection?.httpVersion == .http3)
    }

    @Test("texts above the limits are rejected")
    func bounds() throws {
        let long = String(repeating: "x", count: Limits.pemByteCountMax + 1)
        #expect(try refused(#""tls":{"ca":"\#(long)"}"#) == ["tls/ca too_long"])
        let token = String(repeating: "x", count: Limits.tokenByteCountMax + 1)
        #expect(try refused(#""auth":{"type":"bearer","token":"\#(token)"}"#) == ["auth/token too_long"])
    }

    @Test("a node that cannot read certificates rejects them")
    func unable() throws {
        #expect(
            errors(request(#""tls":{"ca":"CERTIFICATE"}"#)).map(\.pointer) == ["#/request/tls/ca"])
        #expect(errors(request(#""http_version":"3""#)).map(\.code) == ["not_supported"])
    }

    @Test("proxy URLs are read with and without credentials")
    func proxyURLs() throws {
        #expect(try ProxyURL("socks5h://[2001:DB8::1]:1080").string == "socks5://[2001:db8::1]:1080")
        #expect(throws: ProxyURL.Failure.missingPort) { try ProxyURL("http://[2001:db8::1]") }
        #expect(throws: ProxyURL.Failure.userInformation) { try ProxyURL("http://a@b:1") }
        let full = try ProxyURL.withCredentials("http://a%40b:p%3a%20@c.example:3128/")
        #expect(full.url.string == "http://c.example:3128" && full.user == "a@b" && full.password == "p: ")
        #expect(throws: ProxyURL.Failure.credentials) { try ProxyURL.withCredentials("http://a:%zz@b:1") }
    }

    @Test(
        "hosts of no_proxy bypass the proxy",
        arguments: [
            ("example.org", "http://example.org/", true), ("example.org", "http://a.EXAMPLE.org./", true),
            (".example.org", "http://a.example.org/", true), ("example.org", "http://badexample.org/", false),
            ("*", "http://x/", true), ("10.0.0.0/8", "http://10.1.2.3/", true),
            ("10.0.0.0/8", "http://11.0.0.1/", false),
            ("10.0.0.1", "http://167772161/", true), ("fd00::/8", "http://[fd00::1]/", true),
            ("10.0.0.0/8", "http://example.org/", false),
            (".bücher.example", "http://a.xn--bcher-kva.example/", true),
            ("xn--tda.example", "http://Ü.example/", true),
        ])
    func bypass(entry: String, url: String, isExcepted: Bool) throws {
        #expect(ProxyBypass.isEntry(entry))
        #expect(ProxyBypass([entry]).contains(try WebURL.parse(url)) == isExcepted)
    }
}
