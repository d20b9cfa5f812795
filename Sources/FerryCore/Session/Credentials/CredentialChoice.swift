/// A session's credential as a request sends it: with the scheme that a challenge has decided.
public struct ChosenCredential: Sendable, Equatable {
    /// Name and revision of the credential.
    public let name: String
    public let revision: Int32
    /// Scheme and realm of the challenge; `nil` if the challenge has no realm.
    public let scheme: ConnectionRules.Authentication.Scheme
    public let realm: String?
    /// Name of the user; empty with a token.
    public let user: String
    /// Password or token.
    public let secret: String

    /// Creates a choice.
    public init(
        name: String, revision: Int32, scheme: ConnectionRules.Authentication.Scheme, realm: String?,
        user: String, secret: String
    ) {
        self.name = name
        self.revision = revision
        self.scheme = scheme
        self.realm = realm
        self.user = user
        self.secret = secret
    }
}

extension [CredentialRecord] {
    /// Returns the credential that answers challenges of `origin`; `nil` if none does. The strongest
    /// offered scheme wins, then the space that names its realm, then the one that names its method, then the
    /// first name. Realms are compared byte by byte. `hasNTLM`: `true` if libcurl supports NTLM; `refused`:
    /// names of credentials that the server has refused. `isProxy`: `true` if the origin is a proxy.
    public func choice(
        for challenges: [AuthenticationChallenge], from origin: String, isProxy: Bool = false, hasNTLM: Bool,
        except refused: [String]
    ) -> ChosenCredential? {
        let own = filter {
            let space = $0.credential.space
            return space.origin == origin && space.isProxy == isProxy && !refused.contains($0.name)
        }
        guard !own.isEmpty else { return nil }
        for scheme in ConnectionRules.Authentication.Scheme.strongestFirst where scheme != .ntlm || hasNTLM {
            for challenge in challenges where challenge.scheme == scheme.rawValue {
                if let chosen = own.choice(scheme, realm: challenge.realm) { return chosen }
            }
        }
        return nil
    }

    private func choice(
        _ scheme: ConnectionRules.Authentication.Scheme, realm: String?
    ) -> ChosenCredential? {
        let fitting = compactMap { record -> (rank: Int, chosen: ChosenCredential)? in
            let space = record.credential.space
            guard space.method == .any || space.method.rawValue == scheme.rawValue,
                space.realm.map({ isSame($0, realm) }) ?? true,
                let secrets = record.secrets?.connection,
                let secret = scheme == .bearer ? secrets.token : secrets.password
            else { return nil }
            let rank = (space.realm == nil ? 0 : 2) + (space.method == .any ? 0 : 1)
            let chosen = ChosenCredential(
                name: record.name, revision: record.revision, scheme: scheme, realm: realm,
                user: record.credential.user ?? "", secret: secret)
            return (rank, chosen)
        }
        return fitting.max { a, b in (a.rank, b.chosen.name) < (b.rank, a.chosen.name) }?.chosen
    }

    /// Returns `true` if the credential that was chosen before is still stored unchanged.
    public func has(_ chosen: ChosenCredential) -> Bool {
        contains { $0.name == chosen.name && $0.revision == chosen.revision }
    }
}

/// Swift compares texts by their characters, and servers by their bytes.
private func isSame(_ text: String, _ other: String?) -> Bool {
    other.map { $0.utf8.elementsEqual(text.utf8) } ?? false
}

/// Paths of one protection space as a client may assume them (RFC 7617 §2.2): those at or below the depth of
/// the last symbolic element of a path that was challenged.
public struct ProtectedPaths: Sendable, Equatable {
    /// Each ends with a slash.
    private var prefixes: [String] = []

    /// Prefixes that are remembered; the first one is forgotten.
    private static let countMax = 32

    /// Creates an empty set.
    public init() {}

    /// Adds the path of a request that was challenged.
    public mutating func add(_ path: String) {
        let prefix = Self.prefix(of: path)
        guard !contains(path) else { return }
        prefixes.removeAll { $0.utf8.starts(with: prefix.utf8) }
        prefixes.append(prefix)
        if prefixes.count > Self.countMax { prefixes.removeFirst() }
    }

    /// Returns `true` if a request for `path` is assumed to be in the space.
    public func contains(_ path: String) -> Bool { depth(of: path) != nil }

    /// Returns the length of the longest prefix of `path`, or `nil` if there is none.
    public func depth(of path: String) -> Int? {
        prefixes.filter { path.utf8.starts(with: $0.utf8) }.map(\.utf8.count).max()
    }

    /// Returns the path up to its last slash.
    private static func prefix(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "/" }
        return String(path[...slash])
    }
}
