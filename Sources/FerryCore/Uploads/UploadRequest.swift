/// Effect of a request on a staged upload, whatever protocol it speaks.
public enum UploadRequest: Sendable, Equatable {
    /// Creates an upload, and adds the body.
    case create(UploadFields, UploadBody)
    /// Creates an upload from the bytes of others, one after another.
    case concatenate(UploadFields, [UploadReference])
    /// Adds the body to an upload.
    case append(UploadBody)
}

/// Bytes that a request adds to an upload.
public struct UploadBody: Sendable, Equatable {
    /// End of an upload.
    public enum Completion: Sendable, Equatable {
        /// The end of the body completes the upload.
        case atEnd
        /// The upload is complete once all bytes of its size are there.
        case atSize
        /// More requests follow.
        case never
    }

    /// Place of the first byte in the upload; 0 for a request that creates it.
    public var offset: Int64 = 0
    /// Bytes of the complete upload, or `nil` if the request does not tell.
    public var size: Int64?
    /// When the upload is complete.
    public var completion = Completion.atEnd
    /// Digests of the body, in the form of `Content-Digest` (RFC 9530), or `nil`.
    public var contentDigest: String?

    /// Creates a body that is the whole upload.
    public init(size: Int64? = nil) { self.size = size }
}

/// Reason why a request for an upload is refused because of its header fields.
public enum UploadRefusal: Error, Sendable, Equatable {
    /// A field is missing or wrong; a sentence.
    case field(String)
    /// The media type is none of these.
    case mediaType(String)
    /// The version of tus is not 1.0.0.
    case version
}

/// Reads the header fields of a request for an upload.
public struct UploadRequestReader {
    private let values: (String) -> [String]
    private let contentLength: Int64?
    private let hasBody: Bool

    /// `values` returns all values of a field. `hasBody`: whether a body follows.
    public init(contentLength: Int64?, hasBody: Bool, values: @escaping (String) -> [String]) {
        self.values = values
        self.contentLength = hasBody ? contentLength : 0
        self.hasBody = hasBody
    }

    private func only(_ name: String) -> String? {
        let all = values(name)
        return all.count == 1 ? all[0] : nil
    }

    private func integer(_ name: String) -> Int64? { only(name).flatMap(StructuredItem.integer) }

    /// The protocol of the request. Throws `version`.
    public var style: UploadProtocol {
        get throws(UploadRefusal) {
            if let version = values("Tus-Resumable").first {
                guard version == "1.0.0" else { throw .version }
                return .tus
            }
            let names = ["Upload-Draft-Interop-Version", "Upload-Complete", "Upload-Incomplete"]
            guard names.contains(where: { !values($0).isEmpty }) else { return .plain }
            return .resumable(UploadDraft(only(names[0])))
        }
    }

    // MARK: Creation

    /// Reads a request that creates an upload.
    public func creation(_ style: UploadProtocol) throws(UploadRefusal) -> UploadRequest {
        var fields = try fields()
        var body = UploadBody(size: contentLength)
        body.contentDigest = only("Content-Digest")
        switch style {
        case .plain: break
        case .tus:
            // The media type of the request is that of the protocol.
            fields.contentType = fields.metadata["filetype"]
            if let names = try concatenated(&fields) { return .concatenate(fields, names) }
            body.size = try tusSize(isCreation: true)
            body.completion = .atSize
            body.contentDigest = try tusChecksum()
            if hasBody { try needMediaType(Self.tusMediaType) }
        case .resumable(let draft):
            let completes = completes(draft)
            // Without the field, the client only asks for interim responses.
            body.completion = completes ?? true ? .atEnd : .never
            body.size = try resumableSize(offset: 0, completes: completes ?? true)
        }
        return .create(fields, body)
    }

    private func fields() throws(UploadRefusal) -> UploadFields {
        var fields = UploadFields()
        let text = values("Upload-Metadata").joined(separator: ",")
        guard let metadata = UploadMetadata(text) else {
            throw .field(
                "Upload-Metadata must be pairs of a name and base64, with commas between them, of at most "
                    + "\(Limits.uploadMetadataByteCountMax) bytes.")
        }
        fields.metadata = metadata
        let name = only("Content-Disposition").flatMap { ContentDisposition($0).names.first }
        fields.fileName = (name ?? metadata["filename"]).map { shortened($0, Limits.nameByteCountMax * 2) }
        fields.contentType = (only("Content-Type") ?? metadata["filetype"]).map {
            shortened($0, Limits.contentTypeByteCountMax)
        }
        fields.reprDigest = only("Repr-Digest").map { shortened($0, 1_024) }
        return fields
    }

    /// Returns the text without its end, so that it has at most so many bytes.
    private func shortened(_ text: String, _ byteCountMax: Int) -> String {
        var text = text
        while text.utf8.count > byteCountMax { text.removeLast() }
        return text
    }

    // MARK: Appending

    /// Reads a request that appends to an upload.
    public func append(_ style: UploadProtocol) throws(UploadRefusal) -> UploadRequest {
        var body = UploadBody()
        guard let offset = integer("Upload-Offset") else {
            throw .field("Upload-Offset must be the place of the first byte of the body in the upload.")
        }
        body.offset = offset
        body.contentDigest = only("Content-Digest")
        switch style {
        case .tus:
            try needMediaType(Self.tusMediaType)
            body.completion = .atSize
            body.size = try tusSize(isCreation: false)
            body.contentDigest = try tusChecksum()
        case .plain:
            try appendResumable(.newest, &body)
        case .resumable(let draft):
            try appendResumable(draft, &body)
        }
        return .append(body)
    }

    private func appendResumable(_ draft: UploadDraft, _ body: inout UploadBody) throws(UploadRefusal) {
        if draft.needsMediaType { try needMediaType(Self.partialMediaType) }
        let completes = completes(draft)
        if completes == nil, draft.needsCompletion {
            throw .field("Upload-Complete must be ?1 if the body completes the upload, else ?0.")
        }
        // In version 3, only an incomplete request has the field.
        body.completion = completes ?? (draft.version == 3) ? .atEnd : .never
        body.size = try resumableSize(offset: body.offset, completes: body.completion == .atEnd)
    }

    private static let partialMediaType = "application/partial-upload"

    /// Whether the request completes the upload; `nil` if it does not say so.
    private func completes(_ draft: UploadDraft) -> Bool? {
        draft.version == 3
            ? only("Upload-Incomplete").flatMap(StructuredItem.boolean).map { !$0 }
            : only("Upload-Complete").flatMap(StructuredItem.boolean)
    }

    /// The size that `Upload-Length` names, or that follows from a body that completes the upload.
    private func resumableSize(offset: Int64, completes: Bool) throws(UploadRefusal) -> Int64? {
        let named = integer("Upload-Length")
        guard completes, let contentLength else { return named }
        let (end, isTooLarge) = offset.addingReportingOverflow(contentLength)
        guard !isTooLarge else { throw .field("Upload-Offset is too large.") }
        return named ?? end
    }

    private func needMediaType(_ type: String) throws(UploadRefusal) {
        let given = only("Content-Type").map { $0.prefix { $0 != ";" && $0 != " " }.lowercased() }
        guard given == type else { throw .mediaType(type) }
    }

    // MARK: tus

    private static let tusMediaType = "application/offset+octet-stream"

    private func tusSize(isCreation: Bool) throws(UploadRefusal) -> Int64? {
        let isDeferred = try isDeferred
        if values("Upload-Length").isEmpty, isDeferred || !isCreation { return nil }
        guard let size = integer("Upload-Length"), !isDeferred else {
            throw .field("Upload-Length must be the size of the upload, or Upload-Defer-Length must be 1.")
        }
        return size
    }

    private var isDeferred: Bool {
        get throws(UploadRefusal) {
            guard let text = values("Upload-Defer-Length").first else { return false }
            guard text == "1" else { throw .field("Upload-Defer-Length must be 1.") }
            return true
        }
    }

    /// Algorithms of `Upload-Checksum`, with their names in `Content-Digest`.
    public static let checksumAlgorithms = [
        ("sha1", "sha"), ("sha256", "sha-256"), ("sha512", "sha-512"), ("md5", "md5"), ("crc32", "crc32"),
        ("crc32c", "crc32c"),
    ]

    private func tusChecksum() throws(UploadRefusal) -> String? {
        guard let text = values("Upload-Checksum").first else { return nil }
        let words = text.split(separator: " ")
        let algorithm = Self.checksumAlgorithms.first { words.first.map(String.init) == $0.0 }
        guard words.count == 2, let algorithm, Base64.decode(words[1]) != nil else {
            let names = Self.checksumAlgorithms.map(\.0).joined(separator: ", ")
            throw .field("Upload-Checksum must be an algorithm (one of \(names)) and a digest in base64.")
        }
        return "\(algorithm.1)=:\(words[1]):"
    }

    /// Reads `Upload-Concat`. Returns the uploads of a final one; `nil` for others.
    private func concatenated(_ fields: inout UploadFields) throws(UploadRefusal) -> [UploadReference]? {
        guard let text = values("Upload-Concat").first else { return nil }
        fields.concatenation = text
        if text == "partial" { return nil }
        let prefix = "final;"
        let names = text.dropFirst(prefix.count).split(separator: " ").map { path in
            path.split(separator: "/").last.flatMap { UploadReference(String($0)) }
        }
        guard text.hasPrefix(prefix), !names.isEmpty, names.count <= Limits.partCountMax,
            !names.contains(nil), text.utf8.count <= Limits.uploadMetadataByteCountMax
        else {
            throw .field(
                "Upload-Concat must be partial, or final; and the paths of at most \(Limits.partCountMax) "
                    + "uploads.")
        }
        return names.compactMap(\.self)
    }
}
