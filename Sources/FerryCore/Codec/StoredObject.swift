/// A stored document is damaged or of an unknown version.
public struct StoredJSONError: Error, Sendable, Equatable {
    /// The missing or invalid member, or `syntax`.
    public let member: String
    /// Creates an error.
    public init(_ member: String) { self.member = member }
}

/// The members of a stored object. A missing member reads as `nil`, because an older version may have written
/// the object.
struct StoredObject {
    let json: JSON

    init(_ text: [UInt8]) throws(StoredJSONError) {
        do throws(JSON.SyntaxError) {
            json = try JSON.parse(text)
        } catch {
            throw StoredJSONError("syntax")
        }
        guard json.members != nil else { throw StoredJSONError("syntax") }
    }

    /// Reads a document with encrypted values; throws if they cannot be decrypted.
    init(_ text: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        json = try SealedDocument.opened(text, seal)
        guard json.members != nil else { throw StoredJSONError("syntax") }
    }

    init(_ json: JSON) { self.json = json }

    func string(_ name: String) -> String? { json[name]?.string }
    func integer(_ name: String) -> Int64? { json[name]?.integer }
    func double(_ name: String) -> Double? { json[name]?.double }
    func bool(_ name: String, standard: Bool = false) -> Bool { json[name]?.bool ?? standard }
    func array(_ name: String) -> [JSON] { json[name]?.array ?? [] }
    func strings(_ name: String) -> [String] { array(name).compactMap(\.string) }
    func object(_ name: String) -> StoredObject? {
        guard let value = json[name], value.members != nil else { return nil }
        return StoredObject(value)
    }
    func need<T>(_ value: T?, _ name: String) throws(StoredJSONError) -> T {
        guard let value else { throw StoredJSONError(name) }
        return value
    }
    func timestamp(_ name: String) throws(StoredJSONError) -> Timestamp? {
        guard let text = string(name) else { return nil }
        return try need(Timestamp(rfc3339: text), name)
    }
}
