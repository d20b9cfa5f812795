import FerryCore
import Testing

@Suite("References to hosts")
struct HostReferenceTests {
    private static let long = String(repeating: "a", count: 63)
    /// 253 characters.
    private static let longName = "\(long).\(long).\(long)." + String(repeating: "b", count: 61)

    private static let right: [(text: String, origin: String)] = [
        ("example.org", "https://example.org:443"), ("Example.ORG.", "https://example.org.:443"),
        ("example.org:8443", "https://example.org:8443"), ("example.org:", "https://example.org:443"),
        ("example.org/", "https://example.org:443"), ("http://example.org", "http://example.org:80"),
        ("HTTPS://example.org:00080/", "https://example.org:80"), ("a_b-c", "https://a_b-c:443"),
        ("a.1b", "https://a.1b:443"), ("127.0.0.1", "https://127.0.0.1:443"),
        ("127.1", "https://127.0.0.1:443"),
        ("127.0.1:65535", "https://127.0.0.1:65535"), ("0", "https://0.0.0.0:443"),
        ("0x7f000001", "https://127.0.0.1:443"),
        ("0177.0.0.01", "https://127.0.0.1:443"), ("[::1]", "https://[::1]:443"),
        ("[2001:DB8::1]:80", "https://[2001:db8::1]:80"), ("http://[::]/", "http://[::]:80"),
        ("[1:2:3:4:5:6:7:8]", "https://[1:2:3:4:5:6:7:8]:443"), (longName, "https://\(longName):443"),
        ("é.example", "https://xn--9ca.example:443"),
        ("http://a.É.example:81/", "http://a.xn--9ca.example:81"),
    ]

    private static let wrong = [
        "", "/", "//", "://", "https://", "ftp://example.org", "example.org/x", "example.org//",
        "example.org?",
        "example.org?x", "example.org#", "example.org#x", "example.org/.", "https://example.org/..", "a b",
        "a\u{0}",
        "é b.example", "a%C3%A9.example", " example.org", "a..b", ".a", "user@example.org", "example.org:0",
        "example.org:00000",
        "example.org:65536",
        "example.org:000080", "example.org:x", "a.256", "256.1.1.1", "1.2.3.4.5", "0x", "a.0x", "08",
        "1.2.3.256",
        "[::1", "::1", "[::1]x", "[::g]", "[1:2:3]", "[fe80::1%25eth0]", "a:1:2", "\(long)a", "\(longName)c",
        "https://\(longName)cc:65535/",
    ]

    /// Returns `true` if the expression matches the text and `HostReference.exclusion` does not.
    private static func matches(_ expression: String, _ text: String) throws -> Bool {
        try Regex(expression).wholeMatch(in: text) != nil
            && Regex(HostReference.exclusion).firstMatch(in: text) == nil
    }

    @Test("a reference is a name, an address or an origin, and its pattern matches the same texts")
    func references() throws {
        for (text, origin) in Self.right {
            #expect(HostReference(text)?.origin == origin, "\(text)")
            #expect(try Self.matches(HostReference.pattern, text), "\(text)")
            #expect(text.unicodeScalars.count <= HostReference.characterCountMax)
        }
        for text in Self.wrong {
            // `0x` is the address 0 for inet_aton(3), and so for URLs.
            let isAddress = text == "0x"
            #expect((HostReference(text) != nil) == isAddress, "\(text)")
            #expect(try Self.matches(HostReference.pattern, text) == isAddress, "\(text)")
        }
    }

    @Test("the origin of a reference matches the pattern of origins and is a reference to itself")
    func origins() throws {
        for (text, origin) in Self.right {
            #expect(try Self.matches(HostReference.originPattern, origin), "\(text): \(origin)")
            #expect(HostReference(origin)?.origin == origin)
        }
        for text in [
            "example.org", "https://example.org", "https://Example.org:443", "https://a:0443", "https://a:",
            "https://0.:1",
            "https://127.0.0.1.:443",
        ] {
            #expect(try !Self.matches(HostReference.originPattern, text), "\(text)")
            #expect(HostReference(text)?.origin != text)
        }
    }

    @Test("a reference has a port only if the text has one")
    func ports() {
        #expect(HostReference("example.org")?.port == nil && HostReference("[::1]")?.port == nil)
        #expect(HostReference("example.org:443")?.port == 443 && HostReference("[::1]:1")?.port == 1)
        #expect(HostReference("example.org")?.scheme == nil)
        #expect(HostReference("http://example.org")?.port == 80)
    }
}
