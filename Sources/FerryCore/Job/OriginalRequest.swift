/// What a job asked for before somebody changed its link: the bytes that it has got are of that.
package struct OriginalRequest: Sendable, Equatable {
    package let url: String
    package let headers: [JobSpec.Pair]

    func store(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("original")
        writer.beginObject()
        writer.member("url", isRedacted ? RedactedURL.text(of: url) : url)
        writer.write("headers", headers, isRedacted: isRedacted)
        writer.endObject()
    }

    package init(url: String, headers: [JobSpec.Pair]) {
        self.url = url
        self.headers = headers
    }

    init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        self.init(url: try stored.need(stored.string("url"), "url"), headers: stored.pairs("headers"))
    }
}

extension JobSpec.RequestSpec {
    /// Nil: nobody has changed it.
    package var original: OriginalRequest? {
        get { boxedOriginal?.value }
        set { boxedOriginal = newValue.map(Boxed.init) }
    }
}
