internal import PublicSuffixList

/// Decides below which names different organizations register domains. No cookie is for all hosts below such
/// a name (RFC 6265bis §5.7). Names are hosts as `WebURL` spells them, but no addresses.
public protocol PublicSuffixes: Sendable {
    /// Returns `true` if the name is a public suffix, such as `com`.
    func isPublicSuffix(_ domain: String) -> Bool

    /// Returns the public suffix of a host with one label before it, such as `example.com`; `nil` if the
    /// host is a public suffix.
    func registrableDomain(_ host: String) -> String?
}

extension PublicSuffixes where Self == InstalledPublicSuffixes {
    /// The Public Suffix List of the system.
    public static var installed: InstalledPublicSuffixes { InstalledPublicSuffixes() }
}

/// The Public Suffix List (publicsuffix.org) that the system has installed.
public struct InstalledPublicSuffixes: PublicSuffixes {
    /// Creates a value; the list is loaded once, when it is first asked.
    public init() {}

    public func isPublicSuffix(_ domain: String) -> Bool { PublicSuffixList.contains(domain) }
    public func registrableDomain(_ host: String) -> String? { PublicSuffixList.registrableDomain(of: host) }
}

extension PublicSuffixes {
    /// Returns `true` if different organizations have hosts below the domain. No address is such a domain.
    func isShared(_ domain: String) -> Bool {
        // A domain that is no host has no hosts below it.
        (try? HostName.parse(domain[...]))?.1 == nil && isPublicSuffix(domain)
    }

    /// Returns `true` if both URLs have the same registrable domain, or the same host.
    func haveSameDomain(_ a: WebURL, _ b: WebURL) -> Bool {
        if a.host == b.host { return true }
        guard a.address == nil, b.address == nil, let domain = registrableDomain(a.host) else { return false }
        return domain == registrableDomain(b.host)
    }

    /// Returns `true` if both URLs are same-site (HTML standard, "same site"): the same scheme, and the same
    /// domain.
    func areSameSite(_ a: WebURL, _ b: WebURL) -> Bool { a.scheme == b.scheme && haveSameDomain(a, b) }
}
