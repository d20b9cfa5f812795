import FerryCore
import Testing

/// Forms of cookies outside of a jar: the JSON of the API, `cookies.txt`, and the stored bytes.
@Suite("Forms of cookies") struct CookieFormTests {
    private static let cookies: [Cookie] = [
        .test("a", "1"), .test("", "x=y", isHostOnly: true), .test("b", "", path: "/x%20y"),
        .test("c", "\"1, 2\"", expiresAt: Timestamp(microseconds: 1_800_000_000_000_000)),
        .test("__Host-d", "é", isHostOnly: true, isSecure: true, isHTTPOnly: true, sameSite: .strict),
        .test("e", "1", isSecure: true, sameSite: .unrestricted), .test("f", "1", sameSite: .lax),
        .test("g", "1", domain: "127.0.0.1"), .test("h", "1", domain: "[::1]", isHostOnly: true),
        .test(
            "i", "1", domain: "com", isHostOnly: true, createdAt: cookieTime + -9,
            lastAccessAt: cookieTime + 1),
        octets,
    ]
    private static var octets: Cookie {
        var cookie = Cookie.test()
        (cookie.name, cookie.value) = ([0xFF], [0xC3, 0x28])
        return cookie
    }

    private static func read(_ json: String) throws -> Cookie {
        try CookieFields(body: try JSONView(parsing: Array(json.utf8))).cookie(now: cookieTime)
    }

    // MARK: JSON

    @Test("the JSON of a cookie leads to the same cookie", arguments: cookies)
    func json(cookie: Cookie) throws {
        let json = CookieFields(cookie).encodeFields()
        #expect(try Self.read(String(decoding: json, as: UTF8.self)) == cookie)
    }

    @Test("the JSON has the members of the contract, and value_base64 if the value is not UTF-8")
    func members() throws {
        let plain = String(decoding: CookieFields(.test(isSecure: true)).encodeFields(), as: UTF8.self)
        let time = #""2026-11-30T12:00:00.000000Z""#
        #expect(
            plain == #"{"name":"a","value":"1","domain":"a.example","path":"/","expires_at":null,"#
                + #""secure":true,"http_only":false,"same_site":null,"host_only":false,"#
                + #""created_at":\#(time),"last_access_at":\#(time)}"#)
        let octets = String(decoding: CookieFields(Self.octets).encodeFields(), as: UTF8.self)
        #expect(octets.contains(#""name_base64":"/w==","#) && octets.contains(#""value_base64":"wyg=","#))
    }

    @Test("viewers see no value")
    func redaction() {
        for cookie in [Cookie.test("a", "hidden"), Self.octets] {
            var writer = JSONWriter()
            writer.beginObject()
            CookieFields(cookie).writeFields(into: &writer, isRedacted: true)
            writer.endObject()
            let text = String(decoding: writer.bytes, as: UTF8.self)
            #expect(text.contains(#""value":null"#) && !text.contains("hidden") && !text.contains("wyg="))
        }
    }

    @Test("a body needs a domain and a value; the rest has default values")
    func defaults() throws {
        #expect(
            try Self.read(#"{"name":"a","value":"1","domain":".A.Example"}"#)
                == .test("a", "1", domain: "a.example"))
        #expect(
            try Self.read(#"{"name":"","value":"1","domain":"localhost"}"#)
                == .test("", domain: "localhost", isHostOnly: true))
        #expect(
            try Self.read(#"{"name":"","value":"1","domain":"[0:0::1]"}"#)
                == .test("", domain: "[::1]", isHostOnly: true))
    }

    @Test(
        "an invalid body is rejected at the member that is wrong",
        arguments: [
            (#"{"value":"1","domain":"a.example"}"#, "#/name"),
            (#"{"name":"a","value":"1"}"#, "#/domain"), (#"{"name":"a","domain":"a.example"}"#, "#/value"),
            (#"{"name":"a","value":null,"domain":"a.example"}"#, "#/value"),
            (#"{"name":"","value":"","domain":"a.example"}"#, "#/value"),
            (#"{"name":"a;","value":"1","domain":"a.example"}"#, "#/name"),
            (#"{"name":"a","value":"1","domain":"a b"}"#, "#/domain"),
            (#"{"name":"a","value":"1","domain":"com","host_only":false}"#, "#/host_only"),
            (#"{"name":"a","value":"1","domain":"a.example","path":"x"}"#, "#/path"),
            (#"{"name":"a","value_base64":"!","domain":"a.example"}"#, "#/value_base64"),
            (#"{"name":"a","value":"1","domain":"a.example","same_site":"none"}"#, "#/same_site"),
            (#"{"name":"a","value":"1","domain":"a.example","same_site":"x"}"#, "#/same_site"),
            (#"{"name":"a","value":"1","domain":"a.example","expires_at":5}"#, "#/expires_at"),
            (#"{"name":"a","value":"1","domain":"a.example","extra":5}"#, "#/extra"),
        ])
    func invalid(json: String, pointer: String) {
        let error = #expect(throws: InvalidFields.self) { try Self.read(json) }
        #expect(error?.errors.map(\.pointer) == [pointer])
    }

    // MARK: cookies.txt

    @Test("a cookies.txt leads to the same cookies, without what the format lacks")
    func file() throws {
        let text = CookieFile.text(of: Self.cookies)
        let read = try CookieFile.cookies(in: text, now: cookieTime)
        let expected = Self.cookies.sorted { ($0.createdAt, $0.key) < ($1.createdAt, $1.key) }.map { cookie in
            var cookie = cookie
            (cookie.sameSite, cookie.createdAt, cookie.lastAccessAt) = (nil, cookieTime, cookieTime)
            return cookie
        }
        #expect(read == expected)
    }

    @Test("a cookies.txt has the lines that other programs read and write")
    func lines() throws {
        let text = """
            # Netscape HTTP Cookie File

            .a.example\tTRUE\t/\tFALSE\t0\ta\t1
            #HttpOnly_b.example\tFALSE\t/x\tTRUE\t1800000000\tb\tc\td

            """
        let read = try CookieFile.cookies(
            in: Array(text.replacing("\n", with: "\r\n").replacing("FALSE\t/x", with: "false\t/x").utf8),
            now: cookieTime)
        let second = Cookie.test(
            "b", "c\td", domain: "b.example", isHostOnly: true, path: "/x",
            expiresAt: Timestamp(microseconds: 1_800_000_000_000_000), isSecure: true, isHTTPOnly: true)
        #expect(read == [.test(), second])
        #expect(String(decoding: CookieFile.text(of: read), as: UTF8.self) == text)
        // Programs leave out an empty value.
        let short = Array("a.example\tFALSE\t/\tFALSE\t0\ta".utf8)
        #expect(try CookieFile.cookies(in: short, now: cookieTime) == [.test("a", "", isHostOnly: true)])
        #expect(try CookieFile.cookies(in: [], now: cookieTime) == [])
        #expect(CookieFile.text(of: [.test("a\tb")]) == CookieFile.text(of: []))
    }

    @Test("the errors of a cookies.txt name their lines")
    func fileErrors() {
        let text = """
            # comment
            a.example\tTRUE\t/\tFALSE\t0\ta\t1
            a.example TRUE / FALSE 0 a 1
            a.example\tYES\t/\tFALSE\t0\ta\t1
            a.example\tTRUE\t/\t\t0\ta\t1

            a.example\tTRUE\t/\tFALSE\t-1\ta\t1
            a.example\tTRUE\t/\tFALSE\tsoon\ta\t1
            com\tTRUE\t/\tFALSE\t0\ta\t1
            a.example\tTRUE\tx\tFALSE\t0\ta\t1
            """
        let error = #expect(throws: CookieFile.Failure.self) {
            try CookieFile.cookies(
                in: Array(text.utf8) + [0x0A, 0xFF] + Array("\tTRUE\t/\tTRUE\t0\ta\t1".utf8), now: cookieTime)
        }
        #expect(error?.lines.map(\.number) == [3, 4, 5, 7, 8, 9, 10, 11])
        #expect(error?.lines[5].message == Cookie.Failure.publicSuffix.message)
    }

    // MARK: Stored bytes

    @Test("stored bytes lead to the same cookie, and the octets of a key to the same key", arguments: cookies)
    func stored(cookie: Cookie) throws {
        #expect(try Cookie(stored: cookie.stored) == cookie)
        #expect(try Cookie.Key(octets: cookie.key.octets) == cookie.key)
    }

    @Test("damaged stored bytes are an error")
    func damage() throws {
        let stored = Self.cookies[4].stored
        for count in 0..<stored.count {
            #expect(throws: Cookie.Damage.self) { try Cookie(stored: Array(stored.prefix(count))) }
        }
        #expect(throws: Cookie.Damage.self) { try Cookie(stored: stored + [0]) }
        for (place, byte) in [(0, UInt8(2)), (1, 0x10), (1, 0xFF), (3, UInt8(ascii: "x"))] {
            var changed = stored
            changed[place] = byte
            #expect(throws: Cookie.Damage.self) { try Cookie(stored: changed) }
        }
        let key = Self.cookies[0].key.octets
        for octets in [[], Array(key.dropLast()), key + [0], Array(key.dropLast()) + [2]] {
            #expect(throws: Cookie.Damage.self) { try Cookie.Key(octets: octets) }
        }
    }

    @Test("different keys have different octets")
    func keys() {
        let names = ["", "a", "ab", "b"]
        var keys: Set<[UInt8]> = []
        for name in names {
            for domain in names {
                for path in names {
                    for flag in [false, true] {
                        let key = Cookie.Key(
                            name: Array(name.utf8), domain: domain, isHostOnly: flag, path: path)
                        keys.insert(key.octets)
                    }
                }
            }
        }
        #expect(keys.count == 128)
    }
}
