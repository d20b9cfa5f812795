extension JobSpec.RequestSpec {
    /// The document for which the request is made (URLSession's `mainDocumentURL`), or `nil`. It decides
    /// which cookies are those of another site.
    var mainDocument: WebURL? { boxedMainDocument?.value.url }

    /// Declares the fields about cookies.
    mutating func cookieFields(_ visitor: inout some FieldVisitor) {
        var handling = CookieHandling(isOn: handlesCookies)
        visitor.field(
            "http_should_handle_cookies", &handling, .of(.never),
            "Whether cookies are sent and kept. In a configured session they are those of the session, in "
                + "others those that the redirects of the attempt have set. A Cookie header field of the job "
                + "replaces what would be sent to its origin.")
        handlesCookies = handling.isOn
        var document = boxedMainDocument?.value
        visitor.field(
            "main_document_url", &document, .of(.never),
            "URL of the document for which the request is made. Cookies with SameSite=Lax or Strict are sent "
                + "only if it is of the same site as the request. null: each request is of the same site.")
        if document != boxedMainDocument?.value { boxedMainDocument = document.map(Boxed.init) }
    }
}

/// The value of `http_should_handle_cookies`; left out of the stored form if it is the default.
private struct CookieHandling: FieldValue {
    var isOn = true

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        Bool.decode(json, rule, place).map(Self.init)
    }
    static func restore(_ json: JSON) -> Self? { Bool.restore(json).map(Self.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        isOn.encode(into: &writer, isRedacted: isRedacted)
    }
    var isLeftOut: Bool { isOn }
    static func schema(_ rule: NoRule) -> [JSON.Member] { Bool.schema(rule) }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] { Bool.shownSchema(rule) }
}

/// The URL of the document for which a request is made. Nothing is sent to it, so that the egress policy says
/// nothing about it.
struct DocumentURL: FieldValue {
    let url: WebURL

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        URLText.parsed(json, place).map(Self.init)
    }
    /// A stored text that is no URL is damaged.
    static func restore(_ json: JSON) -> Self? {
        json.string.flatMap { try? WebURL.parse($0, byteCountMax: .max) }.map(Self.init)
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        URLText(url.string).encode(into: &writer, isRedacted: isRedacted)
    }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] { URLText.shownSchema(rule) }
    static func schema(_ rule: NoRule) -> [JSON.Member] { URLText.schema(rule) }
}
