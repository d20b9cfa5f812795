/// What a succeeded job has left: where its bytes are, and what they are.
package struct JobContent: Sendable {
    package enum Place: Sendable {
        case body([UInt8])
        /// Below the tenant's storage root, where others may put another file. The identity is that of the
        /// file that was published; nil when it was not noted.
        case path(String, FileIdentity?)
        /// Among the files that the service keeps.
        case kept
    }

    package let place: Place
    /// Bytes.
    package let size: Int64
    package let sha256: String
    /// With its parameters. Nil when the server did not say.
    package let mediaType: String?
    package let fileName: String

    /// Nil when the job has not succeeded or has left nothing, as uploads do.
    package init?(_ job: JobRecord) {
        guard job.state == .succeeded, let text = job.resultJSON, let result = try? JSON.parse(text),
            let sha256 = result["sha256"]?.string, let size = result["size"]?.integer,
            result["content_url"]?.string != nil
        else { return nil }
        self.size = size
        self.sha256 = sha256
        let response = job.responseJSON.flatMap { try? JSON.parse($0) }
        let parts = result["parts"]
        mediaType = parts == nil ? Self.mediaType(response) : parts?["mime_type"]?.string
        let path = result["path"]?.string
        let name = path.flatMap { $0.split(separator: "/").last.map(String.init) }
        // Jobs that were stored before `NameCharacters` was checked may have any name.
        let clean = (name ?? response?["suggested_filename"]?.string).map {
            NameCharacters.removingForbidden(from: $0)
        }
        fileName = clean.flatMap { $0.isEmpty ? nil : $0 } ?? job.id.description
        let file = result["file"]?.string.flatMap { FileIdentity($0) }
        place = if let body = job.body { .body(body) } else if let path { .path(path, file) } else { .kept }
    }

    /// `mime_type`, and what the server's field says beyond it.
    private static func mediaType(_ response: JSON?) -> String? {
        guard let type = response?["mime_type"]?.string else { return nil }
        let sent = response?["headers"]?.members?.first { $0.name.lowercased() == "content-type" }
        return type + (sent?.value.string.map { MediaType.parameters(of: $0, type: type) } ?? "")
    }
}
