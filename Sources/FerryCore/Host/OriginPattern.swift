/// Pattern of origins, `scheme://host[:port]`; the first label of the host may be `*`, which stands for one
/// or more labels.
public struct OriginPattern: Sendable, Hashable {
    /// Reason for which a text is no pattern.
    public enum Failure: Error, Sendable, Equatable {
        case notOrigin, invalidWildcard
        case invalid(WebURL.Failure)

        /// A sentence for the client.
        public var message: String {
            switch self {
            case .notOrigin: "An origin is scheme://host or scheme://host:port, without a path or query."
            case .invalidWildcard:
                "An asterisk is possible as the first label of a name: https://*.example.org."
            case .invalid(let failure): failure.message
            }
        }
    }

    private static let wildcard = "*."

    /// The origin itself, or the common end of all names of the pattern.
    private let place: WebURL
    private let coversSubdomains: Bool

    /// Reads a pattern.
    public init(_ text: String) throws(Failure) {
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

    /// Returns `true` if the pattern contains the URL's origin.
    public func contains(_ url: WebURL) -> Bool {
        guard coversSubdomains else { return url.isSameOrigin(as: place) }
        return url.scheme == place.scheme && url.port == place.port && url.host.hasSuffix("." + place.host)
    }

    /// The normalised text: in lower case, without the default port of the scheme.
    public var string: String {
        let port = place.port == place.scheme.defaultPort ? "" : ":\(place.port)"
        return "\(place.scheme.rawValue)://\(coversSubdomains ? Self.wildcard : "")\(place.host)\(port)"
    }
}

extension OriginPattern: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> OriginPattern? {
        guard let text = json.string else { return place.failType("a string", json) }
        do throws(Failure) {
            return try OriginPattern(text)
        } catch {
            return place.fail("invalid_value", error.message)
        }
    }
    public static func restore(_ json: JSON) -> OriginPattern? {
        // Validated when the session was configured; `nil` stands for any damage.
        json.string.flatMap { try? OriginPattern($0) }
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(string) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "string"), JSON.Member("maxLength", JSON(Limits.urlByteCountMax)),
            JSON.Member("pattern", #"^[hH][tT][tT][pP][sS]?://[^@\s/?#\\]{1,255}$"#),
        ]
    }
}
