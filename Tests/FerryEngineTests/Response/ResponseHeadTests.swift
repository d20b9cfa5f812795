import FerryCore
import FerryEngine
import Testing

@Suite struct ResponseHeadTests {
    private static func parse(_ lines: [String]) -> ResponseHeadParser.Step {
        var parser = ResponseHeadParser()
        var last = ResponseHeadParser.Step.more
        for line in lines {
            last = parser.take(Array(line.utf8))
            if last != .more { return last }
        }
        return last
    }

    private static func head(_ lines: String...) throws -> ResponseHead {
        guard case .complete(let head) = parse(["HTTP/1.1 200 OK"] + lines + [""]) else {
            throw TransferError(.responseInvalid, "not complete", phase: .waiting, isRetryable: false)
        }
        return head
    }

    @Test("a head with too many lines is refused, trailers included")
    func lines() throws {
        // With the status line and the empty one.
        let most = Limits.responseHeaderLineCountMax - 2
        let fields = Array(repeating: "a:", count: most)
        guard case .complete(let head) = Self.parse(["HTTP/1.1 200 OK"] + fields + [""]) else {
            Issue.record("as many as there may be are refused")
            return
        }
        #expect(head.headers.count == most)
        #expect(Self.parse(["HTTP/1.1 200 OK"] + fields + ["a:", ""]) == .tooLarge)
        let hints = (0..<most).flatMap { _ in ["HTTP/1.1 103 Early Hints", ""] }
        #expect(Self.parse(hints + ["HTTP/1.1 200 OK", ""]) == .tooLarge)
        var parser = ResponseHeadParser()
        for line in ["HTTP/1.1 200 OK", ""] { _ = parser.take(Array(line.utf8)) }
        let trailers = (0...most).map { _ in parser.take(Array("a:".utf8)) }
        #expect(trailers.last == .tooLarge && trailers.dropLast().allSatisfy { $0 == .more })
    }

    @Test("interim responses are skipped, duplicates kept, values trimmed")
    func fields() throws {
        let step = Self.parse([
            "HTTP/1.1 100 Continue", "", "HTTP/1.1 103 Early Hints", "Link: a", "", "HTTP/1.1 206 Partial",
            "A:  1 ",
            "a: 2", "",
        ])
        guard case .complete(let head) = step else {
            Issue.record("\(step)")
            return
        }
        #expect(head.status == 206)
        #expect(head.headers == [.init("A", "1"), .init("a", "2")])
        #expect(head.first("A") == "1")
    }

    @Test(
        "an ambiguous head, or one that is not HTTP, is refused",
        arguments: [
            (["nonsense"], "RFC 9112 §4"), (["HTTP/1.1 20 OK"], "RFC 9112 §4"),
            (["HTTP/1.1 2x0 OK"], "RFC 9112 §4"), (["HTTP/1.1 200 OK", " folded"], "RFC 9112 §2.2"),
            (["HTTP/1.1 200 OK", ": value"], "no name"), (["HTTP/1.1 200 OK", " : value"], "RFC 9112 §2.2"),
            (["HTTP/1.1 200 OK", "no colon"], "no colon"),
            (["HTTP/1.1 200 OK", "Content-Length : 1"], "Content-Length has a space"),
            (["HTTP/1.1 200 OK", "transfer-encoding\t: chunked"], "transfer-encoding has a space"),
            (["HTTP/1.1 200 OK", "Content-Length: 1", " 2"], "Content-Length is folded"),
            (["HTTP/1.1 200 OK", "Transfer-Encoding:", "\tchunked"], "RFC 9112 §5.2"),
            (["HTTP/1.1 200 OK", "ETag: b\u{0}c"], "RFC 9110 §5.5"),
            (["HTTP/1.1 200 OK", "Location: /a", " /\u{1}"], "RFC 9110 §5.5"),
        ])
    func refused(lines: [String], rule: String) {
        guard case .invalid(let sentence) = Self.parse(lines) else {
            Issue.record("\(lines) is accepted")
            return
        }
        #expect(sentence.contains(rule))
    }

    @Test(
        "deviations that libcurl and browsers accept are accepted in other fields",
        arguments: [
            (["A: b", "  c ", "\td"], "A", "b c d"), (["A:", " b"], "A", "b"), (["A : b"], "A", "b"),
            (["X/y.z: 1"], "X/y.z", "1"), (["(a): 1"], "(a)", "1"), (["A: b\u{1}c\u{7F}d"], "A", "b c d"),
            (["A: b", " c\u{0}d"], "A", "b c d"), (["A: b", "X Y: 1", " c"], "A", "b"),
            (["Content-Type: text/html;", " charset=x"], "Content-Type", "text/html; charset=x"),
        ])
    func lenient(lines: [String], name: String, value: String) throws {
        guard case .complete(let head) = Self.parse(["HTTP/1.1 200 OK"] + lines + ["Z: z", ""]) else {
            Issue.record("\(lines) is refused")
            return
        }
        #expect(head.headers == [.init(name, value), .init("Z", "z")])
    }

    @Test("a folded media type is read, chunks win over lengths, and the connection is not used again")
    func framing() throws {
        #expect(try Self.head("Content-Type:", " text/plain").mimeType == "text/plain")
        #expect(try Self.head("Content-Type: a/b", "Content-Type: c/d", " e").mimeType == "a/b")
        let both = try Self.head("Content-Length: 5", "Content-Length: 6", "Transfer-Encoding: Chunked")
        #expect(both.hasClearLength && both.contentLength == nil && both.isAmbiguouslyFramed)
        #expect(try !Self.head("Content-Length: 5", "Content-Length: 6").hasClearLength)
        #expect(try !Self.head("Transfer-Encoding: chunked").isAmbiguouslyFramed)
        #expect(try !Self.head("Content-Length: 5").isAmbiguouslyFramed)
    }

    @Test("a head above the limit of bytes is refused")
    func bounded() {
        let lines = ["HTTP/1.1 200 OK"] + (0..<200).map { "X-\($0): " + String(repeating: "x", count: 1_000) }
        #expect(Self.parse(lines) == .tooLarge)
    }

    @Test("length, media type, framing and Retry-After are read as RFC 9110 defines them")
    func meaning() throws {
        #expect(try Self.head("Content-Length: 12").contentLength == 12)
        #expect(try Self.head("Content-Length: -1").contentLength == nil)
        #expect(try Self.head("Content-Type: Text/HTML; charset=x").mimeType == "text/html")
        #expect(try Self.head("Content-Length: 1").isDelimited("GET"))
        #expect(try Self.head("Transfer-Encoding: chunked").isDelimited("GET"))
        #expect(try !Self.head().isDelimited("GET"))
        #expect(try Self.head().isDelimited("HEAD"))
        let now = Timestamp(microseconds: 784_111_777_000_000)
        #expect(try Self.head("Retry-After: 120").retryAfter(now: now) == 120)
        #expect(try Self.head("Retry-After: Sun, 06 Nov 1994 08:50:37 GMT").retryAfter(now: now) == 60)
        #expect(try Self.head("Retry-After: Sun, 06 Nov 1994 08:40:37 GMT").retryAfter(now: now) == 0)
        #expect(try Self.head("Retry-After: soon").retryAfter(now: now) == nil)
        #expect(try Self.head("Retry-After: 5", "retry-after: 9").retryAfter(now: now) == 9)
    }

    @Test(
        "a suggested name is made safe, or there is none",
        arguments: [
            ("attachment; filename=\"a b.txt\"", "a b.txt"), ("attachment; filename=a.txt; x=y", "a.txt"),
            ("attachment; filename=\"../../etc/passwd\"", "passwd"),
            ("attachment; filename=\"..\\evil.exe\"", "evil.exe"),
            ("attachment; filename=x; filename*=UTF-8''na%C3%AFve.txt", "naïve.txt"),
            ("attachment; filename*=iso-8859-1'en'%A3.txt", "£.txt"),
            ("attachment; filename=\".bashrc\"", "bashrc"),
            ("attachment; filename=\"a\\\"b\"", "a\"b"), ("attachment; filename=\"..\"", "file name"),
            ("inline", "file name"),
            ("attachment; filename=\"\u{202E}gpj.exe\"", "gpj.exe"),
            ("attachment; filename*=UTF-8''a%E2%80%A8b%E2%80%A9%C2%85c%D8%9C.txt", "abc.txt"),
            ("attachment; filename=my annual report.pdf", "my annual report.pdf"),
            ("attachment; filename=a b.csv; size=3", "a b.csv"), ("filename=\"only.txt\"", "only.txt"),
            ("filename=only.txt; attachment", "only.txt"), ("attachment filename=a.txt", "a.txt"),
            ("ATTACHMENT; FileName = \"u.txt\"", "u.txt"), ("attachment;filename\t=\tu.txt", "u.txt"),
            ("attachment; filename=t.txt;", "t.txt"), ("attachment; filename=\"open.txt", "open.txt"),
            ("attachment; filename=\"a;b.txt\"", "a;b.txt"), ("attachment; filename='it.txt'", "'it.txt'"),
            ("attachment; filename=\"a+b.txt\"", "a+b.txt"), ("attachment; filename=\"\"", "file name"),
            ("attachment; filename=\"f\\oo.html\"", "foo.html"),
            ("attachment; filename=\"C:\\\\dir\\\\w.txt\"", "w.txt"),
            ("attachment; filename=\"C:\\dir\\w.txt\"", "w.txt"),
            ("attachment; filename=größe.txt", "größe.txt"),
            // RFC 8187: the extended form is used if it can be read.
            ("attachment; filename=\"x.txt\"; filename*=UTF-8''%e2%82%ac.txt", "€.txt"),
            ("attachment; filename*=\"UTF-8''%e2%82%ac.txt\"", "€.txt"),
            ("attachment; FILENAME*=utf-8'de'%e2%82%ac.txt", "€.txt"),
            ("attachment; filename=\"good.txt\"; filename*=UTF-8''", "good.txt"),
            ("attachment; filename=\"good.txt\"; filename*=UTF-8''..", "good.txt"),
            ("attachment; filename=\"good.txt\"; filename*=UTF-8''%ff", "good.txt"),
            ("attachment; filename=\"good.txt\"; filename*=bad%20one.txt", "good.txt"),
            ("attachment; filename=\"good.txt\"; filename*=GBK''%ce%c4.txt", "good.txt"),
            ("attachment; filename*=UTF-8''..%2F..%2Fp.txt", "p.txt"),
            // RFC 2231: continuations.
            ("attachment; filename*0=\"long-\"; filename*1=\"name.txt\"", "long-name.txt"),
            ("attachment; filename*1=b; filename*0=a; filename*3=d", "ab"),
            ("attachment; filename*0*=UTF-8''%e2; filename*1*=%82%ac; filename*2=%20.txt", "€%20.txt"),
            ("attachment; filename*1=b; filename=c", "c"),
            // RFC 2047: encoded words.
            ("attachment; filename=\"=?UTF-8?B?5pel5pys6KqeLmNzdg==?=\"", "日本語.csv"),
            ("attachment; filename=\"=?UTF-8?B?5pel5pys6KqeLmNzdg?=\"", "日本語.csv"),
            ("attachment; filename=\"=?UTF-8?B?w7/Dv8O/LnBkZg==?=\"", "ÿÿÿ.pdf"),
            ("attachment; filename==?utf-8?q?r=C3=A9sum=C3=A9_1.pdf?=", "résumé 1.pdf"),
            ("attachment; filename=\"=?utf-8?Q?=E2=82?= =?utf-8?Q?=AC?=.txt\"", "€.txt"),
            ("attachment; filename=\"=?iso-8859-1?Q?=A3?= =?utf-8?Q?=C3=A9?= x\"", "£é x"),
            ("attachment; filename=\"=?utf-8?B?Li4vLi4vYS50eHQ=?=\"", "a.txt"),
            ("attachment; filename=\"=?x-none?B?YQ==?=\"", "=?x-none?B?YQ==?="),
            ("attachment; filename=\"=?utf-8?B?%%%?=\"", "=?utf-8?B?%%%?="),
            // Percent-encoding in the plain form.
            ("attachment; filename=\"%E6%96%87%E4%BB%B6.zip\"", "文件.zip"),
            ("attachment; filename=\"100%.txt\"", "100%.txt"), ("attachment; filename=%ff.txt", "%ff.txt"),
            ("attachment; filename=\"..%2f..%2fetc%2fpasswd\"", "passwd"),
            // One character each for Swift, several for the file system.
            ("attachment; filename*=UTF-8''in%2F%E2%80%8Dx", "\u{200D}x"),
            ("attachment; filename*=UTF-8''%2F%CC%81etc%2F%EF%B8%8Fpasswd", "\u{FE0F}passwd"),
            ("attachment; filename*=UTF-8''a%5C%CC%81b", "\u{301}b"),
            ("attachment; filename*=UTF-8''.%CC%81hidden", "\u{301}hidden"),
        ])
    func names(disposition: String, expected: String) throws {
        let head = try Self.head("Content-Disposition: \(disposition)")
        let url = try WebURL.parse("https://example.com/a/file%20name?x=/y")
        #expect(suggestedFilename(head, url: url) == expected)
    }

    @Test("of several Content-Disposition fields, the first one with a usable name counts")
    func severalFields() throws {
        let lines = [
            "inline", "attachment; filename=\"..\"", "attachment; filename=b", "attachment; filename=c",
        ]
        let head = try Self.head(
            "Content-Disposition: \(lines[0])", "content-disposition: \(lines[1])",
            "Content-Disposition: \(lines[2])", "Content-Disposition: \(lines[3])")
        #expect(suggestedFilename(head, url: try WebURL.parse("https://example.com/x")) == "b")
    }

    @Test("a raw name in Latin-1 is read as such")
    func latin1() throws {
        var parser = ResponseHeadParser()
        _ = parser.take(Array("HTTP/1.1 200 OK".utf8))
        _ = parser.take(
            Array("Content-Disposition: attachment; filename=\"gr".utf8) + [0xF6] + Array("n\"".utf8))
        guard case .complete(let head) = parser.take([]) else { throw StoreError.failed }
        #expect(suggestedFilename(head, url: try WebURL.parse("https://example.com/x")) == "grön")
    }

    @Test(
        "a number goes before the whole extension",
        arguments: [
            ("a.tar.gz", "a-1.tar.gz"), ("b.txt", "b-1.txt"), ("noext", "noext-1"), ("v1.2.3", "v1.2-1.3"),
            ("data.csv.GZ", "data-1.csv.GZ"), ("a.tar.zst.asc", "a-1.tar.zst.asc"),
            ("x-1.0.tgz", "x-1.0-1.tgz"),
            ("app-1.0.tar.xz", "app-1.0-1.tar.xz"), ("v1.2.gz", "v1.2-1.gz"), (".bashrc", ".bashrc-1"),
            (".a.tar.gz", ".a-1.tar.gz"), ("my.d.txt", "my.d-1.txt"), ("a.", "a-1."), ("a.gz", "a-1.gz"),
            ("日本.tar.gz", "日本-1.tar.gz"),
        ])
    func numbered(name: String, expected: String) { #expect(fittedName(name, insert: "-1") == expected) }

    @Test("a name with a number and a compound extension keeps to 255 bytes")
    func numberedLong() {
        for name in [String(repeating: "é", count: 125) + ".txt", String(repeating: "x", count: 255)] {
            #expect(fittedName(name, insert: "-12").utf8.count == 255)
        }
        let archive = fittedName(String(repeating: "x", count: 248) + ".tar.gz", insert: "-1")
        #expect(archive.utf8.count == 255 && archive.hasSuffix("x-1.tar.gz"))
    }

    @Test("a name that is too long for a file system is cut, also where all of it is one character")
    func longNames() throws {
        let url = try WebURL.parse("https://example.com/x")
        let accents = "e" + String(repeating: "%CC%81", count: 400)
        for (name, suffix) in [(accents, ".txt"), (String(repeating: "%F0%9F%98%80", count: 99), "")] {
            let text = name + suffix
            let head = try Self.head("Content-Disposition: attachment; filename*=UTF-8''\(text)")
            let found = try #require(suggestedFilename(head, url: url))
            #expect(found.utf8.count > 200 && found.utf8.count <= 255 && found.hasSuffix(suffix))
        }
    }
}
