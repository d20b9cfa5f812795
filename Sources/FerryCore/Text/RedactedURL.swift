/// A URL as it is shown to those who may not see what is secret in it: user information and the values of the
/// query, of which any may be a signature or a token, are replaced by `***`. Scheme, host, path and the names
/// of the query stay.
package enum RedactedURL {
    /// What takes the place of a hidden part.
    package static let marker = "***"

    /// Whether the URL says nothing that would be hidden.
    package static func isHarmless(_ url: String) -> Bool {
        var isInQuery = false
        for byte in url.utf8 {
            switch byte {
            case UInt8(ascii: "?"), UInt8(ascii: "@"), UInt8(ascii: "#"): isInQuery = true
            default: continue
            }
            break
        }
        // Nearly all: nothing else has to be looked at.
        return !isInQuery || text(of: url) == url
    }

    package static func text(of url: String) -> String {
        var rest = url[...]
        var fragment = ""
        if let mark = rest.firstIndex(of: "#") {
            fragment = hidden(rest[mark...].dropFirst(), after: "#")
            rest = rest[..<mark]
        }
        var query = ""
        if let mark = rest.firstIndex(of: "?") {
            let parameters = rest[mark...].dropFirst()
                .split(separator: "&", omittingEmptySubsequences: false)
            query = "?" + parameters.map(parameter).joined(separator: "&")
            rest = rest[..<mark]
        }
        return withoutUser(rest) + query + fragment
    }

    /// `name=***`; what has no name is a value.
    private static func parameter(_ text: Substring) -> String {
        guard let equals = text.firstIndex(of: "=") else { return hidden(text, after: "") }
        return hidden(text[equals...].dropFirst(), after: String(text[...equals]))
    }

    private static func hidden(_ value: Substring, after name: String) -> String {
        value.isEmpty ? name : name + marker
    }

    private static func withoutUser(_ url: Substring) -> String {
        guard let slashes = url.firstRange(of: "//") else { return String(url) }
        let authority = url[slashes.upperBound...].prefix { $0 != "/" }
        guard let at = authority.lastIndex(of: "@") else { return String(url) }
        return String(url[..<slashes.upperBound]) + marker + url[at...]
    }
}
