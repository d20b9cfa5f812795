import Curl
package import FerryCore

/// The proxy that an operator has set for all transfers (`FERRY_PROXY`, `FERRY_NO_PROXY`).
package struct ServiceProxy: Sendable, Equatable {
    package let url: ProxyURL
    package let user: String?
    package let password: String?
    package let bypass: ProxyBypass
    package init(url: ProxyURL, user: String?, password: String?, bypass: ProxyBypass) {
        self.url = url
        self.user = user
        self.password = password
        self.bypass = bypass
    }
}

/// Which proxy a hop goes through: the job's own, else the service's, unless the host is excepted from it.
extension RequestBuilder {
    func chooseProxy(_ attempt: Attempt, _ hop: Hop, for request: inout TransferRequest) {
        if let own = attempt.spec.request.connection?.proxy {
            guard !own.bypass.contains(hop.url) else { return }
            let secrets = attempt.secrets.connection
            var proxy = TransferRequest.Proxy(url: own.url.curlString)
            proxy.credentials = own.user.map {
                .init(own.scheme.challenged ?? .basic, user: $0, password: secrets?.proxyPassword ?? "")
            }
            proxy.authorities = secrets?.proxyAuthorities
            request.proxy = proxy
            // libcurl does not compare credentials before it uses a kept tunnel: nobody else may find one.
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

    /// Whether an answer to the hop is the server's. What a job's own proxy says in a server's name is its
    /// owner's word, and others' jobs must not suffer from it: only the far end of a tunnel is known, by our
    /// own authorities.
    func isAnsweredByServer(_ attempt: Attempt, _ url: WebURL) -> Bool {
        guard let rules = attempt.spec.request.connection, let proxy = rules.proxy,
            !proxy.bypass.contains(url)
        else { return true }
        return url.scheme == .https && rules.tls?.hasAuthorities != true
    }

    /// What kind of proxy the hop goes through; nil: none.
    func proxyScheme(_ attempt: Attempt, _ url: WebURL) -> ProxyURL.Scheme? {
        if let own = attempt.spec.request.connection?.proxy {
            return own.bypass.contains(url) ? nil : own.url.scheme
        }
        return usesServiceProxy(attempt, url) ? serviceProxy?.url.scheme : nil
    }
}

extension ProxyURL {
    /// As libcurl spells it: with `socks5` it would resolve names itself, and nobody would judge the address.
    fileprivate var curlString: String {
        scheme == .socks5 ? "socks5h://\(place.host):\(place.port)" : string
    }
}
