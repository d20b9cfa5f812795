/// A symmetric signing key of Standard Webhooks 1.0: `whsec_` and the base64 of 24 to 64 bytes.
package struct WebhookSecret: Sendable, Equatable {
    package static let prefix = "whsec_"
    package let key: [UInt8]

    /// Nil when the text has another form or the key another length.
    package init?(_ text: some StringProtocol) {
        guard text.hasPrefix(Self.prefix) else { return nil }
        self.init(key: Base64.decode(text.dropFirst(Self.prefix.count)) ?? [])
    }

    /// Nil when the key has fewer than 24 or more than 64 bytes.
    package init?(key: [UInt8]) {
        guard (24...64).contains(key.count) else { return nil }
        self.key = key
    }

    /// `whsec_…`, as it is shown once and given to receivers.
    package var text: String { Self.prefix + Base64.encode(key) }
}
