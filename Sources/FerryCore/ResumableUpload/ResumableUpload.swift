/// A protocol of uploads that continue where they broke off.
public enum UploadDialect: String, Sendable {
    /// Resumable Uploads for HTTP (draft-ietf-httpbis-resumable-upload).
    case ietf
    /// tus 1.0.0.
    case tus
}

/// An upload that its server keeps under an address of its own, so that any later attempt, on any node, or
/// another job can continue it. It is stored, sealed, as soon as the server has named the address.
public struct ResumableUpload: Sendable, Equatable {
    /// The protocol that the server speaks.
    public let dialect: UploadDialect
    /// URL of the job whose upload it is.
    public let target: String
    /// Address of the upload, with its user information.
    public let url: String
    /// `true` if credentials are sent to that address.
    public let keepsCredentials: Bool
    /// Bytes of the whole body.
    public let byteCount: Int64
    /// Identity of the body: two bodies with the same one have the same bytes.
    public let body: String
    /// Boundary of a multipart body, without which the body cannot be made again; `nil` for other bodies.
    public let boundary: String?

    /// Creates an upload.
    public init(
        dialect: UploadDialect, target: String, url: String, keepsCredentials: Bool, byteCount: Int64,
        body: String,
        boundary: String? = nil
    ) {
        self.dialect = dialect
        self.target = target
        self.url = url
        self.keepsCredentials = keepsCredentials
        self.byteCount = byteCount
        self.body = body
        self.boundary = boundary
    }
}

// MARK: Encoding

extension ResumableUpload {
    /// Writes the object. It is secret: the address alone may allow to write to the upload.
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("protocol", dialect.rawValue)
        writer.member("target", target)
        writer.member("url", url)
        writer.member("keeps_credentials", keepsCredentials)
        writer.member("size", byteCount)
        writer.member("body", body)
        if let boundary { writer.member("boundary", boundary) }
        writer.endObject()
    }

    /// Reads what `write` wrote; `nil` for anything else.
    init?(_ json: JSON) {
        guard let dialect = json["protocol"]?.string.flatMap(UploadDialect.init),
            let target = json["target"]?.string, let url = json["url"]?.string,
            let byteCount = json["size"]?.integer, let body = json["body"]?.string
        else { return nil }
        self.init(
            dialect: dialect, target: target, url: url,
            keepsCredentials: json["keeps_credentials"]?.bool ?? false,
            byteCount: byteCount, body: body, boundary: json["boundary"]?.string)
    }
}
