/// Symmetric signing key of Standard Webhooks 1.0: `whsec_` and the base64 of 24 to 64 bytes.
public struct WebhookSecret: Sendable, Equatable {
    /// Beginning of the text.
    public static let prefix = "whsec_"
    /// The key.
    public let key: [UInt8]

    /// Reads a text; `nil` if its form or the length of the key is wrong.
    public init?(_ text: some StringProtocol) {
        guard text.hasPrefix(Self.prefix) else { return nil }
        self.init(key: Base64.decode(text.dropFirst(Self.prefix.count)) ?? [])
    }

    /// Creates a secret; `nil` if the key has fewer than 24 or more than 64 bytes.
    public init?(key: [UInt8]) {
        guard (24...64).contains(key.count) else { return nil }
        self.key = key
    }

    /// `whsec_…`, as it is shown once and given to receivers.
    public var text: String { Self.prefix + Base64.encode(key) }
}
