import FerryCore
import Testing

/// Parser of `Set-Cookie`: RFC 6265bis §5.6.
@Suite("Set-Cookie fields") struct SetCookieTests {
    @Test(
        "name and value are split at the first equals sign and trimmed (§5.6)",
        arguments: [
            ("a=1", "a=1"), ("a=1;", "a=1"), ("a=1 ; x", "a=1"), (" a\t=\t1 ", "a=1"), ("a=b=c", "a=b=c"),
            ("a= b c ", "a=b c"), ("a=\"b ", "a=\"b"), ("a=\"b;c\"", "a=\"b"), ("a=", "a="),
            ("a b=1", "a b=1"), ("a,b=1,2", "a,b=1,2"), ("a=%3B%20", "a=%3B%20"), ("a=b\tc", "a=b\tc"),
            // Without a name, the value alone is sent.
            ("a", "a"), ("=a", "a"), (" = a", "a"), ("=a=b", "a=b"), ("==a", "=a"), ("a;b=c", "a"),
        ])
    func pairs(field: String, sent: String) throws {
        #expect(try CookieJar.answer([field]) == sent)
    }

    @Test(
        "a field without name and value, or with a control character, is ignored (§5.6 and §5.7)",
        arguments: [
            "", "=", ";", "; a=1", " = ", "\t", "a=\u{0}", "a=1\u{1F}", "a\u{7F}=1", "a=1; b=\u{8}", "\r",
        ])
    func ignored(field: String) throws {
        #expect(try CookieJar.answer([field, "b=2"]) == "b=2")
    }

    @Test("octets beyond ASCII are sent as they came")
    func octets() throws {
        var jar = CookieJar.empty()
        let context = try CookieContext("https://a.example/")
        for field in [[0xFF, 0x3D, 0xC3], [0x62, 0x3D, 0xC3, 0xA9]] as [[UInt8]] {
            jar.take(setCookie: field, context)
        }
        let sent = jar.field(context)
        #expect(sent == [0xFF, 0x3D, 0xC3, 0x3B, 0x20, 0x62, 0x3D, 0xC3, 0xA9])
    }

    @Test("name and value have at most 4,096 octets together (§5.6)")
    func length() throws {
        let most = String(repeating: "x", count: 4_094)
        #expect(try CookieJar.answer(["ab=" + most]) == "ab=" + most)
        #expect(try CookieJar.answer(["abc=" + most]) == nil)
        #expect(try CookieJar.answer([most + "xx"]) == most + "xx")
        #expect(try CookieJar.answer([most + "xxx"]) == nil)
    }

    @Test("an attribute value of more than 1,024 octets is ignored (§5.6)")
    func attributeLength() throws {
        let path = "/" + String(repeating: "p", count: 1_023)
        #expect(try CookieJar.answer(["a=1; Path=" + path]) == nil)
        #expect(try CookieJar.answer(["a=1; Path=" + path + "p"]) == "a=1")
        #expect(try CookieJar.answer(["a=1; Domain=" + String(repeating: "d", count: 1_025)]) == "a=1")
        #expect(try CookieJar.answer(["a=1; Domain=" + String(repeating: "d", count: 1_024)]) == nil)
    }

    @Test(
        "attribute names have any case, unknown attributes are ignored, and the last of several counts",
        arguments: [
            ("a=1; PATH=/q", nil), ("a=1; pAtH=/x", "a=1"), ("a=1; path=/q; path=/x", "a=1"),
            ("a=1; path=/x; path=/q", nil), ("a=1; \tpath \t= \t/q", nil), ("a=1; paths=/q", "a=1"),
            ("a=1; path", "a=1"), ("a=1; path=", "a=1"), ("a=1; path=q", "a=1"),
            // The last one is the default path.
            ("a=1; path=/q; path=", "a=1"), ("a=1; path=/q; path=x", "a=1"),
            ("a=1; ;;;=;==; foo; foo=bar", "a=1"), ("a=1; Max-Age=0; Max-Age=9", "a=1"),
            ("a=1; Max-Age=9; Max-Age=0", nil), ("a=1; Max-Age=0; Max-Age=x", nil),
        ])
    func attributes(field: String, sent: String?) throws {
        #expect(try CookieJar.answer([field]) == sent)
    }

    @Test(
        "Max-Age is a number of seconds (§5.6.2)",
        arguments: [
            ("10", 10), ("010", 10), ("0", 0), ("-0", 0), ("-9", 0), ("-", nil), ("+9", nil), ("", nil),
            ("9x", nil), ("9.5", nil), ("9 9", nil), ("\"9\"", nil),
            ("34560000", 34_560_000), ("34560001", 34_560_000),
            ("99999999999999999999999999", 34_560_000), ("-99999999999999999999999999", 0),
        ] as [(String, Double?)])
    func maxAge(value: String, seconds: Double?) throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1; Max-Age=" + value], from: "https://a.example/")
        let cookie = jar.cookies(now: cookieTime).first
        if seconds == 0 {
            #expect(cookie == nil)
        } else {
            #expect(try #require(cookie).expiresAt == seconds.map { cookieTime + $0 })
        }
    }

    @Test("Max-Age counts before Expires, and a date more than 400 days ahead is reduced (§5.5 and §5.7)")
    func expires() throws {
        func expiry(_ attributes: String) throws -> Timestamp? {
            var jar = CookieJar.empty()
            try jar.take(["a=1; " + attributes], from: "https://a.example/")
            return try #require(jar.cookies(now: cookieTime).first).expiresAt
        }
        let past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        #expect(try expiry("Max-Age=9; " + past) == cookieTime + 9)
        #expect(try expiry(past + "; Max-Age=9") == cookieTime + 9)
        #expect(try expiry("Expires=Mon, 30 Nov 2026 12:00:09 GMT") == cookieTime + 9)
        #expect(try expiry("Expires=Tue, 31 Dec 9999 00:00:00 GMT") == cookieTime + 400 * 86_400)
        #expect(try expiry("Expires=tomorrow") == nil)
        #expect(try expiry("Secure") == nil)
        #expect(try CookieJar.answer(["a=1; " + past]) == nil)
        #expect(try CookieJar.answer(["a=1; Expires=Mon, 30 Nov 2026 12:00:00 GMT"]) == nil)
    }

    @Test(
        "the first words of a cookie date that look like its parts count (§5.1.1)",
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("1994 November 6th 8:49:7pm +0200", "Sun, 06 Nov 1994 08:49:07 GMT"),
            ("06 nOvEmBeR 94 08:49:37.5", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("06/Nov/1994,08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("1 Jan 70 0:0:0", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("1 Jan 69 0:0:0", "Tue, 01 Jan 2069 00:00:00 GMT"),
            ("1 Jan 00 0:0:0", "Sat, 01 Jan 2000 00:00:00 GMT"),
            ("1 Jan 1601 0:0:0", "Mon, 01 Jan 1601 00:00:00 GMT"),
            ("29 Feb 2024 0:0:0", "Thu, 29 Feb 2024 00:00:00 GMT"),
            ("1 Jan 1600 0:0:0", nil), ("1 Jan 100 0:0:0", nil), ("1 Jan 12345 0:0:0", nil),
            ("29 Feb 2023 0:0:0", nil), ("31 Apr 2023 0:0:0", nil), ("0 Jan 2023 0:0:0", nil),
            ("32 Jan 2023 0:0:0", nil), ("1 Jan 2023 24:0:0", nil), ("1 Jan 2023 0:60:0", nil),
            ("1 Jan 2023 0:0:60", nil), ("1 Jan 2023", nil), ("Jan 2023 0:0:0", nil), ("1 2023 0:0:0", nil),
            ("1 Jan 0:0:0", nil), ("1 Foo 2023 0:0:0", nil), ("1 Jan 2023 000:0:0", nil), ("", nil),
        ])
    func dates(text: String, date: String?) throws {
        // The jar cuts dates far ahead, so the day is that of the date.
        let expected = date.flatMap { Timestamp(httpDate: $0, now: cookieTime) }
        #expect((expected == nil) == (date == nil))
        let context = CookieContext(
            url: try .parse("https://a.example/"), now: (expected ?? cookieTime) + -86_400)
        var jar = CookieJar.empty()
        jar.take(setCookie: Array("a=1; Expires=\(text)".utf8), context)
        #expect(jar.cookies(now: context.now).map(\.expiresAt) == [expected])
    }

    @Test(
        "SameSite is None, Lax or Strict in any case, or as if it were missing (§5.6.7)",
        arguments: [
            ("SameSite=None; Secure", .unrestricted), ("samesite=STRICT", .strict), ("SameSite=lax", .lax),
            ("SameSite", nil), ("SameSite=foo", nil), ("SameSite=Strict; SameSite=foo", nil),
            ("SameSite=foo; SameSite=Lax", .lax), ("Secure", nil),
        ] as [(String, Cookie.SameSite?)])
    func sameSite(attributes: String, sameSite: Cookie.SameSite?) throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1; " + attributes], from: "https://a.example/")
        #expect(jar.cookies(now: cookieTime).map(\.sameSite) == [sameSite])
    }

    @Test("Secure and HttpOnly are flags, whatever their values")
    func flags() throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1; secure=no; HTTPONLY=no", "b=2; Secured; Http-Only"], from: "https://a.example/")
        let cookies = jar.cookies(now: cookieTime)
        #expect(cookies.map(\.isSecure) == [true, false] && cookies.map(\.isHTTPOnly) == [true, false])
    }
}
