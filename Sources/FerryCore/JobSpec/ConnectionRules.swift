/// How a job's requests reach their server and prove who they are, where that is not the plain way. What must
/// not be shown is in `ConnectionSecrets`.
package struct ConnectionRules: Sendable, Equatable {
    package enum HTTPVersion: String, Sendable, CaseIterable {
        /// The newest that is safe with the libcurl that runs: HTTP/2 by ALPN, else HTTP/1.1.
        case auto
        case http1 = "1.1"
        case http2 = "2"
        case http3 = "3"
    }

    /// RFC 7617, RFC 7616, RFC 6750, MS-NTHT.
    package struct Authentication: Sendable, Equatable {
        package enum Scheme: String, Sendable, CaseIterable { case basic, digest, bearer, ntlm }
        package var scheme: Scheme
        /// Nil for `bearer`.
        package var user: String?
        package init(_ scheme: Scheme, user: String? = nil) {
            self.scheme = scheme
            self.user = user
        }
    }

    /// What differs from the system's authorities and TLS 1.2 or later.
    package struct TLS: Sendable, Equatable {
        package enum Version: String, Sendable, CaseIterable {
            case v12 = "1.2"
            case v13 = "1.3"
        }
        /// The texts are secrets: not because they tell much, but because they are long.
        package var hasAuthorities = false
        package var hasClientCertificate = false
        /// `sha256//base64` of public keys (RFC 7469 §2.4); one match is enough, on every hop.
        package var pins: [String] = []
        package var versionMin = Version.v12
        package var versionMax: Version?
        package init() {}
    }

    package struct Proxy: Sendable, Equatable {
        package var url: ProxyURL
        /// Its password is a secret.
        package var user: String?
        /// How it answers for itself; never `bearer`.
        package var scheme = Authentication.Scheme.basic
        package var bypass: ProxyBypass
        /// Own authorities for a proxy that is spoken to over TLS.
        package var hasAuthorities: Bool
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

    package var httpVersion = HTTPVersion.auto
    package var authentication: Authentication?
    package var tls: TLS?
    /// Nil: the service's own (`FERRY_PROXY`), if it has one.
    package var proxy: Proxy?
    package init() {}

    /// What a job gets that says nothing.
    package static let standard = ConnectionRules()
}

/// The secrets of `ConnectionRules`.
package struct ConnectionSecrets: Sendable, Equatable {
    package var password: String?
    package var token: String?
    /// PEM texts.
    package var authorities: String?
    package var clientCertificate: String?
    package var clientKey: String?
    package var proxyPassword: String?
    package var proxyAuthorities: String?
    package init() {}
}

/// A value behind one reference, for what most of its holders do not have: nil costs a word.
package final class Boxed<Value: Sendable & Equatable>: Sendable, Equatable {
    package let value: Value
    package init(_ value: Value) { self.value = value }

    package static func == (a: Boxed, b: Boxed) -> Bool { a === b || a.value == b.value }
}

extension JobSpec.RequestSpec {
    /// Nil: nothing but the standard.
    package var connection: ConnectionRules? {
        get { boxedConnection?.value }
        set { boxedConnection = newValue.flatMap { $0 == .standard ? nil : Boxed($0) } }
    }
}

extension JobSecrets {
    /// Nil: none.
    package var connection: ConnectionSecrets? {
        get { boxedConnection?.value }
        set { boxedConnection = newValue.flatMap { $0 == ConnectionSecrets() ? nil : Boxed($0) } }
    }
}
