/// The file or body that a succeeded job has left, or the response that has rejected an upload.
public struct JobContent: Sendable {
    /// Place of a job's bytes.
    public enum Place: Sendable {
        case body([UInt8])
        case stored(ContentLocation)
    }

    /// Place of the bytes.
    public let place: Place
    /// Identity of a file that the job names, as it was published: another file may have replaced it. `nil`
    /// for other contents, or if it was not recorded.
    public let file: FileIdentity?
    /// Number of bytes.
    public let size: Int64
    /// SHA-256 in lower-case hexadecimal.
    public let sha256: String
    /// Media type with parameters, or `nil` if the response had none.
    public let mediaType: String?
    /// File name for the client.
    public let fileName: String

    /// Location of the bytes; `nil` if they are in the record.
    public var location: ContentLocation? {
        if case .stored(let location) = place { location } else { nil }
    }

    /// Reads a record; `nil` if the job has not ended or has left nothing, as an upload does whose response
    /// had no body.
    public init?(_ job: JobRecord) {
        let (response, result) = (job.response, job.result)
        let kept: TransferResult.Content? =
            switch job.state {
            case .succeeded: result?.kept
            case .failed: response?.content.flatMap { job.keeps($0) ? $0 : nil }
            case .waiting, .queued, .running, .suspended, .cancelled: nil
            }
        guard let kept else { return nil }
        (size, sha256, file) = (kept.size, kept.sha256, result?.file)
        mediaType = result?.parts.map(\.mimeType) ?? response?.mediaType
        // A response that has rejected an upload, if it is too long for the record, is in a managed file or
        // an object.
        let location = result?.location ?? response?.contentLocation ?? .managedFile
        let name = location.path.flatMap { $0.split(separator: "/").last.map(String.init) }
        fileName = name ?? response?.suggestedFilename ?? job.id.description
        place = job.body.map { .body($0) } ?? .stored(location)
    }
}

extension JobRecord {
    /// Returns `true` if the response's body is there that `content` describes: in the record, or in a file
    /// if it is too long for that.
    fileprivate func keeps(_ content: TransferResult.Content) -> Bool {
        body != nil || content.size > Int64(Limits.inlineBodyByteCountMax)
    }
}
