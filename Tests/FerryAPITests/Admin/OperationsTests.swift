import FerryCore
import HTTPServer
import Testing

@testable import FerryAPI

@Suite("Health, metrics and documents")
struct OperationsTests {
    @Test("readyz follows its checks, and names them if verbose or if one fails")
    func ready() throws {
        let good = Fixture()
        #expect(try good.send("GET", "/readyz", key: nil).body == Array("ok\n".utf8))
        #expect(try good.send("GET", "/readyz?verbose", key: nil).body == Array("[+]database ok\nok\n".utf8))
        let bad = Fixture(readiness: [.init("database", isOK: true), .init("storage", isOK: false)])
        let response = try bad.send("GET", "/readyz", key: nil)
        #expect(
            response.status == 503
                && response.body == Array("[+]database ok\n[-]storage failed\nnot ready\n".utf8))
        #expect(try bad.send("GET", "/livez", key: nil).status == 200)
    }

    @Test("metrics need the role viewer and have the Prometheus text format")
    func metrics() throws {
        let fixture = Fixture()
        let response = try fixture.send("GET", "/metrics", key: fixture.viewerKey)
        #expect(response.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
        #expect(response.body == Array("# HELP a b\n".utf8))
    }

    @Test("the document and its page have entity tags, and the page runs its own script only")
    func documents() throws {
        let fixture = Fixture()
        for path in ["/openapi.json", "/docs"] {
            let response = try fixture.send("GET", path, key: nil)
            let tag = try #require(response.header("ETag"))
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

    @Test("a refusal by the HTTP server is a problem document")
    func refusals() throws {
        let fixture = Fixture()
        let response = ReceivedResponse(message: fixture.api.refusal(.bodyTooLarge, "Too large.", "r"))
        #expect(
            response.status == 413 && response.code == "body_too_large"
                && response.json["request_id"] == .string("r"))
        #expect(response.json["title"] == .string("The body is too large"))
        #expect(response.header("Retry-After") == nil)
        let stopping = fixture.api.refusal(.shuttingDown, "Elsewhere.", "r")
        #expect(ReceivedResponse(message: stopping).header("Retry-After") == "1")
    }
}
