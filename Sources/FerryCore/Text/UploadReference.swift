/// A staged upload as a client names it, in a path or in `source.upload`.
public enum UploadReference: Sendable, Hashable {
    case id(UploadID)
    /// The name that the client has given it.
    case name(String)

    /// `nil` if the text is neither an identifier nor a name.
    public init?(_ text: String) {
        if let id = UploadID(text) {
            self = .id(id)
        } else if UploadName.isValid(text) {
            self = .name(text)
        } else {
            return nil
        }
    }
}

/// Names that clients give to staged uploads.
public enum UploadName {
    /// The rule, as the end of a sentence.
    public static let rule =
        "1 to 128 letters, digits and ._-, must be neither . nor .., and must not begin with upl_"

    /// Returns `true` for 1 to 128 letters, digits and `._-`, which need no escape in a path. Excludes `.`
    /// and `..`, which clients remove from paths (RFC 3986 §5.2.4), and what could be an identifier.
    public static func isValid(_ name: String) -> Bool {
        GroupName.isValid(name) && !name.utf8.contains(UInt8(ascii: ":"))
            && !name.lowercased().hasPrefix(UploadKindTag.prefix)
    }
}
