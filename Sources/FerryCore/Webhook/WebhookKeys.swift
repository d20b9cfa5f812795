/// Signing keys of an endpoint. Stored encrypted; all valid keys sign.
public struct WebhookKeys: Sendable, Equatable {
    /// A pair of keys.
    public struct Key: Sendable, Equatable {
        /// Secret of `v1` signatures: HMAC-SHA256.
        public let secret: WebhookSecret
        /// Private key of `v1a` signatures: Ed25519 (RFC 8032 §5.1.5), 32 bytes.
        public let seed: [UInt8]
        /// End of its validity, or `nil` until it is replaced.
        public var validUntil: Timestamp?

        /// Creates a pair.
        public init(secret: WebhookSecret, seed: [UInt8], validUntil: Timestamp? = nil) {
            self.secret = secret
            self.seed = seed
            self.validUntil = validUntil
        }
    }

    /// The keys, the newest first; at least one.
    public private(set) var keys: [Key]

    /// Creates a set with one key.
    public init(_ key: Key) { keys = [key] }

    /// The newest key.
    public var newest: Key { keys[0] }

    /// Returns the keys that are valid at a time.
    public func valid(at now: Timestamp) -> [Key] {
        keys.filter { key in key.validUntil.map { $0 > now } ?? true }
    }

    /// Adds `key` as the newest one. Older keys remain valid for `overlap` seconds, or until their end if
    /// that is earlier, so that a rotation after a leak ends all keys that may be known.
    public mutating func rotate(to key: Key, overlap: Double, now: Timestamp) {
        let end = now + overlap
        var old = valid(at: now)
        for index in old.indices { old[index].validUntil = old[index].validUntil.map { min($0, end) } ?? end }
        keys = [key] + (end > now ? old : []).prefix(Limits.webhookKeyCountMax - 1)
    }

    /// Returns the JSON that is encrypted.
    public func encode() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginArray()
        for key in keys {
            writer.beginObject()
            writer.member("secret", key.secret.text)
            writer.member("seed", Base64.encode(key.seed))
            if let until = key.validUntil { writer.member("valid_until", until) }
            writer.endObject()
        }
        writer.endArray()
        return writer.bytes
    }

    /// Reads what `encode` returned; `nil` for anything else.
    public init?(json: [UInt8]) {
        // Anything but our own JSON is refused here.
        guard let entries = (try? JSON.parse(json))?.array, !entries.isEmpty else { return nil }
        var keys: [Key] = []
        for entry in entries {
            guard let secret = entry["secret"]?.string.flatMap({ WebhookSecret($0) }),
                let seed = entry["seed"]?.string.flatMap({ Base64.decode($0) }), seed.count == 32
            else { return nil }
            keys.append(
                Key(
                    secret: secret, seed: seed,
                    validUntil: entry["valid_until"]?.string.flatMap { Timestamp(rfc3339: $0) }))
        }
        self.keys = keys
    }
}

/// Returns the public half of a `v1a` key for receivers: `whpk_` and the base64 of 32 bytes.
public func webhookPublicKeyText(_ bytes: [UInt8]) -> String { "whpk_" + Base64.encode(bytes) }
