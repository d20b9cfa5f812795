/// A protocol of uploads that continue where they broke off.
public enum UploadDialect: String, Sendable {
    /// Resumable Uploads for HTTP (draft-ietf-httpbis-resumable-upload).
    case ietf
    /// tus 1.0.0.
    case tus
    /// Multipart uploads to S3-compatible stores.
    case s3
}

/// An upload that its server keeps under an address of its own, so that any later attempt, on any node, or
/// another job can continue it. It is stored, sealed, as soon as the server has named the address.
public struct ResumableUpload: Sendable, Equatable {
    /// The parts of a multipart upload to a store. A class, so that other uploads are hardly larger by it.
    public final class Parts: Sendable, Equatable {
        /// Identifier of the upload at the store.
        public let upload: String
        /// Bytes of each part but the last.
        public let byteCount: Int64
        /// `true` if the entity tags of parts are MD5 digests: the store does not encrypt with keys of its
        /// own.
        public let haveDigestTags: Bool

        /// Creates a description.
        public init(upload: String, byteCount: Int64, haveDigestTags: Bool) {
            self.upload = upload
            self.byteCount = byteCount
            self.haveDigestTags = haveDigestTags
        }

        /// Compares the members.
        public static func == (a: Parts, b: Parts) -> Bool {
            a.upload == b.upload && a.byteCount == b.byteCount && a.haveDigestTags == b.haveDigestTags
        }
    }

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
    /// The parts of a multipart upload; `nil` for other uploads.
    public let parts: Parts?

    /// Creates an upload.
    public init(
        dialect: UploadDialect, target: String, url: String, keepsCredentials: Bool, byteCount: Int64,
        body: String,
        boundary: String? = nil, parts: Parts? = nil
    ) {
        self.dialect = dialect
        self.target = target
        self.url = url
        self.keepsCredentials = keepsCredentials
        self.byteCount = byteCount
        self.body = body
        self.boundary = boundary
        self.parts = parts
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
        if let parts {
            writer.member("upload_id", parts.upload)
            writer.member("part_size", parts.byteCount)
            writer.member("digest_tags", parts.haveDigestTags)
        }
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
            byteCount: byteCount, body: body, boundary: json["boundary"]?.string,
            parts: Parts(json))
    }
}

extension ResumableUpload.Parts {
    fileprivate convenience init?(_ json: JSON) {
        guard let upload = json["upload_id"]?.string, let byteCount = json["part_size"]?.integer else {
            return nil
        }
        self.init(
            upload: upload, byteCount: byteCount, haveDigestTags: json["digest_tags"]?.bool ?? false)
    }
}
