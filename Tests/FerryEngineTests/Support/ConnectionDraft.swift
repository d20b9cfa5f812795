import FerryCore
import FerryEngine
import TestSupport

/// Properties of a job that tests of connections vary.
extension Draft {
    mutating func connect(_ change: (inout ConnectionRules, inout ConnectionSecrets) -> Void) {
        var rules = spec.request.connection ?? ConnectionRules()
        var hidden = secrets.connection ?? ConnectionSecrets()
        change(&rules, &hidden)
        spec.request.connection = rules
        secrets.connection = hidden
    }

    /// Trusts this authority alone.
    mutating func trust(_ authority: String, _ change: (inout ConnectionRules.TLS) -> Void = { _ in }) {
        connect { rules, hidden in
            var tls = rules.tls ?? ConnectionRules.TLS()
            tls.authorities.isSet = true
            change(&tls)
            rules.tls = tls
            hidden.authorities = authority
        }
    }

    /// Shows this client certificate.
    mutating func show(_ identity: TestAuthority.Identity) {
        connect { rules, hidden in
            var tls = rules.tls ?? ConnectionRules.TLS()
            tls.clientCertificate.isSet = true
            rules.tls = tls
            hidden.clientCertificate = identity.certificate
            hidden.clientKey = identity.key
        }
    }

    mutating func authenticate(
        _ scheme: ConnectionRules.Authentication.Scheme, _ user: String? = "user", _ secret: String = "secret"
    ) {
        connect { rules, hidden in
            rules.authentication = .init(scheme, user: scheme == .bearer ? nil : user)
            if scheme == .bearer { hidden.token = secret } else { hidden.password = secret }
        }
    }

    mutating func pass(
        _ proxy: String, user: String? = nil, password: String? = nil, bypass: [String] = []
    ) throws {
        let url = try ProxyURL(proxy)
        connect { rules, hidden in
            rules.proxy = .init(url: url, user: user, bypass: ProxyBypass(bypass))
            hidden.proxyPassword = password
        }
    }
}

extension AttemptResult {
    /// The body of a data job, as text.
    var text: String? { success?.body.map { String(decoding: $0, as: UTF8.self) } }
}
