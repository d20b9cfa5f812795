package import FerryCore
package import OpenSSL

/// Signs deliveries: makes the entries of `webhook-signature` (Standard Webhooks 1.0).
package struct WebhookSigner: Sendable {
    private let secret: WebhookSecret
    /// Key for the `v1a` signature; `nil` for none.
    private let privateKey: Ed25519PrivateKey?

    /// Creates a signer.
    package init(_ secret: WebhookSecret, _ privateKey: Ed25519PrivateKey? = nil) {
        self.secret = secret
        self.privateKey = privateKey
    }

    /// Returns `v1,` with the base64 of the HMAC-SHA256 and, with a private key, `v1a,` with that of the
    /// Ed25519 signature. `signed`: `id.timestamp.body`.
    package func signatures(of signed: [UInt8]) -> [String] {
        let symmetric = "v1," + Base64.encode(hmacSHA256(key: secret.key, message: signed))
        guard let privateKey else { return [symmetric] }
        return [symmetric, "v1a," + Base64.encode(privateKey.signature(of: signed))]
    }
}

/// Cache of private keys: creating one takes as long as signing. Not thread-safe.
final class SignerCache {
    private static let countMax = 1_000
    private var keys: [[UInt8]: Ed25519PrivateKey] = [:]

    /// Returns the signers of a delivery: the valid keys of its endpoint, else the job's own secret, else the
    /// service's secrets. Empty if there is no usable secret.
    func signers(of delivery: Delivery, service: [WebhookSecret], now: Timestamp) -> [WebhookSigner] {
        if let endpoint = delivery.endpoint {
            return endpoint.keys.valid(at: now).map { WebhookSigner($0.secret, key($0.seed)) }
        }
        guard let own = delivery.secret else { return service.map { WebhookSigner($0) } }
        return WebhookSecret(own).map { [WebhookSigner($0)] } ?? []
    }

    private func key(_ seed: [UInt8]) -> Ed25519PrivateKey? {
        if let known = keys[seed] { return known }
        guard let made = Ed25519PrivateKey(seed: seed) else { return nil }
        if keys.count >= Self.countMax { keys = [:] }
        keys[seed] = made
        return made
    }
}
