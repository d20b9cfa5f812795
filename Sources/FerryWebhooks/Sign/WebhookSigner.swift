package import FerryCore
package import OpenSSL

/// What makes the entries of `webhook-signature` (Standard Webhooks 1.0).
package struct WebhookSigner: Sendable {
    private let secret: WebhookSecret
    /// Nil: there is no `v1a`.
    private let privateKey: Ed25519PrivateKey?

    package init(_ secret: WebhookSecret, _ privateKey: Ed25519PrivateKey? = nil) {
        self.secret = secret
        self.privateKey = privateKey
    }

    /// `v1,` and the base64 of HMAC-SHA256; `v1a,` and that of Ed25519. `signed`: `id.timestamp.body`.
    package func signatures(of signed: [UInt8]) -> [String] {
        let symmetric = "v1," + Base64.encode(hmacSHA256(key: secret.key, message: signed))
        guard let privateKey else { return [symmetric] }
        return [symmetric, "v1a," + Base64.encode(privateKey.signature(of: signed))]
    }
}

/// The private keys that were used lately, ready to sign: making one costs as much as signing. One owner.
final class SignerCache {
    private static let countMax = 1_000
    private var keys: [[UInt8]: Ed25519PrivateKey] = [:]

    /// Whoever signs a delivery: the endpoint's keys that are valid, else the job's own secret, else the
    /// service's. Empty when there is nothing to sign with.
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
