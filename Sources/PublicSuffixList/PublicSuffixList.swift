internal import CPsl

/// The Public Suffix List (publicsuffix.org): names below which different organizations register domains,
/// such as `com`, `co.uk` and `github.io`. May be used on any thread.
///
/// Names are in lower case and ASCII. A dot at the end belongs to the name and is kept in results.
public enum PublicSuffixList {
    /// The newer one of the list that the system has installed and the list of libpsl. libpsl never changes
    /// a list that is loaded, so any thread may read it. The process keeps it until it ends.
    private nonisolated(unsafe) static let list: OpaquePointer? = psl_latest(nil) ?? psl_builtin()

    /// Returns `true` if the name is a public suffix. A name that no rule matches is one if it has no dot.
    public static func contains(_ name: String) -> Bool {
        let name = parts(of: name).name
        guard let list else { return !name.contains(".") }
        return psl_is_public_suffix(list, name) != 0
    }

    /// Returns the part of a name that its owner has registered: the public suffix and one label before it.
    /// `nil` if the name is a public suffix.
    public static func registrableDomain(of name: String) -> String? {
        let (name, end) = parts(of: name)
        guard !name.isEmpty else { return nil }
        guard let list else {
            let labels = name.split(separator: ".", omittingEmptySubsequences: false)
            return labels.count < 2 ? nil : labels.suffix(2).joined(separator: ".") + end
        }
        // The result points into the text, whose memory is valid in the closure.
        return name.withCString { name in
            psl_registrable_domain(list, name).map { String(cString: $0) + end }
        }
    }

    /// Returns a name without a dot at its end, and the dot. libpsl reads a name up to the first NUL.
    private static func parts(of name: String) -> (name: String, end: String) {
        name.utf8.last == UInt8(ascii: ".") ? (String(name.dropLast()), ".") : (name, "")
    }
}
