/// The form of a URL for readers that may not see its secrets. User information and the values of the query,
/// any of which may be a signature or token, are replaced by `***`. Scheme, host, path and the names of the
/// query stay.
public enum RedactedURL {
    /// Replacement of a hidden part.
    public static let marker = "***"

    /// Returns `true` if nothing in the URL has to be hidden.
    public static func hasNoSecrets(_ url: String) -> Bool {
        // False for nearly all URLs, which need no further checks.
        let mayHaveSecrets = url.containsByte {
            $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "@") || $0 == UInt8(ascii: "#")
        }
        return !mayHaveSecrets || text(of: url) == url
    }

    /// Returns the URL with its secret parts replaced.
    public static func text(of url: String) -> String {
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

    /// Returns `name=***`; a parameter without a name is a value.
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
