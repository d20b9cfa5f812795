/// A stored JSON object of which some values may be secret. Its member `sealed` is an encrypted merge patch
/// (RFC 7396) that restores the secret values; without any, it is null or missing. The other members are what
/// every reader may see.
public enum SealedDocument {
    /// Returns the stored form of `shown`, a JSON object with members. `patch`: merge patch with the secret
    /// values, or `nil` if there are none.
    public static func make(_ shown: [UInt8], secrets patch: JSON?, _ seal: SecretSeal) -> [UInt8] {
        make(shown) { write(patch, seal, into: &$0) }
    }

    /// Returns a document without secrets.
    static func make(_ shown: [UInt8]) -> [UInt8] { make(shown) { $0.member("sealed", .null) } }

    private static func make(_ shown: [UInt8], _ writeSecrets: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: shown.count + 16)
        writer.beginObject()
        writeSecrets(&writer)
        writer.rawMembers(of: shown)
        writer.endObject()
        return writer.bytes
    }

    /// Writes the member `sealed`.
    static func write(_ patch: JSON?, _ seal: SecretSeal, into writer: inout JSONWriter) {
        guard let patch else { return writer.member("sealed", .null) }
        var plain = JSONWriter()
        plain.value(patch)
        writer.member("sealed", Base64.encode(seal.seal(plain.bytes)))
    }

    /// Returns the whole object as a value; throws if it cannot be decrypted.
    static func opened(_ stored: [UInt8], _ seal: SecretSeal) throws(StoredJSONError) -> JSON {
        // Callers do not use the position of the damage.
        guard let json = try? JSON.parse(stored) else { throw StoredJSONError("syntax") }
        guard let text = json["sealed"]?.string else { return json }
        guard let sealed = Base64.decode(text), let plain = seal.open(sealed),
            // Decrypted text that is not JSON is damaged.
            let patch = try? JSON.parse(plain)
        else { throw StoredJSONError("sealed") }
        return json.merged(with: patch)
    }
}
