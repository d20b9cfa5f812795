import FerryCore
import Testing

@Suite("Choice of a session's credential")
struct CredentialChoiceTests {
    private static let now = Timestamp(microseconds: 0)

    /// A credential for `https://a.example` with the name of its description: `realm/method`, each may be
    /// `*`; a token for `bearer`, else a password.
    static func record(
        _ text: String, origin: String = "https://a.example", secret: String? = nil
    ) throws -> CredentialRecord {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        let url = try WebURL.parse(origin)
        let realm = parts[0] == "*" ? "null" : "\"\(parts[0])\""
        let method = parts[1] == "*" ? "default" : parts[1]
        let secrets =
            method == "bearer"
            ? #""token":"\#(secret ?? text)""# : #""user":"u","password":"\#(secret ?? text)""#
        let json = #"""
            {"protection_space":{"scheme":"\#(url.scheme.rawValue)","host":"\#(url.host)","port":\#(url.port),
            "realm":\#(realm),"method":"\#(method)"},\#(secrets)}
            """#
        var node = NodeAbilities()
        node.hasNTLM = true
        let draft = try CredentialDraft(JSONView(parsing: Array(json.utf8)), node: node, seal: { $0 })
        return CredentialRecord(
            text, revision: 1, createdAt: now, updatedAt: now, credential: draft.credential,
            secrets: draft.secrets)
    }

    private static let both = [#"Basic realm="files""#, #"Digest realm="files", nonce="n", qop="auth""#]

    @Test(
        "the strongest scheme wins, then a named realm, then a named method, then the first name",
        arguments: [
            (["*/*"], both, "*/* digest"),
            (["*/basic"], both, "*/basic basic"),
            (["files/basic", "*/digest"], both, "*/digest digest"),
            (["files/*", "*/digest"], both, "files/* digest"),
            (["files/*", "files/digest"], both, "files/digest digest"),
            (["other/*", "*/*"], both, "*/* digest"),
            (["other/*"], both, nil),
            (["FILES/*"], both, nil),
            (["*/bearer"], both, nil),
            (["*/bearer", "*/*"], ["Bearer", #"Basic realm="files""#], "*/bearer bearer"),
            (["*/ntlm", "*/basic"], ["NTLM", #"Basic realm="files""#], "*/ntlm ntlm"),
            (["*/*"], ["Negotiate"], nil),
            (["*/*"], [], nil),
            (["second/*"], [#"Basic realm="first", Basic realm="second""#], "second/* basic"),
            (["*/digest"], ["Digest nonce=n"], "*/digest digest"),
            (["files/digest"], ["Digest nonce=n"], nil),
        ])
    func table(_ names: [String], _ fields: [String], _ expected: String?) throws {
        let credentials = try names.map { try Self.record($0) }
        let url = try WebURL.parse("https://a.example/x")
        for list in [credentials, credentials.reversed()] {
            let chosen = list.choice(
                for: AuthenticationChallenge.all(in: fields), from: url.origin, hasNTLM: true, except: [])
            #expect(chosen.map { "\($0.name) \($0.scheme.rawValue)" } == expected, "\(names) \(fields)")
        }
    }

    @Test("of two equal credentials the first name is chosen, and a refused one is passed over")
    func names() throws {
        let one = try Self.record("*/basic")
        let two = CredentialRecord(
            "+", revision: 1, createdAt: Self.now, updatedAt: Self.now, credential: one.credential,
            secrets: one.secrets)
        let challenges = AuthenticationChallenge.all(in: [#"Basic realm="r""#])
        let url = try WebURL.parse("https://a.example/")
        for list in [[one, two], [two, one]] {
            let choose = { (refused: [String]) in
                list.choice(for: challenges, from: url.origin, hasNTLM: false, except: refused)?.name
            }
            #expect(choose([]) == "*/basic" && choose(["*/basic"]) == "+")
            #expect(choose(["*/basic", "+"]) == nil)
        }
    }

    @Test(
        "a credential is for its scheme, host and port only",
        arguments: [
            ("https://a.example/x", true), ("https://A.example:443/y?z", true), ("http://a.example/x", false),
            ("https://a.example:8443/x", false), ("https://b.a.example/x", false),
            ("https://example/x", false), ("http://a.example:443/x", false),
        ])
    func origins(_ url: String, _ isChosen: Bool) throws {
        let credentials = [try Self.record("*/*")]
        let chosen = credentials.choice(
            for: AuthenticationChallenge.all(in: Self.both), from: try WebURL.parse(url).origin,
            hasNTLM: true,
            except: [])
        #expect((chosen != nil) == isChosen)
    }

    @Test("NTLM is not chosen if libcurl has none, and neither is a credential that cannot be decrypted")
    func unusable() throws {
        let url = try WebURL.parse("https://a.example/")
        let ntlm = AuthenticationChallenge.all(in: ["NTLM"])
        #expect(
            try [Self.record("*/*")].choice(for: ntlm, from: url.origin, hasNTLM: false, except: []) == nil)
        let damaged = CredentialRecord(
            "a", revision: 1, createdAt: Self.now, updatedAt: Self.now,
            credential: try Self.record("*/*").credential, secrets: nil)
        let basic = AuthenticationChallenge.all(in: ["Basic realm=r"])
        #expect([damaged].choice(for: basic, from: url.origin, hasNTLM: true, except: []) == nil)
    }

    @Test(
        "a path is in the space of a challenged one at its depth and below (RFC 7617 section 2.2)",
        arguments: [
            ("/docs/index.html", "/docs/", true), ("/docs/index.html", "/docs/test.doc", true),
            ("/docs/index.html", "/docs/a/b", true), ("/docs/index.html", "/docs", false),
            ("/docs/index.html", "/", false), ("/docs/index.html", "/other/a", false),
            ("/docs/index.html", "/docsx/a", false), ("/docs", "/", true), ("/docs/", "/docs/a", true),
            ("/docs/", "/doc", false), ("/", "/a/b", true),
        ])
    func paths(_ challenged: String, _ path: String, _ isContained: Bool) {
        var paths = ProtectedPaths()
        #expect(!paths.contains(path))
        paths.add(challenged)
        #expect(paths.contains(path) == isContained)
    }

    @Test("the number of paths is limited, and a path above others replaces them")
    func manyPaths() {
        var paths = ProtectedPaths()
        for index in 0..<33 { paths.add("/\(index)/a") }
        #expect(!paths.contains("/0/a") && paths.contains("/1/a") && paths.contains("/32/a"))
        paths.add("/a")
        #expect(paths.contains("/0/a") && paths.depth(of: "/1/a") == 1)
    }
}
