import FerryCore
import Testing

@Suite("Scopes of requests")
struct RequestScopeTests {
    @Test(
        "the path of a scope is the first segment, at most 64 bytes of it",
        arguments: [
            ("http://a.example", "/"), ("http://a.example/", "/"), ("http://a.example?q=/x", "/"),
            ("https://a.example:8443/one", "/one"), ("https://a.example/one/two?q", "/one"),
            ("https://a.example/one?q=/two", "/one"), ("https://a.example//two", "/"),
            ("https://a.example/%C3%A9/x", "/%C3%A9"),
            (
                "https://a.example/" + String(repeating: "x", count: 99),
                "/" + String(repeating: "x", count: 64)
            ),
        ])
    func paths(text: String, path: String) throws {
        let url = try WebURL.parse(text)
        #expect(RequestScope.path(of: url, credentials: nil) == path)
        #expect(RequestScope.path(ofURL: url.string, credentials: nil) == path)
        let secret = RequestScope.path(of: url, credentials: "abc")
        #expect(secret == path + "#abc" && secret == RequestScope.path(ofURL: url.string, credentials: "abc"))
        #expect(RequestScope.credentials(in: secret) == "abc" && RequestScope.credentials(in: path) == nil)
    }

    @Test("URLs are equal if their texts are")
    func equality() throws {
        let url = try WebURL.parse("HTTP://A.example:80/x")
        #expect(url.string == "http://a.example/x" && url.origin == "http://a.example:80")
        #expect(try url == WebURL.parse("http://a.example/x") && Set([url, url]).count == 1)
        for other in [
            "https://a.example/x", "http://a.example:81/x", "http://a.example/x?", "http://b.example/x",
        ] {
            #expect(try url != WebURL.parse(other))
        }
        #expect(try WebURL.parse("https://[::1]:8443/?q").origin == "https://[::1]:8443")
    }
}
