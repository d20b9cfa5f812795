/// A JSON object as it is stored, of which some values are secret: its first member `sealed` is null, or a
/// merge patch (RFC 7396), encrypted, that puts the secret values into their places; the others are what
/// everyone may see.
package enum SealedDocument {
    private static let start = Array(#"{"sealed":"#.utf8)

    /// The document of `shown`, a JSON object with members, and of a merge patch; nil if nothing is secret.
    package static func make(_ shown: [UInt8], secrets patch: JSON?, _ seal: SecretSeal) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: shown.count + 16)
        writer.beginObject()
        write(patch, seal, into: &writer)
        writer.rawMembers(of: shown)
        writer.endObject()
        return writer.bytes
    }

    /// Writes the member `sealed`, which has to be the first one.
    static func write(_ patch: JSON?, _ seal: SecretSeal, into writer: inout JSONWriter) {
        guard let patch else { return writer.member("sealed", .null) }
        var plain = JSONWriter()
        plain.value(patch)
        writer.member("sealed", Base64.encode(seal.seal(plain.bytes)))
    }

    /// What everyone may see; nil if the document is from before there were sealed ones.
    package static func shown(_ stored: [UInt8]) -> [UInt8]? {
        guard let end = sealedEnd(stored) else { return nil }
        return [UInt8(ascii: "{")] + stored[(end + 1)...]
    }

    /// The whole object; what everyone may see, if it cannot be decrypted.
    package static func whole(_ stored: [UInt8], _ seal: SecretSeal) -> [UInt8] {
        guard let shown = shown(stored) else { return stored }
        guard stored[start.count] == UInt8(ascii: "\""), let json = try? opened(stored, seal) else {
            return shown
        }
        var writer = JSONWriter(reservingCapacity: stored.count)
        writer.value(.object((json.members ?? []).filter { $0.name != "sealed" }))
        return writer.bytes
    }

    /// The whole object as a value; throws if it cannot be decrypted.
    static func opened(_ stored: [UInt8], _ seal: SecretSeal) throws(StoredJSONError) -> JSON {
        guard let json = try? JSON.parse(stored) else { throw StoredJSONError("syntax") }
        guard sealedEnd(stored) != nil, let text = json["sealed"]?.string else { return json }
        guard let sealed = Base64.decode(text), let plain = seal.open(sealed),
            let patch = try? JSON.parse(plain)
        else { throw StoredJSONError("sealed") }
        return json.merged(with: patch)
    }

    /// Where the comma is behind the value of `sealed`; neither null nor base64 has one.
    private static func sealedEnd(_ stored: [UInt8]) -> Int? {
        stored.starts(with: start) ? stored[start.count...].firstIndex(of: UInt8(ascii: ",")) : nil
    }
}
