import FerryCore
import OpenSSL

extension SecretBox {
    /// Opens what an endpoint's deliveries are signed with.
    func webhookKeys(_ sealed: [UInt8]) -> WebhookKeys? {
        guard let plain = try? open(sealed) else { return nil }
        return WebhookKeys(json: plain)
    }
}
