/// Which fields of a request are its session's (`http_additional_headers`), and where they may go
/// (`http_additional_headers_origins`). The job keeps it as it was when it was accepted.
package struct AdditionalHeaders: Sendable, Equatable {
    /// In lower case.
    package var names: [String]
    package var origins: [OriginPattern]
    /// The session has named the job's proxy as well, or the job has none: what the proxy sees is the
    /// session's concern.
    package var trustsProxy: Bool

    package init(names: [String], origins: [OriginPattern], trustsProxy: Bool) {
        self.names = names
        self.origins = origins
        self.trustsProxy = trustsProxy
    }

    /// Whether a field may go to that URL. `isKnownEnd`: no proxy of the job's own can read the request.
    package func allows(_ name: String, to url: WebURL, isKnownEnd: Bool) -> Bool {
        guard names.contains(name.lowercased()) else { return true }
        return (trustsProxy || isKnownEnd) && origins.contains { $0.contains(url) }
    }

    func store(into writer: inout JSONWriter) {
        writer.name("additional_headers")
        writer.beginObject()
        writer.strings("names", names)
        writer.strings("origins", origins.map(\.string))
        writer.member("trusts_proxy", trustsProxy)
        writer.endObject()
    }

    init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        names = stored.strings("names")
        origins = []
        for text in stored.strings("origins") {
            origins.append(try stored.need(try? OriginPattern(text), "origins"))
        }
        trustsProxy = stored.bool("trusts_proxy")
    }
}

extension JobSpec.RequestSpec {
    /// Nil: the session has added no fields, or they may go to every origin.
    package var additionalHeaders: AdditionalHeaders? {
        get { boxedAdditionalHeaders?.value }
        set { boxedAdditionalHeaders = newValue.map(Boxed.init) }
    }
}
