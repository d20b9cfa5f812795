internal import FerryCore

/// Cookies that a client gives.
struct CookieList: FieldObject {
    static let summary = "Cookies of a session."
    static let schemaName = "CookieListRequest"
    private(set) var cookies: [CookieFields] = []

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "data", &cookies,
            ListRule(0...Limits.cookieCountMax, of: NoRule(), isUnique: false, documentsOne: true),
            .of(required: true), "The cookies. Either all are stored, or none.")
        // A page that was read can be written.
        visitor.unsupported("next_cursor", off: .null)
    }
}
