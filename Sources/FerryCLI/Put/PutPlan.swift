import FerryCore
import OpenSSL

/// Settings that all files of a `ferry put` share.
struct PutPlan: Sendable {
    let service: ServiceClient
    /// Body of `POST /v1/jobs` without the members of a file.
    let template: JSON
    /// Members of `source.form` without the name of a file; `nil` for a body that is the file.
    let form: [JSON.Member]?
    /// The user's idempotency key, for one file.
    let idempotencyKey: String?
    /// `true` to wait until the jobs have ended; then the longest time in seconds, or `nil`.
    let waits: Bool
    let timeout: Double?
    /// Seconds for which the service may delay its response until the job of a small file has ended.
    let submissionWait: Int?
    let contact = ServiceContact()

    /// Largest file that is sent within the job, in bytes: as base64 it fits into a request of 1 MiB.
    static let inlineByteCountMax = 512 << 10
    /// Bytes of a stream that are sent again if their connection breaks.
    static let pieceByteCount = 4 << 20

    /// Returns the body of `POST /v1/jobs` for a URL and a source. `file`: name of the file, if it has one.
    func body(url: String, source: JSON.Member, file: LocalPath?) -> [UInt8] {
        var members = [source]
        if var form {
            if let name = file.flatMap({ LocalFile.safeName($0.text) }) {
                form.append(.init("file_name", .string(name)))
            }
            members.append(.init("form", .object(form)))
        }
        var writer = JSONWriter()
        writer.value(
            template.merged(
                with: .object([
                    .init("request", .object([.init("url", .string(url))])),
                    .init("source", .object(members)),
                ])))
        return writer.bytes
    }

    /// Returns a key that no other submission has.
    static func randomKey() -> String { "put-" + hexEncoded(randomBytes(16)) }

    /// Returns the key of a submission: the same for the same texts.
    static func key(_ parts: [[UInt8]]) -> String {
        var digest = Digest(.sha256)
        for part in parts {
            digest.update(Array("\(part.count) ".utf8))
            digest.update(part)
        }
        return "put-" + hexEncoded(Array(digest.finish().prefix(16)))
    }
}
