/// Encrypts and decrypts what must not be readable in the database. Any thread.
package struct SecretSeal: Sendable {
    package let seal: @Sendable ([UInt8]) -> [UInt8]
    /// Nil if it was sealed with another key or has changed since.
    package let open: @Sendable ([UInt8]) -> [UInt8]?

    package init(
        seal: @escaping @Sendable ([UInt8]) -> [UInt8], open: @escaping @Sendable ([UInt8]) -> [UInt8]?
    ) {
        self.seal = seal
        self.open = open
    }
}

/// What a reader may see of fields and URLs that are not harmless (`NonSecretFields`, `RedactedURL`).
package enum Disclosure: Sendable {
    /// Everything but credentials of requests: clients and admins, on request.
    case full(SecretSeal)
    /// Nothing: viewers, events and webhooks.
    case redacted

    /// What opens it; nil: it stays hidden.
    package var seal: SecretSeal? { if case .full(let seal) = self { seal } else { nil } }
    package var isRedacted: Bool { seal == nil }

    func url(_ text: String) -> String { isRedacted ? RedactedURL.text(of: text) : text }
}
