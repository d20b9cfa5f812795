/// Origins that a rule names: `scheme://host[:port]`, where the first label of the host may be `*`, which
/// stands for one label or several.
package struct OriginPattern: Sendable, Hashable {
    package enum Failure: Error, Sendable, Equatable {
        case notOrigin, invalidWildcard
        case invalid(WebURL.Failure)

        /// A sentence for the client.
        package var message: String {
            switch self {
            case .notOrigin: "An origin is scheme://host or scheme://host:port, without a path or query."
            case .invalidWildcard:
                "An asterisk is possible as the first label of a name: https://*.example.org."
            case .invalid(let failure): failure.message
            }
        }
    }

    private static let wildcard = "*."

    /// The place itself, or what all names of the pattern end with.
    private let place: WebURL
    private let coversSubdomains: Bool

    package init(_ text: String) throws(Failure) {
        guard let mark = text.firstRange(of: "://") else { throw .invalid(.notAbsolute) }
        let authority = text[mark.upperBound...]
        guard !authority.contains(where: { "/?#\\".contains($0) }) else { throw .notOrigin }
        coversSubdomains = authority.hasPrefix(Self.wildcard)
        let rest = coversSubdomains ? authority.dropFirst(Self.wildcard.count) : authority
        guard !rest.contains("*") else { throw .invalidWildcard }
        do throws(WebURL.Failure) {
            place = try WebURL.parse(String(text[..<mark.upperBound] + rest))
        } catch {
            throw .invalid(error)
        }
        if coversSubdomains, place.address != nil { throw .invalidWildcard }
    }

    /// Whether the URL's origin is one of them.
    package func contains(_ url: WebURL) -> Bool {
        guard coversSubdomains else { return url.isSameOrigin(as: place) }
        return url.scheme == place.scheme && url.port == place.port && url.host.hasSuffix("." + place.host)
    }

    /// Normalised: in lower case, without the scheme's own port.
    package var string: String {
        let port = place.port == place.scheme.defaultPort ? "" : ":\(place.port)"
        return "\(place.scheme.rawValue)://\(coversSubdomains ? Self.wildcard : "")\(place.host)\(port)"
    }
}
