/// The fields of a request that come from its session (`http_additional_headers`), and the origins that may
/// get them (`http_additional_headers_origins`), as they were when the job was accepted.
public struct AdditionalHeaders: Sendable, Equatable {
    /// Names of the fields in lower case.
    public var names: [String]
    /// Origins that may get them.
    public var origins: [OriginPattern]
    /// `true` if the session's proxy may read the fields: the job names no proxy of its own.
    public var trustsProxy: Bool

    /// Creates a rule.
    public init(names: [String], origins: [OriginPattern], trustsProxy: Bool) {
        self.names = names
        self.origins = origins
        self.trustsProxy = trustsProxy
    }

    /// Returns `true` if a field may be sent to the URL. `isKnownEnd`: `true` if no proxy of the job's own
    /// can read the request.
    public func allows(_ name: String, to url: WebURL, isKnownEnd: Bool) -> Bool {
        guard names.contains(name.lowercased()) else { return true }
        return (trustsProxy || isKnownEnd) && origins.contains { $0.contains(url) }
    }

    func store(into writer: inout JSONWriter) {
        writer.name("additional_headers")
        writer.beginObject()
        writer.name("names")
        names.encode(into: &writer, isRedacted: false)
        writer.name("origins")
        origins.encode(into: &writer, isRedacted: false)
        writer.member("trusts_proxy", trustsProxy)
        writer.endObject()
    }

    init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        names = stored.strings("names")
        origins = []
        for text in stored.strings("origins") {
            // Validated when the session was configured; otherwise the row is damaged.
            origins.append(try stored.need(try? OriginPattern(text), "origins"))
        }
        trustsProxy = stored.bool("trusts_proxy")
    }
}

extension JobSpec.RequestSpec {
    /// The rule, or `nil` if the session has added no fields or they may be sent to every origin.
    public var additionalHeaders: AdditionalHeaders? {
        get { boxedAdditionalHeaders?.value }
        set { boxedAdditionalHeaders = newValue.map(Boxed.init) }
    }
}
