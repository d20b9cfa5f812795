import FerryCore
import Testing

/// A field of the job's body with invalid values.
struct Wrong: Sendable, CustomTestStringConvertible {
    let pointer: String
    let values: [String]
    var testDescription: String { pointer }
}

private let notBool = ["1", "\"true\"", "[]", "{}", "null"]
private let notString = ["1", "true", "[]", "{}"]
private let notObject = ["1", "\"x\"", "[]", "true", "null"]
private let notNumber = ["\"1\"", "true", "[]", "{}", "null"]
private let badSizes = ["-1", "1.5", "9007199254740992", "1e300", "\"1\"", "true", "[]"]
private let badURLs =
    notString + [
        "null", #""""#, #""a""#, #""ftp://a.example/""#, #""http://""#, #""http://u:p@a.example/""#,
        #""//a.example/""#,
        #""http://a.example:0/""#, #""http://a.example:99999/""#, #""http://a b/""#, #""http://10.0.0.1/""#,
        #""http://[::1%25eth0]/""#, #""http://a.example/\u0000""#, #""http://a%ff.example/""#,
        #""file:///etc/passwd""#,
        "\"http://a.example/" + String(repeating: "x", count: 9_000) + "\"",
    ]
private let tooManyMirrors =
    "[" + (0..<17).map { #""http://a.example/\#($0)""# }.joined(separator: ",") + "]"
private let badPaths =
    notString + [
        "null", #""""#, #""/etc/passwd""#, #""..""#, #""a/../b""#, #""./a""#, #""a//b""#, #""a//""#, #""/""#,
        #""a\u0000b""#,
        #""a\nb""#, #"".ferry-x""#, "\"" + String(repeating: "x", count: 256) + "\"",
        "\"" + String(repeating: "x/", count: 600) + "x\"",
    ]

/// Fields of a download, except where the pointer tells another kind.
let wrongs: [Wrong] = [
    Wrong(pointer: "#/kind", values: notString + ["null", #""stream""#, #""Download""#, #""""#]),
    Wrong(pointer: "#/session", values: notString + ["null", #""""#, #""a b""#, #""é""#, #""a/b""#]),
    Wrong(
        pointer: "#/description",
        values: notString + [#""\u0000""#, "\"" + String(repeating: "x", count: 1_025) + "\""]),
    Wrong(pointer: "#/metadata", values: notObject),
    Wrong(
        pointer: "#/metadata/k",
        values: notString + ["null", #""\u0000""#, "\"" + String(repeating: "x", count: 2_049) + "\""]),
    Wrong(pointer: "#/request", values: notObject),
    Wrong(pointer: "#/request/url", values: badURLs),
    Wrong(
        pointer: "#/request/method",
        values: notString + ["null", #""get""#, #""""#, #""HEAD""#, #""TRACE""#, #""CONNECT""#, #""G T""#]),
    Wrong(pointer: "#/request/headers", values: notObject),
    Wrong(
        pointer: "#/request/headers/X",
        values: notString + ["null", #""a\r\nb: c""#, #""\u0000""#, #""\u007f""#]),
    Wrong(pointer: "#/request/headers/Host", values: [#""x""#]),
    Wrong(pointer: "#/request/headers/content-length", values: [#""1""#]),
    Wrong(pointer: "#/request/headers/Transfer-Encoding", values: [#""chunked""#]),
    Wrong(pointer: "#/request/headers/Proxy-Authorization", values: [#""x""#]),
    Wrong(pointer: "#/request/headers/a%20b", values: [#""x""#]),
    Wrong(pointer: "#/request/headers/Authorization", values: [#"{"set":true}"#]),
    Wrong(pointer: "#/request/body", values: [#"{"text":"x"}"#, "1", "[]"]),
    Wrong(
        pointer: "#/request/cache_policy",
        values: notString + ["null", #""x""#, #""return_cache_data_dont_load""#]),
    Wrong(pointer: "#/request/timeout_for_request", values: notNumber + ["0", "-1", "604801", "1e300"]),
    Wrong(pointer: "#/request/accept_encoding", values: notString + ["null", #""GZIP""#, #""x""#]),
    Wrong(pointer: "#/request/http_version", values: notString + ["null", #""3""#, #""1.0""#, #""h2""#]),
    Wrong(pointer: "#/request/proxy", values: [#""http://p:1""#, "1", "false", "[]"]),
    Wrong(pointer: "#/request/auth", values: [#""basic""#, "1", "[]"]),
    Wrong(pointer: "#/request/tls", values: [#""1.2""#, "1", "[]", "{}"]),
    Wrong(pointer: "#/mirrors", values: [#""http://a.example/""#, "null", "{}", tooManyMirrors]),
    Wrong(pointer: "#/mirrors/0", values: badURLs),
    Wrong(pointer: "#/destination", values: ["1", "[]", #""x""#]),
    Wrong(pointer: "#/destination/path", values: badPaths),
    Wrong(pointer: "#/destination/if_exists", values: notString + ["null", #""x""#]),
    Wrong(pointer: "#/destination/s3", values: ["1", #""x""#, "[]"]),
    Wrong(pointer: "#/source", values: ["1"]),
    Wrong(pointer: "#/integrity", values: notObject),
    Wrong(pointer: "#/integrity/size", values: badSizes),
    Wrong(pointer: "#/integrity/md5", values: notString + [#""x""#, #""d41d8cd98f00b204e9800998ecf8427""#]),
    Wrong(pointer: "#/integrity/sha1", values: notString + [#""00""#]),
    Wrong(pointer: "#/integrity/sha256", values: notString + [#""zz""#]),
    Wrong(pointer: "#/integrity/sha512", values: notString + [#""00""#]),
    Wrong(pointer: "#/integrity/crc32c", values: notString + [#""0000000""#, #""yoLQMg==""#]),
    Wrong(pointer: "#/integrity/adler32", values: notString + [#""3da0195""#]),
    Wrong(pointer: "#/resume_data", values: notString + [#""x""#, #""""#]),
    Wrong(pointer: "#/redirects", values: notObject),
    Wrong(pointer: "#/redirects/policy", values: notString + ["null", #""x""#]),
    Wrong(pointer: "#/redirects/max", values: ["-1", "51", "1.5", "\"1\"", "null"]),
    Wrong(pointer: "#/redirects/send_credentials_across_origins", values: notBool),
    Wrong(pointer: "#/accept", values: notObject),
    Wrong(pointer: "#/accept/status", values: ["1", #""2xx""#, "null", "{}"]),
    Wrong(
        pointer: "#/accept/status/0",
        values: ["99", "600", #""200 ""#, #""6xx""#, #""2x""#, #""20x""#, "null", #""""#]),
    Wrong(
        pointer: "#/accept/content_type/0",
        values: ["1", #""image""#, #""*/png""#, #""a/b/c""#, #""a b/c""#]),
    Wrong(pointer: "#/accept/max_bytes", values: badSizes),
    Wrong(pointer: "#/on_challenge", values: notString + ["null", #""x""#]),
    Wrong(pointer: "#/questions", values: notObject),
    Wrong(pointer: "#/questions/timeout", values: notNumber + ["0", "604801"]),
    Wrong(pointer: "#/questions/redirect", values: notString + [#""perhaps""#]),
    Wrong(pointer: "#/schedule", values: notObject),
    Wrong(pointer: "#/schedule/priority", values: notNumber + ["-0.1", "1.1", "1e300"]),
    Wrong(pointer: "#/schedule/network_service_type", values: notString + ["null", #""video""#, #""x""#]),
    Wrong(
        pointer: "#/schedule/earliest_begin_at",
        values: ["1", #""tomorrow""#, #""2026-11-21""#, "[]", "false"]),
    Wrong(pointer: "#/schedule/deadline_at", values: [#""tomorrow""#, "0"]),
    Wrong(pointer: "#/schedule/discretionary", values: notBool),
    Wrong(pointer: "#/schedule/waits_for_connectivity", values: notBool),
    Wrong(pointer: "#/schedule/confirm_before_begin", values: notBool),
    Wrong(pointer: "#/schedule/expected_bytes_to_send", values: badSizes),
    Wrong(pointer: "#/schedule/expected_bytes_to_receive", values: badSizes),
    Wrong(pointer: "#/schedule/timeout_for_resource", values: notNumber + ["0", "31536001"]),
    Wrong(pointer: "#/schedule/depends_on", values: ["null", "1"]),
    Wrong(pointer: "#/schedule/on_dependency_failure", values: [#""ask""#, "1", "null"]),
    Wrong(pointer: "#/network", values: notObject),
    Wrong(pointer: "#/network/allow_expensive", values: notBool + ["false"]),
    Wrong(pointer: "#/network/allow_constrained", values: notBool + ["false"]),
    Wrong(pointer: "#/network/max_bytes_per_second", values: badSizes + ["0"]),
    Wrong(pointer: "#/retry", values: notObject),
    Wrong(pointer: "#/retry/max_attempts", values: ["0", "1000001", "1.5", "null", "\"1\""]),
    Wrong(pointer: "#/retry/initial_delay", values: notNumber + ["-1", "86401"]),
    Wrong(pointer: "#/retry/multiplier", values: notNumber + ["0.9", "11"]),
    Wrong(pointer: "#/retry/max_delay", values: notNumber + ["-1", "86401"]),
    Wrong(pointer: "#/retry/non_idempotent", values: notBool),
    Wrong(pointer: "#/retry/resume_without_validator", values: notBool),
    Wrong(pointer: "#/segments", values: ["0", "65", "1.5", "null", "\"1\""]),
    Wrong(pointer: "#/webhook", values: ["1", "[]", #""http://a.example/""#]),
    Wrong(pointer: "#/webhook/url", values: badURLs),
    Wrong(pointer: "#/webhook/events", values: ["1", "null", "[]", "{}"]),
    Wrong(pointer: "#/webhook/events/0", values: ["1", #""x""#, "null"]),
    Wrong(pointer: "#/webhook/secret", values: ["1", #""x""#, #""whsec_""#, #""whsec_AAAA""#]),
    Wrong(pointer: "#/webhook/tls", values: [#""1.2""#, "1", "[]", "{}"]),
    Wrong(pointer: "#/unknown", values: ["1", "null"]),
]

@Suite("Invalid job bodies")
struct JobSpecFuzzTests {
    /// Returns a job with a value at a pointer and the members that are required beside it.
    private func job(_ pointer: String, _ value: String) -> String {
        var parts = pointer.split(separator: "/").dropFirst().map { $0.replacing("%20", with: " ") }
        let top = String(parts.removeFirst())
        var text = value
        for part in parts.reversed() { text = part == "0" ? "[\(text)]" : "{\"\(part)\":\(text)}" }
        var members: [(String, String)] = [
            ("kind", "\"download\""), ("request", #"{"url":"http://a.example/"}"#),
        ]
        members.removeAll { $0.0 == top }
        if top == "request", let first = parts.first, first != "url" {
            text = #"{"url":"http://a.example/",\#(text.dropFirst())"#
        }
        if top == "destination", let first = parts.first, first == "if_exists" {
            text = #"{"path":"a",\#(text.dropFirst())"#
        }
        if top == "webhook", let first = parts.first, first != "url" {
            text = #"{"url":"http://a.example/",\#(text.dropFirst())"#
        }
        members.append((top, text))
        return "{" + members.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}"
    }

    @Test("an invalid value is rejected with its pointer", arguments: wrongs)
    func refused(_ wrong: Wrong) {
        for value in wrong.values {
            let errors = errors(job(wrong.pointer, value))
            #expect(errors.map(\.pointer) == [wrong.pointer], "\(value.prefix(80)): \(errors)")
            #expect(errors.allSatisfy { !$0.detail.isEmpty && $0.detail.hasSuffix(".") })
        }
    }

    /// A body and the pointer of its only error.
    private static let combinations: [(String, String)] = [
        (#"{"kind":"upload","request":{"url":"http://a.example/"}}"#, "#/source"),
        (#"{"kind":"upload","request":{"url":"http://a.example/"},"source":null}"#, "#/source"),
        (#"{"kind":"upload","request":{"url":"http://a.example/"},"source":{}}"#, "#/source"),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"path":"a","text":"b"}}"#,
            "#/source"
        ),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"job":"job_x"}}"#,
            "#/source/job"
        ),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"path":"a/"}}"#,
            "#/source/path"
        ),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/","method":"GET"},"#
                + #""source":{"text":"a"}}"#,
            "#/request/method"
        ),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/","body":{"text":""}},"#
                + #""source":{"text":"a"}}"#,
            "#/request/body"
        ),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"text":"a"},"#
                + #""destination":{"path":"a"}}"#,
            "#/destination/path"
        ),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"base64":"A"}}"#,
            "#/source/base64"
        ),
        (#"{"kind":"data","request":{"url":"http://a.example/","body":{"text":""}}}"#, "#/request/body"),
        (
            #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","body":{}}}"#,
            "#/request/body"
        ),
        (
            #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","#
                + #""body":{"multipart":null}}}"#,
            "#/request/body/multipart"
        ),
        (
            #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","#
                + #""body":{"form":{"a":1}}}}"#,
            "#/request/body/form/a"
        ),
        (
            #"{"kind":"data","request":{"url":"http://a.example/","headers":{"A":"1","a":"2"}}}"#,
            "#/request/headers/a"
        ),
        (#"{"kind":"data","request":{"url":"http://a.example/"},"segments":2}"#, "#/segments"),
        (
            #"{"kind":"upload","request":{"url":"http://a.example/"},"source":{"text":"a"},"#
                + #""mirrors":["http://b.example/"]}"#,
            "#/mirrors"
        ),
        (
            #"{"kind":"download","request":{"url":"http://a.example/","method":"POST"},"segments":4}"#,
            "#/segments"
        ),
        (
            #"{"kind":"download","request":{"url":"http://a.example/","headers":{"Range":"bytes=0-1"}},"#
                + #""segments":4}"#,
            "#/segments"
        ),
        (
            #"{"kind":"download","request":{"url":"http://a.example/","accept_encoding":"gzip"},"#
                + #""mirrors":["http://b.example/"]}"#,
            "#/mirrors"
        ),
        (
            #"{"kind":"download","request":{"url":"http://a.example/"},"mirrors":["http://A.example"]}"#,
            "#/mirrors/0"
        ),
        (
            #"{"kind":"download","request":{"url":"https://a.example/","tls":{"minimum_version":"1.3"}},"#
                + #""mirrors":["https://b.example/","http://c.example/"]}"#,
            "#/mirrors/1"
        ),
        (
            #"{"kind":"download","request":{"url":"http://a.example/"},"#
                + #""mirrors":["http://b.example/","http://b.example:80/"]}"#,
            "#/mirrors/1"
        ),
        (#"{"kind":"data"}"#, "#/request"), (#"{"request":{"url":"http://a.example/"}}"#, "#/kind"),
        (#"{"kind":"data","request":{}}"#, "#/request/url"), ("[]", "#"), ("1", "#"), ("null", "#"),
    ]

    @Test("invalid combinations are rejected")
    func combinations() {
        for (text, pointer) in Self.combinations {
            #expect(errors(text).map(\.pointer) == [pointer], "\(text): \(errors(text))")
        }
    }

    @Test(
        "a body with randomly swapped values never crashes the reader",
        arguments: UInt64(0)..<300)
    func random(_ seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let original = try JSON.parse(Array(fullJobs[Int(seed) % fullJobs.count].utf8))
        let json = mutated(original, &random)
        _ = try? JobRequest(JSONView(json)) { _ in nil }
    }

    private func mutated(_ json: JSON, _ random: inout SeededRandom) -> JSON {
        let strange: [JSON] = [
            .null, .bool(true), .integer(.min), .integer(.max), .number(1e308), .number(-0.0), .string(""),
            .string("\u{0}"),
            .string(String(repeating: "é", count: 5_000)), .array([]), .array([.null]), .object([]),
            .object([.init("", .null)]),
        ]
        if Int.random(in: 0..<8, using: &random) == 0 {
            return strange.randomElement(using: &random) ?? .null
        }
        switch json {
        case .array(let values): return .array(values.map { mutated($0, &random) })
        case .object(let members): return .object(members.map { .init($0.name, mutated($0.value, &random)) })
        default: return json
        }
    }
}
