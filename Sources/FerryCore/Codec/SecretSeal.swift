/// Encrypts and decrypts secrets for the database. May be used on any thread.
package struct SecretSeal: Sendable {
    /// Encrypts.
    package let seal: @Sendable ([UInt8]) -> [UInt8]
    /// Decrypts; returns `nil` if the bytes were encrypted with another key or have changed.
    package let open: @Sendable ([UInt8]) -> [UInt8]?

    /// Creates a seal.
    package init(
        seal: @escaping @Sendable ([UInt8]) -> [UInt8], open: @escaping @Sendable ([UInt8]) -> [UInt8]?
    ) {
        self.seal = seal
        self.open = open
    }
}

/// What a reader may see of fields and URLs that may contain secrets (`NonSecretFields`, `RedactedURL`).
package enum Disclosure: Sendable {
    /// Everything except credentials of requests: for clients and admins that ask for it.
    case full(SecretSeal)
    /// Nothing secret: for viewers, events and webhooks.
    case redacted

    /// The key to the secret values, or `nil` if they stay hidden.
    package var seal: SecretSeal? { if case .full(let seal) = self { seal } else { nil } }
    /// `true` if secret values stay hidden.
    package var isRedacted: Bool { seal == nil }

    func url(_ text: String) -> String { isRedacted ? RedactedURL.text(of: text) : text }
}
