/// Encrypts and decrypts secrets for the database. May be used on any thread.
public struct SecretSeal: Sendable {
    /// Encrypts.
    public let seal: @Sendable ([UInt8]) -> [UInt8]
    /// Decrypts; returns `nil` if the bytes were encrypted with another key or have changed.
    public let open: @Sendable ([UInt8]) -> [UInt8]?

    /// Creates a seal.
    public init(
        seal: @escaping @Sendable ([UInt8]) -> [UInt8], open: @escaping @Sendable ([UInt8]) -> [UInt8]?
    ) {
        self.seal = seal
        self.open = open
    }
}

/// Extent to which a reader sees fields and URLs that may contain secrets (`NonSecretFields`, `RedactedURL`).
public enum Disclosure: Sendable {
    /// Everything except credentials of requests: for clients and admins that ask for it.
    case full(SecretSeal)
    /// Nothing secret: for viewers, events and webhooks.
    case redacted

    /// The key to the secret values, or `nil` if they stay hidden.
    public var seal: SecretSeal? { if case .full(let seal) = self { seal } else { nil } }
    /// `true` if secret values stay hidden.
    public var isRedacted: Bool { seal == nil }

    func url(_ text: String) -> String { isRedacted ? RedactedURL.text(of: text) : text }
}
