/// Names of groups.
public enum GroupName {
    /// The rule, as the end of a sentence.
    public static let rule = "1 to 128 letters, digits and ._:-, and is neither . nor .."

    /// Returns `true` for 1 to 128 letters, digits and `._:-`, which need no escape in a path. Excludes `.`
    /// and `..`, which clients remove from paths (RFC 3986 §5.2.4).
    public static func isValid(_ name: String) -> Bool {
        (1...Limits.nameByteCountMax).contains(name.utf8.count) && name != "." && name != ".."
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"):
                    true
                default: "._:-".utf8.contains(byte)
                }
            }
    }
}
