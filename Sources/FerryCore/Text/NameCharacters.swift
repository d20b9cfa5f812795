/// Characters that a path or the name of a file or form part cannot contain: C0 and C1 controls, DEL, line
/// and paragraph separators, and bidirectional controls (UAX #9 §2). They end lines, move a terminal's
/// cursor, or make a name look like another one.
public enum NameCharacters {
    /// The rule as validation errors state it.
    public static let rule = "no control characters, line separators or bidirectional controls"

    /// The forbidden characters for a bracket expression of a regular expression (ECMA-262).
    public static let forbiddenRanges =
        #"\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"#

    /// Returns `true` for a forbidden character.
    public static func isForbidden(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x00...0x1F, 0x7F...0x9F, 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }

    /// Returns `true` if the name has no forbidden characters.
    public static func areAllowed(in name: String) -> Bool {
        !name.unicodeScalars.contains(where: isForbidden)
    }

    /// Returns a name from a server without the forbidden characters.
    public static func removingForbidden(from name: String) -> String {
        guard !areAllowed(in: name) else { return name }
        return String(String.UnicodeScalarView(name.unicodeScalars.filter { !isForbidden($0) }))
    }
}
