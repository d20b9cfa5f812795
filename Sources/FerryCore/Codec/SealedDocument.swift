/// A stored JSON object of which some values are secret. Its first member `sealed` is null or an encrypted
/// merge patch (RFC 7396) that restores the secret values; the other members are what every reader may see.
public enum SealedDocument {
    private static let start = Array(#"{"sealed":"#.utf8)

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

    /// Writes the member `sealed`, which must be the first one.
    static func write(_ patch: JSON?, _ seal: SecretSeal, into writer: inout JSONWriter) {
        guard let patch else { return writer.member("sealed", .null) }
        var plain = JSONWriter()
        plain.value(patch)
        writer.member("sealed", Base64.encode(seal.seal(plain.bytes)))
    }

    /// Returns the object as every reader may see it, or `nil` if the document is older than this format.
    public static func shown(_ stored: [UInt8]) -> [UInt8]? {
        guard let end = sealedEnd(stored) else { return nil }
        return [UInt8(ascii: "{")] + stored[(end + 1)...]
    }

    /// Returns the whole object, or what every reader may see if it cannot be decrypted.
    public static func whole(_ stored: [UInt8], _ seal: SecretSeal) -> [UInt8] {
        guard let shown = shown(stored) else { return stored }
        // Wrong key or damage: the redacted object is all that can be shown.
        guard stored[start.count] == UInt8(ascii: "\""), let json = try? opened(stored, seal) else {
            return shown
        }
        var writer = JSONWriter(reservingCapacity: stored.count)
        writer.value(.object((json.members ?? []).filter { $0.name != "sealed" }))
        return writer.bytes
    }

    /// Returns the whole object as a value; throws if it cannot be decrypted.
    static func opened(_ stored: [UInt8], _ seal: SecretSeal) throws(StoredJSONError) -> JSON {
        // Callers do not use the position of the damage.
        guard let json = try? JSON.parse(stored) else { throw StoredJSONError("syntax") }
        guard sealedEnd(stored) != nil, let text = json["sealed"]?.string else { return json }
        guard let sealed = Base64.decode(text), let plain = seal.open(sealed),
            // Decrypted text that is not JSON is damaged.
            let patch = try? JSON.parse(plain)
        else { throw StoredJSONError("sealed") }
        return json.merged(with: patch)
    }

    /// Returns the position of the comma after the value of `sealed`; neither null nor base64 contains one.
    private static func sealedEnd(_ stored: [UInt8]) -> Int? {
        stored.starts(with: start) ? stored[start.count...].firstIndex(of: UInt8(ascii: ",")) : nil
    }
}
