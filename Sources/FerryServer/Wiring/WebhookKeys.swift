import FerryCore
import OpenSSL

extension SecretBox {
    /// Returns the signing keys of an endpoint, or `nil` if they were sealed with another key.
    func webhookKeys(_ sealed: [UInt8]) -> WebhookKeys? {
        // The only error: sealed with another key, or damaged.
        guard let plain = try? open(sealed) else { return nil }
        return WebhookKeys(json: plain)
    }
}
