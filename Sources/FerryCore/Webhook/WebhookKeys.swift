/// What an endpoint's deliveries are signed with. Kept sealed; every key that is still valid signs.
package struct WebhookKeys: Sendable, Equatable {
    package struct Key: Sendable, Equatable {
        /// Signs `v1`: HMAC-SHA256.
        package let secret: WebhookSecret
        /// Signs `v1a`: the private key of Ed25519 (RFC 8032 §5.1.5), 32 bytes.
        package let seed: [UInt8]
        /// Nil: until it is replaced.
        package var validUntil: Timestamp?

        package init(secret: WebhookSecret, seed: [UInt8], validUntil: Timestamp? = nil) {
            self.secret = secret
            self.seed = seed
            self.validUntil = validUntil
        }
    }

    /// The newest first, at least one.
    package private(set) var keys: [Key]

    package init(_ key: Key) { keys = [key] }

    package var newest: Key { keys[0] }

    package func valid(at now: Timestamp) -> [Key] {
        keys.filter { key in key.validUntil.map { $0 > now } ?? true }
    }

    /// `key` takes over. Those before go on signing for `overlap` seconds, older ones until the time that
    /// they were given when that is sooner: a rotation in an emergency ends every key that may be known.
    package mutating func rotate(to key: Key, overlap: Double, now: Timestamp) {
        let end = now + overlap
        var old = valid(at: now)
        for index in old.indices { old[index].validUntil = old[index].validUntil.map { min($0, end) } ?? end }
        keys = [key] + (end > now ? old : []).prefix(Limits.webhookKeyCountMax - 1)
    }

    /// What is sealed.
    package func encode() -> [UInt8] {
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

    /// Reads what `encode` writes; nil for anything else.
    package init?(json: [UInt8]) {
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

/// The public half of a `v1a` key as receivers get it: `whpk_` and the base64 of 32 bytes.
package func webhookPublicKeyText(_ bytes: [UInt8]) -> String { "whpk_" + Base64.encode(bytes) }
