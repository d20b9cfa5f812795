import FerryCore
import Testing

@testable import FerryEngine

@Suite("Identity of a request")
struct RequestIdentityTests {
    /// Another value of each field of a request; `nil` if that of a download has one value only.
    private static let others: [String: String?] = [
        "url": #""https://a.example/g""#, "method": #""PUT""#, "headers": #"{"X-A":"b"}"#,
        "header_fields": #"[{"name":"X-A","value":"b"}]"#, "body": #"{"text":"a"}"#, "cache_policy": nil,
        "timeout_for_request": "9", "accept_encoding": #""gzip""#, "http_version": #""1.1""#,
        "proxy": #"{"url":"http://p.example:3128"}"#,
        "auth": #"{"type":"basic","user":"u","password":"p"}"#, "tls": #"{"minimum_version":"1.3"}"#,
        "idempotency_key": #""k""#, "resumable_upload": nil,
        "http_should_handle_cookies": "false", "main_document_url": #""https://b.example/""#,
    ]

    /// Returns a download with these members of the request.
    private func job(_ members: [String: String] = [:]) throws -> JobRequest {
        let all = ["url": #""https://a.example/f""#, "method": #""POST""#].merging(members) { $1 }
        let request = all.map { "\"\($0.key)\":\($0.value)" }.joined(separator: ",")
        return try JobRequest(
            JSONView(parsing: Array(#"{"kind":"download","request":{\#(request)}}"#.utf8)),
            refusal: { _ in nil })
    }

    @Test("requests that differ in a field have another identity if the field identifies the bytes")
    func fields() throws {
        let before = PartialRecord.identity(of: try job().spec.request)
        for field in ObjectDescription(JobSpec.RequestSpec.self).fields {
            guard let other = try #require(Self.others[field.name], "\(field.name) has no value") else {
                continue
            }
            let after = PartialRecord.identity(of: try job([field.name: other]).spec.request)
            #expect((after != before) == field.traits.identifiesBytes, "\(field.name)")
        }
    }

    @Test("the bytes of a download keep their identity when its link is changed")
    func patches() throws {
        let job = try job()
        let before = PartialRecord.identity(of: job.spec.request)
        for field in ObjectDescription(JobSpec.RequestSpec.self).fields where field.traits.change == .always {
            let other = try #require(Self.others[field.name] ?? nil)
            let patch = #"{"request":{"\#(field.name)":\#(other)}}"#
            let after = try job.merging(JSONView(parsing: Array(patch.utf8)), refusal: { _ in nil })
            #expect(PartialRecord.identity(of: after.spec.request) == before, "\(field.name)")
        }
    }
}
