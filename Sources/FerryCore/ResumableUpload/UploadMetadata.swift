/// Names and values of an upload in the field `Upload-Metadata` of tus 1.0: pairs of a name and the value in
/// base64, with commas between them.
public struct UploadMetadata: Sendable, Equatable {
    /// The field as it is sent; empty without pairs.
    public let text: String
    /// The pairs whose values are UTF-8, in the order of the field.
    public let pairs: [NameValuePair]

    /// Creates metadata without pairs.
    public init() { (text, pairs) = ("", []) }

    /// Reads the field. `nil` if it is malformed, names something twice or is longer than
    /// `Limits.uploadMetadataByteCountMax`.
    public init?(_ text: String) {
        guard text.utf8.count <= Limits.uploadMetadataByteCountMax else { return nil }
        var pairs: [NameValuePair] = []
        var names: Set<Substring> = []
        for item in text.split(separator: ",", omittingEmptySubsequences: false) {
            let words = item.split(separator: " ")
            if words.isEmpty, text.allSatisfy({ $0 == " " }) { break }
            guard (1...2).contains(words.count), words[0].utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }),
                names.insert(words[0]).inserted,
                let bytes = Base64.decode(words.count == 2 ? words[1] : "")
            else { return nil }
            guard let value = String(validating: bytes, as: UTF8.self), !value.utf8.contains(0) else {
                continue
            }
            pairs.append(NameValuePair(String(words[0]), value))
        }
        self.text = text
        self.pairs = pairs
    }

    /// Creates metadata of pairs. Names are visible ASCII without commas.
    public init(_ pairs: [NameValuePair]) {
        self.pairs = pairs
        text = pairs.map { "\($0.name) \(Base64.encode(Array($0.value.utf8)))" }.joined(separator: ",")
    }

    /// Returns the value of a name, or `nil`.
    public subscript(name: String) -> String? { pairs.first { $0.name == name }?.value }
}
