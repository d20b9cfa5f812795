/// URL and fields of a job before a client changed its URL; the bytes received so far belong to this request.
public struct OriginalRequest: Sendable, Equatable {
    /// The URL.
    public let url: String
    /// The header fields.
    public let headers: [JobSpec.Pair]

    func store(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("original")
        writer.beginObject()
        writer.member("url", isRedacted ? RedactedURL.text(of: url) : url)
        storeHeaderFields(headers, into: &writer, isRedacted: isRedacted)
        writer.endObject()
    }

    /// Creates a request.
    public init(url: String, headers: [JobSpec.Pair]) {
        self.url = url
        self.headers = headers
    }

    init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        self.init(url: try stored.need(stored.string("url"), "url"), headers: stored.headerFields)
    }
}

extension JobSpec.RequestSpec {
    /// The request before a client changed it, or `nil` if it has not changed.
    public var original: OriginalRequest? {
        get { boxedOriginal?.value }
        set { boxedOriginal = newValue.map(Boxed.init) }
    }
}
