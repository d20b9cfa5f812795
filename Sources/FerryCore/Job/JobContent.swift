/// The file or body that a succeeded job has left, or the response that has rejected an upload.
public struct JobContent: Sendable {
    /// Place of a job's bytes.
    public enum Place: Sendable {
        case body([UInt8])
        /// At a location. Another file may have replaced one that the job names: the identity is that of the
        /// published file, or `nil` if it was not recorded.
        case stored(ContentLocation, FileIdentity?)
    }

    /// Place of the bytes.
    public let place: Place
    /// Number of bytes.
    public let size: Int64
    /// SHA-256 in lower-case hexadecimal.
    public let sha256: String
    /// Media type with parameters, or `nil` if the response had none.
    public let mediaType: String?
    /// File name for the client.
    public let fileName: String

    /// Returns `true` if the response's body is there that `content` describes: in the record, or in a file
    /// if it is too long for that.
    private static func isKept(_ content: JSON?, _ body: [UInt8]?) -> Bool {
        guard let size = content?["size"]?.integer else { return false }
        return body != nil || size > Int64(Limits.inlineBodyByteCountMax)
    }

    /// Reads a record; `nil` if the job has not ended or has left nothing, as an upload does whose response
    /// had no body.
    public init?(_ job: JobRecord) {
        // A response that cannot be read names no media type or file.
        let response = job.responseJSON.flatMap { try? JSON.parse($0) }
        // Written by Ferry as JSON; a result that cannot be read has no content to show.
        let result = job.resultJSON.flatMap { try? JSON.parse($0) }
        let kept: JSON? =
            switch job.state {
            case .succeeded: result?["content_url"]?.string == nil ? nil : result?["content"] ?? result
            case .failed: Self.isKept(response?["content"], job.body) ? response?["content"] : nil
            case .waiting, .queued, .running, .suspended, .cancelled: nil
            }
        guard let sha256 = kept?["sha256"]?.string, let size = kept?["size"]?.integer else { return nil }
        self.size = size
        self.sha256 = sha256
        let parts = result?["parts"]
        mediaType = parts == nil ? Self.mediaType(response) : parts?["mime_type"]?.string
        let location = result.map { ContentLocation($0) } ?? .managedFile
        let name = location.path.flatMap { $0.split(separator: "/").last.map(String.init) }
        // Jobs from before the check of `NameCharacters` may have any name.
        let clean = (name ?? response?["suggested_filename"]?.string).map {
            NameCharacters.removingForbidden(from: $0)
        }
        fileName = clean.flatMap { $0.isEmpty ? nil : $0 } ?? job.id.description
        let file = result?["file"]?.string.flatMap { FileIdentity($0) }
        place = job.body.map { .body($0) } ?? .stored(location, file)
    }

    /// Returns `mime_type` with the parameters of the response's field.
    private static func mediaType(_ response: JSON?) -> String? {
        guard let type = response?["mime_type"]?.string else { return nil }
        let sent = response?["headers"]?.members?.first { $0.name.lowercased() == "content-type" }
        return type + (sent?.value.string.map { MediaType.parameters(of: $0, type: type) } ?? "")
    }
}
