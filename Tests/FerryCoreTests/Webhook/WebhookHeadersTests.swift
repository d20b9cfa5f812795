import Testing

@testable import FerryCore

/// `headers` and `payload` of webhooks.
@Suite("Header fields and payload of webhooks")
struct WebhookHeadersTests {
    private static let hidden = JSON.object([.init("set", .bool(true))])

    private func job(_ webhook: String) throws -> JobRequest {
        let text =
            #"{"kind":"data","request":{"url":"http://a.example/","headers":{"A":"1"}},"#
            + #""webhook":{"url":"http://b.example/",\#(webhook)}}"#
        return try JobRequest(JSONView(parsing: Array(text.utf8)), refusal: { _ in nil })
    }

    private func errors(_ webhook: String) throws -> [String] {
        do {
            _ = try job(webhook)
            return []
        } catch let error as InvalidFields {
            return error.errors.map { "\($0.pointer) \($0.code)" }
        }
    }

    @Test("values of a job's webhook are secrets, and only the names are shown and stored")
    func ofJob() throws {
        let request = try job(#""headers":{"X-Note":"hush","Authorization":"hush"},"payload":"thin""#)
        let lines = [JobSpec.Pair("X-Note", "hush"), JobSpec.Pair("Authorization", "hush")]
        #expect(request.secrets.webhookHeaders == lines && request.secrets.headers.isEmpty)
        #expect(try JobSecrets(json: request.secrets.encode()) == request.secrets)
        #expect(try JobSecrets(json: JobSecrets().encode()).webhookHeaders.isEmpty)
        let shown = try JSON.parse(request.spec.encode())["webhook"]
        #expect(shown?["headers"] == .object(lines.map { .init($0.name, Self.hidden) }))
        #expect(shown?["payload"] == "thin")
        let stored = request.spec.encodeStored(.inverted)
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(try JobSpec(storedJSON: stored, opening: .inverted) == request.spec)
    }

    @Test("repeated names are a list; both forms are compared within the webhook")
    func repeated() throws {
        let list = #""header_fields":[{"name":"B","value":"1"},{"name":"b","value":"2"}]"#
        #expect(try job(list).secrets.webhookHeaders.map(\.value) == ["1", "2"])
        #expect(try errors(#""headers":{"B":"1, 2"},"# + list) == [])
        #expect(
            try errors(#""headers":{"B":"1"},"# + list) == ["#/webhook/header_fields invalid_combination"])
        let spec = try job(list).spec
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
    }

    @Test(
        "fields that Ferry sets are rejected with their place",
        arguments: [
            "webhook-id", "Webhook-Signature", "webhook-anything", "Content-Type", "User-Agent",
            "Content-Encoding", "traceparent", "tracestate", "Host", "Content-Length", "Connection",
            "Transfer-Encoding", "Proxy-Authorization",
        ])
    func forbidden(name: String) throws {
        #expect(try errors(#""headers":{"\#(name)":"x"}"#) == ["#/webhook/headers/\(name) invalid_value"])
    }

    @Test("in a list, a field that Ferry sets is rejected at its index; a control character is rejected")
    func places() throws {
        let list = #""header_fields":[{"name":"A","value":"1"},{"name":"webhook-id","value":"2"}]"#
        #expect(try errors(list) == ["#/webhook/header_fields/1/name invalid_value"])
        #expect(try errors(#""headers":{"A":"1\r\nB: 2"}"#) == ["#/webhook/headers/A invalid_value"])
        #expect(try errors(#""payload":"small""#) == ["#/webhook/payload invalid_value"])
    }

    @Test("the stored form of an endpoint's fields shows names, and gives values only with the key")
    func ofEndpoint() throws {
        let lines = [JobSpec.Pair("X-Note", "hush"), .init("Cookie", "hush"), .init("x-note", "too")]
        let stored = try #require(WebhookHeaders.stored(lines, .inverted))
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(WebhookHeaders.names(of: stored) == lines.map { .init($0.name, "") })
        #expect(WebhookHeaders.opened(stored, .inverted) == lines)
        let other = SecretSeal(seal: { $0 }, open: { _ in nil })
        #expect(WebhookHeaders.opened(stored, other) == nil)
        #expect(WebhookHeaders.stored([], .inverted) == nil)
    }

    @Test("a thin job keeps members in order as far as they fit, id and state first")
    func thin() throws {
        let job = #"""
            {"tenant":"t","error":{"code":"x","message":"long"},"metadata":{"a":"b"},"state":"failed",
            "finished_at":null,"id":"job_1","result":null,"spec":{"url":"http://a/"}}
            """#
        let whole = #"{"id":"job_1","state":"failed","error":{"code":"x"},"metadata":{"a":"b"}}"#
        let make = { String(decoding: ThinJob.make(of: Array(job.utf8), byteCountMax: $0), as: UTF8.self) }
        #expect(make(1_000) == whole && make(whole.utf8.count) == whole)
        #expect(make(whole.utf8.count - 1) == #"{"id":"job_1","state":"failed","error":{"code":"x"}}"#)
        #expect(make(36) == #"{"id":"job_1","state":"failed"}"#)
        #expect(ThinJob.make(of: Array("null".utf8), byteCountMax: 100) == Array("null".utf8))
    }
}
