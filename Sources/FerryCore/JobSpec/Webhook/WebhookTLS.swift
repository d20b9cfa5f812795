/// TLS settings of a webhook's receiver that differ from the default: the authorities and the public keys
/// that are trusted. Same meaning as in `ConnectionRules.TLS`.
public struct WebhookTLS: FieldObject {
    public static let summary =
        "TLS settings of the receiver, which needs an https URL. Its host name is always checked."
    public static let schemaName = "WebhookTLS"

    /// Authorities instead of the system's. A stored webhook has their text elsewhere, encrypted:
    /// `JobSecrets.webhookTLS` or `WebhookRecord.sealedTLS`.
    public var authorities = Secret()
    /// Pinned public keys as `sha256//base64` (RFC 7469 §2.4). One of them must match; empty for any key.
    public var pins: [String] = []

    /// Creates default settings.
    public init() {}

    /// Creates settings. `authorities`: PEM text, or `nil` for the system's.
    public init(authorities: String?, pins: [String]) {
        self.authorities.text = authorities
        self.authorities.isSet = authorities != nil
        self.pins = pins
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        ServerTrust.declareAuthorities(&visitor, &authorities, .plain)
        ServerTrust.declarePins(&visitor, &pins, .plain)
    }

    public func check(_ body: FieldDecoder) { body.checkCertificates("ca", authorities) }

    /// Declares `tls` of a webhook.
    static func declare(_ visitor: inout some FieldVisitor, _ tls: inout WebhookTLS?) {
        visitor.object(
            "tls", &tls, .plain,
            "TLS settings of the receiver; null for the system's authorities and any public key.")
    }

    /// Reports settings of a receiver without TLS, and removes those that equal the default. `url`: of the
    /// receiver. `owner`: what has the settings.
    static func check(_ tls: inout WebhookTLS?, for url: String, of owner: String, _ body: FieldDecoder) {
        // A URL that is not valid was reported.
        if tls != nil { body.checkTLS(for: try? WebURL.parse(url), of: owner) }
        if tls == WebhookTLS() { tls = nil }
    }

    /// Removes the text of the authorities and returns the settings with it.
    static func takeText(_ tls: inout WebhookTLS?) -> WebhookTLS? {
        defer { tls?.authorities.text = nil }
        return tls
    }
}

// MARK: Storage

extension WebhookTLS {
    /// Returns the stored form for an endpoint (`SealedDocument`). The settings differ from the default.
    public func stored(_ seal: SecretSeal) -> [UInt8] {
        var shown = JSONWriter()
        shown.beginObject()
        storeFields(into: &shown, isRedacted: true)
        shown.endObject()
        let patch = authorities.text.map { JSON.object([JSON.Member("ca", .string($0))]) }
        return SealedDocument.make(shown.bytes, secrets: patch, seal)
    }

    /// Reads a stored form without the text of the authorities. Throws if it is damaged.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: StoredObject(storedJSON))
    }

    /// Reads a stored form with the text of the authorities. Throws if it cannot be decrypted.
    public init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        self.init(try StoredObject(storedJSON, opening: seal))
    }

    /// Reads what `write` wrote.
    init(_ stored: StoredObject) {
        self.init(authorities: stored.string("ca"), pins: stored.strings("pins"))
    }

    /// Writes the members with the text of the authorities, for encryption.
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        if let text = authorities.text { writer.member("ca", text) }
        writer.member("pins", .array(pins.map { .string($0) }))
        writer.endObject()
    }
}
