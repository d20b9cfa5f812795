import FerryCore
import HTTPServer
import Testing

@testable import FerryAPI

@Suite("Health, metrics and documents")
struct OperationsTests {
    @Test("readiness follows its checks and names them when asked or when one fails")
    func ready() throws {
        let good = Fixture()
        #expect(try good.send("GET", "/readyz", key: nil).body == Array("ok\n".utf8))
        #expect(try good.send("GET", "/readyz?verbose", key: nil).body == Array("[+]database ok\nok\n".utf8))
        let bad = Fixture(readiness: [.init("database", isOK: true), .init("storage", isOK: false)])
        let answer = try bad.send("GET", "/readyz", key: nil)
        #expect(
            answer.status == 503
                && answer.body == Array("[+]database ok\n[-]storage failed\nnot ready\n".utf8))
        #expect(try bad.send("GET", "/livez", key: nil).status == 200)
    }

    @Test("metrics are for viewers, in the text format")
    func metrics() throws {
        let fixture = Fixture()
        let answer = try fixture.send("GET", "/metrics", key: fixture.viewerKey)
        #expect(answer.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
        #expect(answer.body == Array("# HELP a b\n".utf8))
    }

    @Test("the document and its page have tags, and the page runs nothing but its own script")
    func documents() throws {
        let fixture = Fixture()
        for path in ["/openapi.json", "/docs"] {
            let answer = try fixture.send("GET", path, key: nil)
            let tag = try #require(answer.header("ETag"))
            #expect(try fixture.send("GET", path, key: nil, [("If-None-Match", tag)]).status == 304)
        }
        let page = try fixture.send("GET", "/docs", key: nil)
        #expect(
            page.header("Content-Security-Policy")?.contains("script-src 'sha256-\(docsScriptDigest)'")
                == true)
        let text = String(decoding: page.body, as: UTF8.self)
        for code in ProblemCode.allCases.map(\.rawValue) + RefusalCode.allCases.map(\.rawValue) {
            #expect(text.ranges(of: "id=\"\(code)\"").count == 1, "\(code)")
        }
        #expect(!text.contains("http://") && !text.contains("https://"))
    }

    @Test("what the server itself turns down is a problem document, too")
    func refusals() throws {
        let fixture = Fixture()
        let response = fixture.api.refusal(.bodyTooLarge, "Too large.", "r")
        let answer = Answer(response: response)
        #expect(
            answer.status == 413 && answer.code == "body_too_large"
                && answer.json["request_id"] == .string("r"))
        #expect(answer.json["title"] == .string("The body is too large"))
        #expect(answer.header("Retry-After") == nil)
        let stopping = fixture.api.refusal(.shuttingDown, "Elsewhere.", "r")
        #expect(Answer(response: stopping).header("Retry-After") == "1")
    }
}
