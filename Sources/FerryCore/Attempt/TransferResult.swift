/// Result of a successful attempt.
public struct TransferResult: Sendable, Equatable {
    /// Location of the received bytes, or `nil` if `body` has them or there are none.
    public var location: ContentLocation?
    /// Bytes of the file or body that was received (downloads, data) or sent (uploads).
    public var size: Int64 = 0
    /// SHA-256 of the same bytes in lower-case hexadecimal.
    public var sha256 = ""
    /// Body of the response to a data job or an upload if it is short enough for the database, else `nil`. It
    /// is stored beside the result, so that lists need not read it.
    public var body: [UInt8]? {
        didSet { hasBody = body != nil }
    }
    /// `true` if such a body is stored, also if it was not read.
    private var hasBody = false
    /// Verification of the body.
    public var verified = Verification.none
    /// As `TransferProgress.resumedAtOffset`.
    public var resumedAtOffset: Int64?
    /// Bytes of a copy that were on a disk before they were sent; `nil` if none were.
    public var spooledByteCount: Int64?
    /// As `TransferProgress.bytesSent`.
    public var bytesSent: Int64 = 0
    /// The parts, or `nil` if the body was of another type.
    public var parts: Parts?
    /// Identity of a file that the job names, as it was published.
    public var file: FileIdentity?
    /// The body of the response to an upload, or `nil` if it had none.
    public var content: Content?

    /// The object that an upload to a store has written, or the file that a copied download has; else `nil`.
    public var object: SentObject? {
        get { boxedObject?.value }
        set { boxedObject = newValue.map(Boxed.init) }
    }
    private var boxedObject: Boxed<SentObject>?

    /// An object as its store has taken it.
    public struct SentObject: Sendable, Equatable {
        /// Address of the object.
        public let url: String
        /// `ETag` with its quotes, or `nil`.
        public let entityTag: String?
        /// `x-amz-version-id`; `nil` in a bucket without versions.
        public let versionID: String?
        /// Creates a description.
        public init(url: String, entityTag: String?, versionID: String?) {
            self.url = url
            self.entityTag = entityTag
            self.versionID = versionID
        }
    }

    /// Proof that the body is complete: a digest, a length, or none if it ended with the connection.
    public enum Verification: String, FieldChoice { case digest, length, none }

    /// Parts of a `multipart/x-mixed-replace` body; its last complete part is the result.
    public struct Parts: Sendable, Equatable {
        /// Number of complete parts.
        public private(set) var count: Int64 = 0
        /// Media type of the last part.
        public private(set) var mimeType: String?
        /// Creates an empty description, whose fields are read then.
        public init() {}
        /// Creates a description of the parts.
        public init(count: Int64, mimeType: String?) {
            self.count = count
            self.mimeType = mimeType
        }
    }

    /// Bytes that are kept and are not those of `size` and `sha256`.
    public struct Content: Sendable, Equatable {
        /// Number of bytes.
        public private(set) var size: Int64 = 0
        /// SHA-256 in lower-case hexadecimal.
        public private(set) var sha256 = ""
        /// Creates an empty description, whose fields are read then.
        public init() {}
        /// Creates a description of the bytes.
        public init(size: Int64, sha256: String) {
            self.size = size
            self.sha256 = sha256
        }
    }

    /// Creates an empty result, whose fields are read then.
    public init() {}

    /// Creates a result.
    public init(
        location: ContentLocation? = nil, size: Int64, sha256: String, body: [UInt8]? = nil,
        verified: Verification
    ) {
        self.location = location
        self.size = size
        self.sha256 = sha256
        self.body = body
        hasBody = body != nil
        self.verified = verified
    }

    /// Returns the result of an upload with the body of its response.
    public func keeping(_ response: TransferResult) -> TransferResult {
        var result = self
        result.content = Content(size: response.size, sha256: response.sha256)
        (result.body, result.location) = (response.body, response.location)
        return result
    }

    /// The bytes that are kept, or `nil` for an upload whose response had no body.
    var kept: Content? {
        location != nil || hasBody ? content ?? Content(size: size, sha256: sha256) : nil
    }
}

extension TransferResult: StoredFields {
    public static let summary = "Received or sent bytes of a succeeded job."
    public static let schemaName = "TransferResult"

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.stored("location", &location, NoRule())
        visitor.stored("file", &file, NoRule())
        var (sent, inBody) = (bytesSent > 0 ? bytesSent : nil, hasBody ? true : nil)
        visitor.stored("bytes_sent", &sent, 0...Int64.max)
        visitor.stored("in_body", &inBody, NoRule())
        (bytesSent, hasBody) = (sent ?? 0, inBody ?? false)
        visitor.field(
            "size", &size, 0...Int64.max, .of(required: true),
            "Bytes of the received file or body, or of the sent file.")
        visitor.field(
            "sha256", &sha256, .any, .of(required: true),
            "SHA-256 of these bytes, in lower-case hexadecimal.")
        visitor.field(
            "verified", &verified, .of(required: true),
            "Check of the received bytes: digest, length, or none if the body ended with its connection.")
        visitor.shown(
            "resumed_at_offset", &resumedAtOffset, 0...Int64.max,
            "Byte at which the transfer resumed; 0 if it restarted. Absent if no bytes were kept.")
        visitor.shown(
            "spooled_bytes", &spooledByteCount, 0...Int64.max,
            "Only of a copy whose target demanded a length that the source did not tell: bytes that were on "
                + "a disk of the node before they were sent.")
        visitor.shown("parts", &parts, NoRule(), "Only of a multipart/x-mixed-replace response.")
        visitor.shown("content", &content, NoRule(), "Only of an upload whose response had a body.")
        let before = object
        var (url, entityTag, versionID) = (before?.url, before?.entityTag, before?.versionID)
        visitor.shown(
            "url", &url, .any,
            "Only of an upload to a store, and of a download that is copied: address of the object or file.")
        visitor.shown("etag", &entityTag, .any, "ETag of the object or file, with its quotes.")
        visitor.shown("version_id", &versionID, .any, "Version of the object, in a bucket with versions.")
        if let url, before == nil {
            object = SentObject(url: url, entityTag: entityTag, versionID: versionID)
        }
    }
}

extension TransferResult.Content: FieldObject, FieldValue {
    public static let summary = "The kept body of the response to an upload."
    public static let schemaName = "ResponseContent"

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("size", &size, 0...Int64.max, .of(required: true), "Bytes of the body.")
        visitor.field(
            "sha256", &sha256, .any, .of(required: true),
            "SHA-256 of these bytes, in lower-case hexadecimal.")
    }
}

extension TransferResult.Parts: FieldObject, FieldValue {
    public static let summary =
        "Parts of a multipart/x-mixed-replace response. Each part replaces the one before; the last complete "
        + "part is the result."
    public static let schemaName = "ResultParts"

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("count", &count, 0...Int64.max, .of(required: true), "Number of complete parts.")
        visitor.field(
            "mime_type", &mimeType, .any, .plain, "Media type of the last part, or null if it has none.")
    }
}

extension FileIdentity: RecordValue {
    public static func restore(_ json: JSON) -> FileIdentity? { json.string.flatMap(FileIdentity.init) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(text) }
}

extension ContentLocation: RecordValue {
    public static func restore(_ json: JSON) -> ContentLocation? { ContentLocation(json) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { write(into: &writer) }
}

/// The `result` object of the API.
public struct ShownResult: ShownObject {
    public static var summary: String { TransferResult.summary }
    public static var schemaName: String { TransferResult.schemaName }

    let result: TransferResult
    let job: JobID
    /// The short body, or `nil` if it was not read or there is none.
    let body: [UInt8]?

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "path", \.result.location?.path,
            "Path of the file below the tenant's storage root, or null if the job has no destination.")
        list.fields(\.result)
        list.member(
            "content_url", { $0.result.kept == nil ? nil : "/v1/jobs/\($0.job)/content" },
            "Path of the received bytes; null for an upload whose response had no body.")
        list.member(
            "body", { $0.body.map(InlineBody.init) },
            "Short body of the response to a data job or an upload: a string if it is UTF-8, else an object "
                + "with its base64. Null in lists, and without a short body.")
    }
}

/// Body of a result: a text if it is UTF-8, else `{"base64": "…"}`.
private struct InlineBody: ShownValue {
    let bytes: [UInt8]

    func show(into writer: inout JSONWriter, isRedacted: Bool) {
        if let text = String(validating: bytes, as: UTF8.self) { return writer.value(text) }
        writer.beginObject()
        writer.member("base64", Base64.encode(bytes))
        writer.endObject()
    }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        JSON.rules(##"{"oneOf": [{"type": "string"}, {"$ref": "#/components/schemas/ShownBytes"}]}"##)
    }
}
