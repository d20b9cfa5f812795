/// The fields of TLS settings that decide which servers are trusted besides the system's rules, and how they
/// are checked: `ca` and `pins`. The same for requests and for the receivers of webhooks.
enum ServerTrust {
    /// Declares `ca`.
    static func declareAuthorities(
        _ visitor: inout some FieldVisitor, _ authorities: inout Secret, _ traits: FieldTraits
    ) {
        visitor.field(
            "ca", &authorities, .pem, traits,
            "PEM text (RFC 7468) of one or more certificates of authorities; shown as {\"set\": true}.")
    }

    /// Declares `pins`.
    static func declarePins(
        _ visitor: inout some FieldVisitor, _ pins: inout [String], _ traits: FieldTraits
    ) {
        visitor.field(
            "pins", &pins, ListRule(0...Limits.pinCountMax, of: .pin), traits,
            "SHA-256 of public keys (RFC 7469); the server's must be one of them.")
    }
}

extension FieldDecoder {
    /// Reports a PEM text of the body that this node cannot read.
    func checkCertificates(_ name: String, _ secret: Secret) {
        guard hasValue(name), let pem = secret.text, let reason = context.node.certificateError(pem) else {
            return
        }
        fail(name, "invalid_value", reason)
    }

    /// Reports TLS settings, which the object has, for a URL without TLS. `url`: `nil` if it is not valid.
    /// `owner`: what has the settings, in the message about a changed URL.
    func checkTLS(for url: WebURL?, of owner: String) {
        guard url?.scheme == .http else { return }
        fail(
            isNamed("tls") ? "tls" : "url", "invalid_combination",
            isNamed("tls")
                ? "TLS settings need an https URL." : "The \(owner)'s TLS settings need an https URL.")
    }
}

extension TextRule {
    /// A PEM text.
    static let pem = TextRule(1...Limits.pemByteCountMax, pattern: nil) { _ in nil }

    fileprivate static let pin = TextRule(
        1...64, pattern: "^sha256//[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"
    ) { pin in
        let prefix = "sha256//"
        let isPin =
            pin.hasPrefix(prefix) && Base64.decode(String(pin.dropFirst(prefix.count)))?.count == 32
        return isPin ? nil : "A pin is sha256// and the base64 of the SHA-256 of a public key."
    }
}
