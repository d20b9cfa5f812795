/// The response of the last hop.
public struct TransferResponse: Sendable, Equatable {
    /// Status code.
    public var status = 0
    /// URL of the response after redirects, without user information or fragment.
    public var url = ""
    /// Fields as received, in order; bounded by `Limits`.
    public var headers: [JobSpec.Pair] = []
    /// Media type without parameters, in lower case.
    public var mimeType: String?
    /// File name that the response suggests.
    public var suggestedFilename: String?
    /// Bytes of the body, or `nil` if the response did not say.
    public var expectedContentLength: Int64?
    /// Beginning of a text body that is not stored elsewhere: that of a response which was not accepted.
    public var bodyExcerpt: String?
    /// The kept body of a response that rejects an upload, or `nil` if none is kept.
    public var content: TransferResult.Content?
    /// Location of that body, if it is in neither the record nor a managed file.
    public var contentLocation: ContentLocation?

    /// Creates an empty response, whose fields are read then.
    public init() {}

    /// Creates a response without an excerpt.
    public init(
        status: Int, url: String, headers: [JobSpec.Pair], mimeType: String?, suggestedFilename: String?,
        expectedContentLength: Int64?
    ) {
        self.status = status
        self.url = url
        self.headers = headers
        self.mimeType = mimeType
        self.suggestedFilename = suggestedFilename
        self.expectedContentLength = expectedContentLength
    }

    /// Media type with the parameters of the field, or `nil` if the response has none.
    var mediaType: String? {
        guard let mimeType else { return nil }
        let sent = headers.combined.first { HeaderRules.isSame($0.name, "content-type") }
        return mimeType + (sent.map { MediaType.parameters(of: $0.value, type: mimeType) } ?? "")
    }
}

extension TransferResponse: SealedFields {
    public static let summary = "The last response of the server, after redirects."
    public static let schemaName = "TransferResponse"

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("status", &status, 0...Int.max, .of(required: true), "HTTP status code.")
        var location = URLText(url)
        visitor.field("url", &location, .of(required: true), "URL of the response, after redirects.")
        url = location.text
        responseHeaderFields(&visitor, &headers)
        visitor.field(
            "mime_type", &mimeType, .any, .plain,
            "Media type without parameters, in lower case, or null if the response has none.")
        visitor.field(
            "suggested_filename", &suggestedFilename, .any, .plain,
            "Safe file name from Content-Disposition, or else from the URL; null if there is none.")
        visitor.field(
            "expected_content_length", &expectedContentLength, 0...Int64.max, .plain,
            "Bytes of the body that the response announces, or null if it announces none.")
        visitor.shown(
            "body_excerpt", &bodyExcerpt, .any,
            "First 2 KiB of a text body that is not stored, because the response was not accepted. Absent if "
                + "there is none.")
        visitor.shown(
            "content", &content, NoRule(),
            "Only of a failed upload whose response had a body that is kept: GET /v1/jobs/{id}/content "
                + "returns the body.")
        visitor.stored("content_location", &contentLocation, NoRule())
    }

    public var secretMembers: [JSON.Member] {
        var members: [JSON.Member] = []
        members.append(url: url)
        members.append(responseFields: headers)
        return members
    }
}

/// A response as a reader may see it.
public struct ShownResponse: ShownValue {
    let response: TransferResponse
    /// `true` to hide values that may be secret.
    let isRedacted: Bool

    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        ShownFields(response).show(into: &writer, isRedacted: self.isRedacted || isRedacted)
    }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        ShownFields<TransferResponse>.shownSchema(in: schemas)
    }
}
