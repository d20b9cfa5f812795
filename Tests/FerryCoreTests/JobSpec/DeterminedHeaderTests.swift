import FerryCore
import Testing

@Suite("Header fields that other fields determine")
struct DeterminedHeaderTests {
    private static let names: [(header: FieldTraits.Headers, name: String)] = [
        (.acceptEncoding, "Accept-Encoding"), (.authorization, "Authorization"), (.range, "Range"),
        (.ifRange, "If-Range"),
    ]

    /// A job with a value of each such field.
    private static let jobs = [
        "accept_encoding": #"{"request":{"accept_encoding":"gzip"}}"#,
        "auth": #"{"request":{"auth":{"type":"basic","user":"u","password":"p"}}}"#,
        "idempotency_key": #"{"request":{"idempotency_key":"k"}}"#,
        "segments": #"{"segments":2}"#, "mirrors": #"{"mirrors":["https://b.example/f"]}"#,
    ]

    private static func fields(of object: ObjectDescription) -> [FieldDescription] {
        object.fields.flatMap { field -> [FieldDescription] in
            guard case .object(let nested) = field.kind else { return [field] }
            return [field] + fields(of: nested)
        }
    }

    /// Returns a download with these members.
    private func job(_ patches: String...) throws -> JobRequest {
        var job = try JSON.parse(
            Array(#"{"kind":"download","request":{"url":"https://a.example/f"}}"#.utf8))
        for patch in patches { job = job.merged(with: try JSON.parse(Array(patch.utf8))) }
        return try JobRequest(JSONView(job), refusal: { _ in nil })
    }

    @Test("a submission and a patch are refused if they name a header field that another field determines")
    func refusals() throws {
        let fields = Self.fields(of: ObjectDescription(JobSpec.self)).filter { !$0.traits.determines.isEmpty }
        #expect(Set(fields.map(\.name)) == Set(Self.jobs.keys))
        for field in fields {
            let given = try #require(Self.jobs[field.name])
            let plain = try job(given)
            for (header, name) in Self.names where field.traits.determines.contains(header) {
                let patch = #"{"request":{"headers":{"\#(name)":"x"}}}"#
                #expect(throws: Never.self, "\(name) alone") { try job(patch) }
                #expect(throws: InvalidFields.self, "\(field.name), \(name)") { try job(given, patch) }
                let error = #expect(throws: InvalidFields.self, "\(field.name), patch of \(name)") {
                    try plain.merging(JSONView(parsing: Array(patch.utf8)), refusal: { _ in nil })
                }
                #expect(error?.errors.map(\.pointer) == ["#/request/headers/\(name)"])
            }
        }
    }
}
