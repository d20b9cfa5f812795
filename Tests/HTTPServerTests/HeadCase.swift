/// One request with its results: sent to the server, and through `deploy/nginx.conf`.
struct HeadCase: Sendable {
    enum Direct: Sendable, Equatable {
        /// The handler gets the request, with this body.
        case accepted(body: String)
        /// The handler gets the request although it is malformed: a limit listed in docs/threat-model.md.
        case undetected
        /// The server responds with this status and closes the connection.
        case refused(Int)
        /// The server closes the connection without a response.
        case closed
    }
    enum Proxied: Sendable, Equatable {
        /// One well-formed request arrives.
        case forwarded
        /// nginx responds with this status and forwards nothing.
        case refused(Int)
        /// nginx forwards the request unchanged, and the server rejects it as it does without a proxy.
        case refusedBehind
        /// nginx forwards the request as HTTP/1.1 without `Host`, and the server rejects it.
        case withoutHost
    }
    let name: String
    let request: [UInt8]
    let direct: Direct
    let proxied: Proxied

    /// `false` if the handler gets it.
    var isRefused: Bool {
        switch direct {
        case .accepted, .undetected: false
        case .refused, .closed: true
        }
    }

    /// `request`: each character is one byte, up to `\u{FF}`.
    init(_ name: String, _ request: String, _ direct: Direct, _ proxied: Proxied) {
        self.name = name
        self.request = request.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        self.direct = direct
        self.proxied = proxied
    }

    /// `GET /` with `Host` and these fields.
    private static func get(
        _ name: String, _ fields: String, _ direct: Direct, _ proxied: Proxied
    ) -> HeadCase {
        HeadCase(name, "GET / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n", direct, proxied)
    }

    /// `POST /` with `Host`, these fields and a body.
    private static func post(
        _ name: String, _ fields: String, _ body: String, _ direct: Direct, _ proxied: Proxied
    ) -> HeadCase {
        HeadCase(name, "POST / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n\(body)", direct, proxied)
    }

    private static func chunked(
        _ name: String, _ body: String, _ direct: Direct, _ proxied: Proxied
    ) -> HeadCase {
        post(name, "Transfer-Encoding: chunked\r\n", body, direct, proxied)
    }

    private static let plain = Direct.accepted(body: "")

    static let all = requestLines + targets + hosts + fields + lineEnds + framings + chunks

    // MARK: RFC 9112 §2.2 and §3

    static let requestLines: [HeadCase] = [
        HeadCase("plain", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase("an empty line before it", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase("a bare LF before it", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase(
            "a line of NULs before it", "\0\0\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", .undetected,
            .refused(400)),
        HeadCase("a space before it", " GET / HTTP/1.1\r\nHost: a\r\n\r\n", .closed, .refused(400)),
        HeadCase(
            "two spaces before the target", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase(
            "two spaces after the target", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("a space at its end", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("tabs for spaces", "GET\t/\tHTTP/1.1\r\nHost: a\r\n\r\n", .closed, .refused(400)),
        HeadCase("a lower-case method", "get / HTTP/1.1\r\nHost: a\r\n\r\n", plain, .refused(400)),
        HeadCase(
            "a method that is no token", "G@T / HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "NUL before the method", "\0GET / HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL in the method", "GE\0T / HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL after the method", "GET\0 / HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL for a space", "GET\0/ HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "NUL before the version", "GET / \0HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "NUL after the version", "GET / HTTP/1.1\0\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("a bare CR in it", "GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("no version", "GET /\r\nHost: a\r\n\r\n", .refused(400), .withoutHost),
        HeadCase("lower-case version", "GET / http/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("a later minor version", "GET / HTTP/1.2\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase(
            "a minor version of two digits", "GET / HTTP/1.10\r\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("another major version", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", .refused(505), .refused(505)),
        HeadCase("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", plain, .withoutHost),
    ]

    // MARK: RFC 9112 §3.2, RFC 3986

    static let targets: [HeadCase] = [
        HeadCase("NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL at its end", "GET /a\0 HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL for it", "GET \0 HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "NUL in the query", "GET /?a=b\0c&d HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("a query", "GET /?a=b+c&d&=e&f== HTTP/1.1\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase("a space in it", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "a control character", "GET /a\u{1}b HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("DEL in it", "GET /a\u{7F}b HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("UTF-8 in it", "GET /\u{C3}\u{A9} HTTP/1.1\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase(
            "bytes that are not UTF-8", "GET /\u{FF} HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("no slash before it", "GET a/b HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("absolute form", "GET http://a/b HTTP/1.1\r\nHost: a\r\n\r\n", plain, .forwarded),
        HeadCase(
            "another host in it", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", .refused(421), .forwarded),
        HeadCase("a user in it", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", .refused(421), .refused(400)),
        HeadCase("another scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("asterisk form", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", plain, .refused(400)),
        HeadCase("an asterisk for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "authority form", "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", .refused(400), .refused(400)),
    ]

    // MARK: RFC 9112 §3.2, RFC 9110 §7.2

    static let hosts: [HeadCase] = [
        HeadCase("no Host", "GET / HTTP/1.1\r\n\r\n", .refused(400), .refused(400)),
        get("two of them", "Host: a\r\n", .refused(400), .refused(400)),
        get("two different ones", "Host: b\r\n", .refused(400), .refused(400)),
        HeadCase("an empty one", "GET / HTTP/1.1\r\nHost:\r\n\r\n", plain, .refused(400)),
        HeadCase("an IPv6 address", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", plain, .forwarded),
        HeadCase("a path in it", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("a user in it", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("a list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL in it", "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL at its end", "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n", .refused(400), .refused(400)),
        HeadCase("NUL before it", "GET / HTTP/1.1\r\nHost: \0a\r\n\r\n", .refused(400), .refused(400)),
    ]

    // MARK: RFC 9112 §5, RFC 9110 §5.5

    static let fields: [HeadCase] = [
        get("spaces around a value", "X: \t b \t\r\n", plain, .forwarded),
        get("no space before it", "X:b\r\n", plain, .forwarded),
        get("an empty value", "X:\r\n", plain, .forwarded),
        get("a value of spaces", "X:  \r\n", plain, .forwarded),
        get("bytes above ASCII", "X: \u{E9}\r\n", plain, .forwarded),
        get("NUL in a value", "X: b\0c\r\n", .refused(400), .refused(400)),
        get("NUL at its end", "X: b\0\r\n", .refused(400), .refused(400)),
        get("NUL in one that others follow", "X: b\0c\r\nY: d\r\n", .refused(400), .refused(400)),
        get("a value of NUL", "X: \0\r\n", .refused(400), .refused(400)),
        get("NUL in Authorization", "Authorization: Bearer a\0b\r\n", .refused(400), .refused(400)),
        get("a control character", "X: b\u{1}c\r\n", .refused(400), .refusedBehind),
        get("DEL in a value", "X: b\u{7F}c\r\n", .refused(400), .refusedBehind),
        get("a bare CR in it", "X: b\rc\r\n", .refused(400), .refused(400)),
        get("a bare CR before CRLF", "X: b\r\r\n", .refused(400), .forwarded),
        get("an empty name", ": b\r\n", .refused(400), .refused(400)),
        get("an empty name and value", ":\r\n", .refused(400), .refused(400)),
        HeadCase(
            "an empty name first", "GET / HTTP/1.1\r\n: b\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        get("an empty name before others", ": b\r\nX: c\r\n", .refused(400), .refused(400)),
        get("a space before the colon", "X : b\r\n", .refused(400), .refused(400)),
        get("a tab before the colon", "X\t: b\r\n", .refused(400), .refused(400)),
        get("a name that is no token", "X(: b\r\n", .refused(400), .forwarded),
        get("NUL in a name", "X\0Y: b\r\n", .refused(400), .refused(400)),
        get("a line that begins with NUL", "\0X: b\r\n", .refused(400), .refused(400)),
        get("a line of NUL", "\0\r\n", .refused(400), .refused(400)),
        get("bytes above ASCII in a name", "\u{E9}: b\r\n", .refused(400), .forwarded),
        get("no colon", "X\r\n", .refused(400), .forwarded),
        get("a folded value", "X: b\r\n c\r\n", .refused(400), .refused(400)),
        get("one folded by a tab", "X: b\r\n\tc\r\n", .refused(400), .refused(400)),
        HeadCase(
            "a first line that is folded", "GET / HTTP/1.1\r\n X: b\r\nHost: a\r\n\r\n", .refused(400),
            .refused(400)),
        get("a name that is folded", "Content-Leng: 4\r\n th\r\n", .refused(400), .refused(400)),
    ]

    // MARK: RFC 9112 §2.2

    static let lineEnds: [HeadCase] = [
        HeadCase("LF after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", .refused(400), .forwarded),
        HeadCase("LF after a field", "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", .refused(400), .forwarded),
        HeadCase("LF after the last field", "GET / HTTP/1.1\r\nHost: a\n\r\n", .refused(400), .forwarded),
        HeadCase("LF for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n", .refused(400), .forwarded),
        HeadCase("LF everywhere", "GET / HTTP/1.1\nHost: a\n\n", .refused(400), .forwarded),
        HeadCase("LF in a head without fields", "GET / HTTP/1.0\n\n", .refused(400), .withoutHost),
        HeadCase("two CR", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", .refused(400), .refused(400)),
        HeadCase(
            "NUL LF after a field", "GET / HTTP/1.1\r\nHost: a\0\nX: b\r\n\r\n", .undetected, .refused(400)),
        HeadCase(
            "NUL LF for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\0\n", .undetected, .refused(400)),
        HeadCase("NUL CRLF LF at the end", "GET / HTTP/1.1\r\nHost: a\0\r\n\n", .undetected, .refused(400)),
        HeadCase("LF NUL CRLF at the end", "GET / HTTP/1.1\r\nHost: a\n\0\r\n", .undetected, .refused(400)),
        HeadCase("an empty name and LF", "GET / HTTP/1.1\r\nHost: a\r\n:\n\r\n", .undetected, .refused(400)),
    ]

    // MARK: RFC 9112 §6

    static let framings: [HeadCase] = [
        post("a length", "Content-Length: 4\r\n", "abcd", .accepted(body: "abcd"), .forwarded),
        post("a length of 0", "Content-Length: 0\r\n", "", plain, .forwarded),
        post("zeros before a length", "Content-Length: 004\r\n", "abcd", .accepted(body: "abcd"), .forwarded),
        post("NUL after a length", "Content-Length: 5\0\r\n", "abcde", .refused(400), .refused(400)),
        post("NUL in a length", "Content-Length: 5\0 5\r\n", "abcde", .refused(400), .refused(400)),
        post("no length", "Content-Length:\r\n", "", .refused(400), .refused(400)),
        post("a sign before it", "Content-Length: +3\r\n", "abc", .refused(400), .refused(400)),
        post("a negative one", "Content-Length: -1\r\n", "", .refused(400), .refused(400)),
        post("a hexadecimal one", "Content-Length: 0x4\r\n", "abcd", .refused(400), .refused(400)),
        post("a list", "Content-Length: 4, 4\r\n", "abcd", .refused(400), .refused(400)),
        post("a space after it", "Content-Length: 4 \r\n", "abcd", .refused(400), .forwarded),
        post(
            "one beyond 64 bits", "Content-Length: 99999999999999999999\r\n", "", .refused(413), .refused(400)
        ),
        post(
            "two lengths", "Content-Length: 4\r\nContent-Length: 5\r\n", "abcd", .refused(400),
            .refused(400)),
        post(
            "the same twice", "Content-Length: 4\r\nContent-Length: 4\r\n", "abcd", .refused(400),
            .refused(400)),
        post("an underscore", "Content_Length: 4\r\n", "", plain, .forwarded),
        post(
            "length and coding", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n",
            .refused(400),
            .refused(400)),
        post(
            "coding and length", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n",
            .refused(400),
            .refused(400)),
        post("upper case", "TRANSFER-ENCODING: CHUNKED\r\n", "0\r\n\r\n", plain, .forwarded),
        post(
            "two codings", "Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n", .refused(501), .refused(501)),
        post("another coding", "Transfer-Encoding: identity\r\n", "", .refused(501), .refused(501)),
        post(
            "one behind it", "Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n", .refused(501),
            .refused(501)),
        post("no coding", "Transfer-Encoding:\r\n", "", .refused(501), .refused(501)),
        post("NUL behind it", "Transfer-Encoding: chunked\0\r\n", "0\r\n\r\n", .refused(400), .refused(400)),
        post(
            "NUL and another coding", "Transfer-Encoding: chunked\0, identity\r\n", "0\r\n\r\n",
            .refused(400),
            .refused(400)),
        post("NUL before it", "Transfer-Encoding: \0chunked\r\n", "0\r\n\r\n", .refused(400), .refused(400)),
        post(
            "a vertical tab before it", "Transfer-Encoding: \u{B}chunked\r\n", "0\r\n\r\n", .refused(400),
            .refused(501)),
        post("a space after it", "Transfer-Encoding: chunked \r\n", "0\r\n\r\n", .refused(501), .forwarded),
        post(
            "twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n",
            .refused(501),
            .refused(400)),
        HeadCase(
            "of HTTP/1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            .refused(400),
            .refused(400)),
    ]

    // MARK: RFC 9112 §7.1

    static let chunks: [HeadCase] = [
        chunked(
            "chunks", "3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", .accepted(body: "abc0123456789"), .forwarded
        ),
        chunked("extensions", "3;a=b;c=\"d\"\r\nabc\r\n0;e\r\n\r\n", .accepted(body: "abc"), .forwarded),
        chunked(
            "trailers", "3\r\nabc\r\n0\r\nX: b\r\nContent-Length: 9\r\n\r\n", .accepted(body: "abc"),
            .forwarded),
        chunked("a trailer without a colon", "0\r\nX\r\n\r\n", .refused(400), .forwarded),
        chunked("no size", "\r\nabc\r\n0\r\n\r\n", .refused(400), .refused(400)),
        chunked("a size that is no number", "x\r\nabc\r\n0\r\n\r\n", .refused(400), .refused(400)),
        chunked("a prefix before it", "0x3\r\nabc\r\n0\r\n\r\n", .refused(400), .refused(400)),
        chunked("a sign before it", "+3\r\nabc\r\n0\r\n\r\n", .refused(400), .refused(400)),
        chunked("a space after it", "3 \r\nabc\r\n0\r\n\r\n", .refused(400), .forwarded),
        chunked(
            "a size beyond 64 bits", "10000000000000003\r\nabc\r\n0\r\n\r\n", .refused(413), .refused(400)),
        chunked("NUL after a size", "3\0\r\nabc\r\n0\r\n\r\n", .refused(400), .refused(400)),
        chunked("more than the size", "3\r\nabcd\r\n0\r\n\r\n", .refused(400), .refused(400)),
        chunked("a bare LF after a size", "3\nabc\r\n0\r\n\r\n", .undetected, .forwarded),
        chunked("a bare LF after a chunk", "3\r\nabc\n0\r\n\r\n", .undetected, .forwarded),
        chunked("a bare LF in an extension", "3;a\nabc\r\n0\r\n\r\n", .undetected, .forwarded),
        chunked("NUL in an extension", "3;\0\r\nabc\r\n0\r\n\r\n", .undetected, .forwarded),
        chunked("an empty name in a trailer", "0\r\n: b\r\n\r\n", .undetected, .forwarded),
    ]
}
