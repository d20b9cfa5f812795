import FerryCore
import Testing

@Suite struct OriginPatternTests {
    @Test(
        "a pattern contains the URLs of its origin only",
        arguments: [
            ("https://a.example", "https://a.example/x?y", true),
            ("https://A.example:443", "https://a.example/", true),
            ("https://a.example", "http://a.example/", false),
            ("https://a.example", "https://a.example:8443/", false),
            ("https://a.example", "https://b.a.example/", false),
            ("https://*.a.example", "https://b.a.example/", true),
            ("https://*.a.example", "https://c.b.a.example/", true),
            ("https://*.a.example", "https://a.example/", false),
            ("https://*.a.example", "https://ba.example/", false),
            ("https://*.a.example", "https://b.a.example:8443/", false),
            ("http://*.a.example:8080", "http://b.a.example:8080/", true),
            ("http://127.0.0.1:81", "http://127.0.0.1:81/", true),
            ("http://[::1]:81", "http://[::1]:81/", true),
            ("https://*.Bücher.example", "https://a.xn--bcher-kva.example/", true),
        ])
    func contains(pattern: String, url: String, isIn: Bool) throws {
        #expect(try OriginPattern(pattern).contains(try WebURL.parse(url)) == isIn)
    }

    @Test(
        "a text that is not an origin is rejected",
        arguments: [
            "", "a.example", "ftp://a.example", "https://", "https://a.example/", "https://a.example/x",
            "https://a.example?x", "https://a.example#x", "https://u@a.example", "https://*", "https://*.",
            "https://a.*.example", "https://*a.example", "https://*.*.example", "https://*.127.0.0.1",
            "*://a.example", "https://a.example:0", "https://a example",
        ])
    func refused(text: String) {
        #expect(throws: OriginPattern.Failure.self) { try OriginPattern(text) }
    }

    @Test("the text of a pattern has no default port and is read back as the same pattern")
    func string() throws {
        for (text, written) in [
            ("HTTPS://*.A.example:443", "https://*.a.example"),
            ("http://a.example:81", "http://a.example:81"),
            ("https://*.ü.example", "https://*.xn--tda.example"),
        ] {
            let pattern = try OriginPattern(text)
            #expect(pattern.string == written)
            #expect(try OriginPattern(written) == pattern)
        }
    }
}
