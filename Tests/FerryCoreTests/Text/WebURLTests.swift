import FerryCore
import Testing

@Suite("Web URLs")
struct WebURLTests {
    @Test(
        "an accepted URL is normalised",
        arguments: [
            ("http://Example.COM", "http://example.com/"),
            ("HTTPS://example.com:443/a?b=c#d", "https://example.com/a?b=c"),
            ("https://example.com:8443/", "https://example.com:8443/"),
            ("http://example.com:/x", "http://example.com/x"),
            ("http://example.com?q", "http://example.com/?q"),
            ("http://example.com/a/./b/../c", "http://example.com/a/c"),
            ("http://example.com/a/%2E%2e/c", "http://example.com/c"),
            ("http://example.com/../../c/", "http://example.com/c/"),
            ("http://example.com/ä?ö", "http://example.com/%C3%A4?%C3%B6"),
            ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]/"),
            ("http://127.1/", "http://127.0.0.1/"), ("http://192.0.2.1.:81/x", "http://192.0.2.1:81/x"),
            ("http://a_b.example./", "http://a_b.example./"),
            ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/"),
            ("  http://example.com/a b?c d \n", "http://example.com/a%20b?c%20d"),
            ("http://Bücher.Example/ü", "http://xn--bcher-kva.example/%C3%BC"),
            ("http://Bu\u{308}cher.example/", "http://xn--bcher-kva.example/"),
            ("http://b%C3%BCcher.example:8080", "http://xn--bcher-kva.example:8080/"),
            ("http://exa%6Dple.com/", "http://example.com/"), ("http://faß.de/", "http://xn--fa-hia.de/"),
            ("http://例え。テスト/", "http://xn--r8jz45g.xn--zckzah/"),
            ("http://１２７.０.０.１/", "http://127.0.0.1/"), ("http://ｌｏｃａｌｈｏｓｔ/", "http://localhost/"),
            ("http://☃.net/", "http://xn--n3h.net/"), ("http://i❤️.ws/", "http://xn--i-7iq.ws/"),
            ("http://r3---x.bücher.example/", "http://r3---x.xn--bcher-kva.example/"),
            // Addresses (WHATWG URL §3.6 and its examples).
            ("http://2130706433/", "http://127.0.0.1/"), ("http://0x7F000001:81/", "http://127.0.0.1:81/"),
            ("http://0177.0.0.01/", "http://127.0.0.1/"), ("http://0/", "http://0.0.0.0/"),
            ("http://192.0x00A80001/", "http://192.168.0.1/"),
            ("http://0xc0.0250.01./", "http://192.168.0.1/"),
            ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"), ("http://[0::0]/", "http://[::]/"),
            ("http://[::FFFF:10.0.0.1]/", "http://[::ffff:a00:1]/"),
            ("http://[2001:db8:0:1:0:0:0:1]/", "http://[2001:db8:0:1::1]/"),
            ("http://[1:0:0:2:0:0:3:4]/", "http://[1::2:0:0:3:4]/"),
            ("http://[1:0:2:3:4:5:6:7]/", "http://[1:0:2:3:4:5:6:7]/"),
            ("http://[2001:0db8:0000::]/", "http://[2001:db8::]/"),
            // Characters that no URL may contain (RFC 3986 §3.3 and §3.4).
            (
                #"http://a/"<>^`{|}?"<>^`{|}\"#,
                "http://a/%22%3C%3E%5E%60%7B%7C%7D?%22%3C%3E%5E%60%7B%7C%7D%5C"
            ),
            (#"http://a/b\c\..\d?e\f"#, "http://a/b/d?e%5Cf"), (#"http://a/\x"#, "http://a//x"),
            // Allowed, or kept by browsers: a signature may cover these bytes.
            ("http://a/!$&'()*+,;=:@-._~%7c[]?!$&'()*+,;=:@-._~/?%7c[]", nil),
        ] as [(String, String?)])
    func normalised(text: String, expected: String?) throws {
        let url = try WebURL.parse(text)
        #expect(url.string == expected ?? text)
        #expect(try WebURL.parse(url.string) == url, "it is read back unchanged")
    }

    @Test(
        "an ambiguous URL or one that is not HTTP is rejected",
        arguments: [
            ("", .notAbsolute), ("/path", .notAbsolute), ("//host/", .notAbsolute),
            ("example.com", .notAbsolute),
            ("http:/example.com", .notAbsolute), ("http:example.com", .notAbsolute),
            ("ftp://example.com/", .unsupportedScheme), ("file:///etc/passwd", .unsupportedScheme),
            ("gopher://x", .unsupportedScheme),
            ("http://user@example.com/", .userInformation), ("http://u:p@example.com/", .userInformation),
            ("http://a.example\\@b.example/", .userInformation), ("http://a.example\\b/", .invalidHost),
            ("http:///path", .emptyHost), ("http://:80/", .emptyHost), ("http://", .emptyHost),
            ("http://\u{E000}.example/", .invalidInternationalHost),
            ("http://a%FF.example/", .invalidInternationalHost),
            ("http://ü%00.example/", .invalidInternationalHost),
            ("http://ü%2541.example/", .invalidInternationalHost),
            ("http://a%2541.example/", .invalidHost), ("http://２５６.1.1.1/", .invalidHost),
            ("http://ａ／ｂ/", .invalidHost), ("http://%20/", .invalidHost), ("http://\u{AD}/", .emptyHost),
            ("http://" + String(repeating: "ü", count: 80) + "/", .invalidInternationalHost),
            ("http://a..b/", .invalidHost),
            ("http://[::1/", .invalidHost),
            ("http://[::1]x/", .invalidHost), ("http://[1.2.3.4]/", .invalidHost),
            ("http://::1/", .emptyHost),
            ("http://1.2.3.4.5/", .invalidHost), ("http://256.1.1.1/", .invalidHost),
            ("http://09/", .invalidHost),
            ("http://4294967296/", .invalidHost), ("http://[fe80::1%25eth0]/", .zoneIdentifier),
            ("http://a:0/", .invalidPort), ("http://a:65536/", .invalidPort), ("http://a:+1/", .invalidPort),
            ("http://a:80:90/", .invalidPort), ("http://a b/", .invalidHost),
            ("http://a/\r\nHost: b", .controlCharacter), ("http://a/\tb", .controlCharacter),
            ("http://a/\u{7F}", .controlCharacter), ("http://a/\u{0}b", .controlCharacter),
            ("http://a/" + String(repeating: "x", count: 8_192), .tooLong),
            ("http://a/" + String(repeating: "ä", count: 3_000), .tooLong),
        ] as [(String, WebURL.Failure)])
    func refused(text: String, failure: WebURL.Failure) {
        #expect(throws: failure) { try WebURL.parse(text) }
    }

    @Test("the URL that a text with control characters means has no tabs and line breaks")
    func ignoringControls() {
        #expect(WebURL.parseIgnoringControls("http://a/b\r\n\tc\u{1}")?.string == "http://a/bc%01")
        #expect(WebURL.parseIgnoringControls("ht tp://a/") == nil)
    }

    // RFC 3986 §5.4, without references of other schemes.
    @Test(
        "references are resolved as in RFC 3986",
        arguments: [
            ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g/"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"), ("g#s", "http://a/b/c/g"), (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"),
            ("g/./h", "http://a/b/c/g/h"), ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            ("https://h:8443/z", "https://h:8443/z"), (" /with space ", "http://a/with%20space"),
            ("//u:p%40@h/z", "http://u:p%40@h/z"), ("http://u@h@i/", "http://u@h@i/"),
            ("//@h/", "http://h/"), ("//Ü.example/x y", "http://xn--tda.example/x%20y"),
            ("http://%C3%BC.example:81", "http://xn--tda.example:81/"),
            ("http://127.1/", "http://127.0.0.1/"),
            // The server chose these bytes.
            (#"/{a}|b\c^?"<`>""#, #"http://a/{a}|b\c^?"<`>""#),
        ])
    func resolved(reference: String, expected: String) throws {
        let base = try WebURL.parse("http://a/b/c/d;p?q")
        #expect(try base.resolving(reference).string == expected)
    }

    @Test("a resolved reference keeps the port of its base and is validated")
    func resolvedChecks() throws {
        let base = try WebURL.parse("https://a:8443/x")
        #expect(try base.resolving("/y").string == "https://a:8443/y")
        #expect(try base.resolving("//b/y").string == "https://b/y")
        #expect(throws: WebURL.Failure.unsupportedScheme) { try base.resolving("ftp://b/") }
        let user = try base.resolving("//u:%20@b/")
        #expect(user.url.string == "https://b/" && user.userInformation == "u:%20")
        #expect(throws: WebURL.Failure.invalidHost) { try base.resolving("//b\\@c/") }
        let long = "/?" + String(repeating: "x", count: 16_000)
        #expect(try base.resolving(long).string == "https://a:8443" + long)
        #expect(throws: WebURL.Failure.tooLong) { try base.resolving(long + long) }
        #expect(throws: WebURL.Failure.tooLong) {
            try base.resolving("/" + String(repeating: "ä", count: 6_000))
        }
        #expect(throws: WebURL.Failure.invalidPort) { try base.resolving("//b:70000/") }
        #expect(throws: WebURL.Failure.notAbsolute) { try base.resolving("https:b") }
        #expect(throws: WebURL.Failure.controlCharacter) { try base.resolving("/a\r\nb") }
    }

    @Test("the origin contains the port and differs by scheme, host and port")
    func origin() throws {
        let url = try WebURL.parse("https://Example.com/a")
        #expect(url.origin == "https://example.com:443")
        #expect(url.isSameOrigin(as: try WebURL.parse("https://example.com:443/b?c")))
        #expect(!url.isSameOrigin(as: try WebURL.parse("http://example.com:443/a")))
        #expect(!url.isSameOrigin(as: try WebURL.parse("https://example.com:444/a")))
        #expect(!url.isSameOrigin(as: try WebURL.parse("https://example.org/a")))
    }
}
