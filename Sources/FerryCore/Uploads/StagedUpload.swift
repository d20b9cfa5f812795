/// Bytes that a client has sent to Ferry, so that jobs can send them on. They are on the disk of one node, or
/// in an object of the content store once they are complete.
public struct StagedUpload: Sendable, Equatable {
    /// Identifier, which determines the path of the file.
    public let id: UploadID
    /// Tenant.
    public let tenant: String
    /// The node that has received the bytes.
    public let node: NodeID
    /// Key of the object with the bytes; `nil` while they are on the disk of `node`.
    public var object: String?
    /// Time of the creation.
    public let createdAt: Timestamp
    /// Name that the client has given, unique for the tenant, or `nil`.
    public let name: String?
    /// The fields that came with the bytes.
    public var fields: UploadFields
    /// Bytes of the complete upload, or `nil` while they are not known.
    public var size: Int64?
    /// Bytes that survive the end of the process.
    public var offset: Int64 = 0
    /// Whether all bytes are there.
    public var isComplete = false
    /// SHA-256 of the complete upload, else `nil`.
    public var sha256: [UInt8]?
    /// Time of the removal, unless an unfinished job or a schedule needs the upload.
    public var expiresAt: Timestamp

    /// Creates an upload without bytes.
    public init(
        id: UploadID, tenant: String, node: NodeID, name: String?, fields: UploadFields, size: Int64?,
        createdAt: Timestamp, expiresAt: Timestamp
    ) {
        self.id = id
        self.tenant = tenant
        self.node = node
        self.name = name
        self.fields = fields
        self.size = size
        self.createdAt = createdAt
        self.expiresAt = expiresAt
    }

    /// The node whose disk has the bytes; `nil` if they are in an object, which all nodes can read.
    public var home: NodeID? { object == nil ? node : nil }

    /// The path of the upload in the API.
    public var path: String { "/v1/uploads/\(name ?? id.description)" }
}

/// The fields of the request that has created an upload.
public struct UploadFields: Sendable, Equatable {
    /// File name, or `nil`.
    public var fileName: String?
    /// Media type, or `nil`.
    public var contentType: String?
    /// Value of `Repr-Digest` (RFC 9530), which covers the complete upload, or `nil`.
    public var reprDigest: String?
    /// Names and values of the client.
    public var metadata = UploadMetadata()
    /// Value of `Upload-Concat` (tus 1.0), or `nil`. No request appends to a final upload.
    public var concatenation: String?

    /// Creates fields without values.
    public init() {}
}

extension StagedUpload: ShownObject {
    public static let summary = "A staged upload: bytes that jobs send."
    public static let schemaName = "Upload"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the upload.")
        list.member("name", \.name, "Name of the upload that the client has given, or null.")
        list.member("size", \.size, "Size in bytes, or null while it is not known.", [.minimum(0)])
        list.member(
            "offset", \.offset, "Bytes that are on the disk; the upload continues there.", [.minimum(0)])
        list.member("complete", \.isComplete, "Whether all bytes have arrived.")
        list.member(
            "sha256", { $0.sha256.map(hexEncoded) }, "SHA-256 in hexadecimal, or null while it is incomplete."
        )
        list.member("created_at", \.createdAt, "Time of the creation.")
        list.member(
            "expires_at", \.expiresAt,
            "Time of the removal. A complete upload stays while an unfinished job or an enabled schedule "
                + "needs it.")
        list.member("file_name", \.fields.fileName, "File name that the client has given, or null.")
        list.member("content_type", \.fields.contentType, "Media type that the client has given, or null.")
        list.member("metadata", \.fields.metadata, "Names and values of the field Upload-Metadata.")
    }
}

extension UploadMetadata: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        for pair in pairs { writer.member(pair.name, pair.value) }
        writer.endObject()
    }

    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [
            JSON.Member("type", "object"),
            JSON.Member("additionalProperties", .object([JSON.Member("type", "string")])),
        ]
    }
}
