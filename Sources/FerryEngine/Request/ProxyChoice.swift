import Curl
package import FerryCore

/// The proxy that the operator has set for all transfers (`FERRY_PROXY`, `FERRY_NO_PROXY`).
package struct ServiceProxy: Sendable, Equatable {
    /// URL of the proxy.
    package let url: ProxyURL
    /// User name; `nil` for no credentials.
    package let user: String?
    /// Password; `nil` counts as empty.
    package let password: String?
    /// Hosts that are reached directly.
    package let bypass: ProxyBypass
    /// Makes a proxy from the operator's settings.
    package init(url: ProxyURL, user: String?, password: String?, bypass: ProxyBypass) {
        self.url = url
        self.user = user
        self.password = password
        self.bypass = bypass
    }
}

/// Chooses the proxy of a hop: the job's own, otherwise the service's, unless the host bypasses it.
extension RequestBuilder {
    func chooseProxy(_ attempt: Attempt, _ hop: Hop, for request: inout TransferRequest) {
        if let own = attempt.spec.request.connection?.proxy {
            guard !own.bypass.contains(hop.url) else { return }
            let secrets = attempt.secrets.connection
            var proxy = TransferRequest.Proxy(url: own.url.curlString)
            proxy.credentials = own.user.map {
                .init(own.scheme.challenged ?? .basic, user: $0, password: secrets?.proxyPassword ?? "")
            }
            if own.user == nil, let sent = hop.proxyCredential?.value, sent.origin == own.url.string {
                proxy.credentials = .init(
                    sent.chosen.scheme.challenged ?? .basic, user: sent.chosen.user,
                    password: sent.chosen.secret)
            }
            proxy.authorities = secrets?.proxyAuthorities
            request.proxy = proxy
            // libcurl does not compare credentials before it reuses a tunnel, so a tunnel with credentials is
            // not kept.
            if proxy.credentials != nil, own.url.scheme != .socks5, hop.url.scheme == .https {
                request.usesFreshConnection = true
                request.keepsConnection = false
            }
        } else if usesServiceProxy(attempt, hop.url), let serviceProxy {
            request.proxy = connection(through: serviceProxy)
        }
        // QUIC does not pass proxies.
        if request.proxy != nil, request.httpVersion == .http3 { request.httpVersion = .http2 }
    }

    func connection(through service: ServiceProxy) -> TransferRequest.Proxy {
        var proxy = TransferRequest.Proxy(url: service.url.curlString)
        proxy.credentials = service.user.map { .init(user: $0, password: service.password ?? "") }
        return proxy
    }

    func usesServiceProxy(_ attempt: Attempt, _ url: WebURL) -> Bool {
        guard let serviceProxy, attempt.spec.request.connection?.proxy == nil else { return false }
        return !serviceProxy.bypass.contains(url)
    }

    /// Whether a response to the hop certainly comes from the server. A job's own proxy can make up
    /// responses, which must not affect other tenants' jobs. Behind such a proxy only a TLS tunnel counts, if
    /// the server's certificate is checked with this node's authorities.
    func isAnsweredByServer(_ attempt: Attempt, _ url: WebURL) -> Bool {
        guard let rules = attempt.spec.request.connection, let proxy = rules.proxy,
            !proxy.bypass.contains(url)
        else { return true }
        return url.scheme == .https && rules.tls?.authorities.isSet != true
    }

    /// Returns the scheme of the proxy that the hop goes through; `nil` if there is none.
    func proxyScheme(_ attempt: Attempt, _ url: WebURL) -> ProxyURL.Scheme? {
        if let own = attempt.spec.request.connection?.proxy {
            return own.bypass.contains(url) ? nil : own.url.scheme
        }
        return usesServiceProxy(attempt, url) ? serviceProxy?.url.scheme : nil
    }

    /// Returns the scheme of the endpoint that the hop connects: its proxy's, or the server's own.
    func connectedScheme(_ attempt: Attempt, _ url: WebURL) -> EndpointAddress.Scheme {
        proxyScheme(attempt, url)?.endpoint ?? url.scheme.endpoint
    }
}

extension ProxyURL {
    /// The URL as libcurl needs it: with `socks5` libcurl would resolve names itself, and the egress policy
    /// would not see the address that the proxy connects.
    fileprivate var curlString: String {
        scheme == .socks5 ? "socks5h://\(endpoint.host):\(endpoint.port)" : string
    }
}
