/// How a job's requests reach and authenticate to their server, where that differs from the default.
/// `ConnectionSecrets` has the secrets.
package struct ConnectionRules: Sendable, Equatable {
    /// Version of HTTP.
    package enum HTTPVersion: String, Sendable, CaseIterable {
        /// The newest version that is safe with this libcurl: HTTP/2 by ALPN, else HTTP/1.1.
        case auto
        case http1 = "1.1"
        case http2 = "2"
        case http3 = "3"
    }

    /// Authentication by RFC 7617 (basic), RFC 7616 (digest), RFC 6750 (bearer) or MS-NTHT (NTLM).
    package struct Authentication: Sendable, Equatable {
        /// Scheme.
        package enum Scheme: String, Sendable, CaseIterable { case basic, digest, bearer, ntlm }
        /// Scheme.
        package var scheme: Scheme
        /// User, or `nil` for `bearer`.
        package var user: String?
        /// Creates an authentication.
        package init(_ scheme: Scheme, user: String? = nil) {
            self.scheme = scheme
            self.user = user
        }
    }

    /// TLS settings that differ from the default: the system's authorities, and TLS 1.2 or later.
    package struct TLS: Sendable, Equatable {
        /// Version of TLS.
        package enum Version: String, Sendable, CaseIterable {
            case v12 = "1.2"
            case v13 = "1.3"
        }
        /// `true` if the job has authorities or a client certificate. Their texts are in `ConnectionSecrets`,
        /// because they are long.
        package var hasAuthorities = false
        package var hasClientCertificate = false
        /// Pinned public keys as `sha256//base64` (RFC 7469 §2.4). One of them must match on every hop.
        package var pins: [String] = []
        /// Lowest and highest version; `nil` for no maximum.
        package var versionMin = Version.v12
        package var versionMax: Version?
        /// Creates default settings.
        package init() {}
    }

    /// A proxy.
    package struct Proxy: Sendable, Equatable {
        /// URL of the proxy.
        package var url: ProxyURL
        /// User, or `nil`. The password is a secret.
        package var user: String?
        /// Scheme of the authentication to the proxy; never `bearer`.
        package var scheme = Authentication.Scheme.basic
        /// Hosts that are connected without the proxy.
        package var bypass: ProxyBypass
        /// `true` if the job has authorities for an https proxy.
        package var hasAuthorities: Bool
        /// Creates a proxy.
        package init(
            url: ProxyURL, user: String? = nil, bypass: ProxyBypass = ProxyBypass(),
            hasAuthorities: Bool = false
        ) {
            self.url = url
            self.user = user
            self.bypass = bypass
            self.hasAuthorities = hasAuthorities
        }
    }

    /// Version of HTTP.
    package var httpVersion = HTTPVersion.auto
    /// Authentication, or `nil`.
    package var authentication: Authentication?
    /// TLS settings, or `nil` for the default.
    package var tls: TLS?
    /// Proxy, or `nil` for Ferry's own (`FERRY_PROXY`), if there is one.
    package var proxy: Proxy?
    /// Creates default rules.
    package init() {}

    /// Rules of a job that names none.
    package static let standard = ConnectionRules()
}

/// The secrets of `ConnectionRules`.
package struct ConnectionSecrets: Sendable, Equatable {
    /// Secret of `Authentication`.
    package var password: String?
    package var token: String?
    /// PEM texts.
    package var authorities: String?
    package var clientCertificate: String?
    package var clientKey: String?
    package var proxyPassword: String?
    package var proxyAuthorities: String?
    /// Creates an empty set.
    package init() {}
}

/// A value behind a reference, for rare properties: `nil` costs one word.
package final class Boxed<Value: Sendable & Equatable>: Sendable, Equatable {
    /// The value.
    package let value: Value
    /// Creates a box.
    package init(_ value: Value) { self.value = value }

    /// Compares the values.
    package static func == (a: Boxed, b: Boxed) -> Bool { a === b || a.value == b.value }
}

extension JobSpec.RequestSpec {
    /// The rules, or `nil` for the default.
    package var connection: ConnectionRules? {
        get { boxedConnection?.value }
        set { boxedConnection = newValue.flatMap { $0 == .standard ? nil : Boxed($0) } }
    }
}

extension JobSecrets {
    /// The secrets, or `nil` if there are none.
    package var connection: ConnectionSecrets? {
        get { boxedConnection?.value }
        set { boxedConnection = newValue.flatMap { $0 == ConnectionSecrets() ? nil : Boxed($0) } }
    }
}
