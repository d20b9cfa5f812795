import Curl
import FerryCore

// Use of a session's credentials by the requests of its jobs.
extension EngineContext {
    /// Returns the session's credentials that a request may send to its server; empty if the session has
    /// none, or if the request has a credential of the job or of its URL.
    func sessionCredentials(for attempt: Attempt, _ hop: Hop) -> [CredentialRecord] {
        let found = sessions.credentials(of: attempt.tenant, attempt.spec.session)
        guard !found.isEmpty, hop.userInformation == nil, attempt.spec.storeObject == nil else { return [] }
        let hasOwn = hop.keepsCredentials && attempt.hasOwnCredential { builder.isWithheld($0, attempt, hop) }
        return hasOwn ? [] : found
    }

    /// Adds the credentials that a request sends without a challenge.
    func addKnownCredentials(to hop: inout Hop, of attempt: Attempt) {
        let all = sessions.credentials(of: attempt.tenant, attempt.spec.session)
        guard !all.isEmpty else { return }
        if hop.credential == nil {
            hop.credential = spaces.credential(
                for: hop, of: attempt.sessionKey, among: sessionCredentials(for: attempt, hop)
            ).map(Boxed.init)
        }
        if hop.proxyCredential == nil, let proxy = attempt.anonymousProxy(of: hop) {
            hop.proxyCredential = spaces.credential(for: proxy, of: attempt.sessionKey, among: all)
                .map(Boxed.init)
        }
    }

    /// Returns the request that answers a challenge with a credential of the session; `nil` if none fits.
    func answering(_ head: ResponseHead, _ hop: Hop, of attempt: Attempt) -> Hop? {
        guard head.status == 407 else {
            return hop.answering(
                head, with: sessionCredentials(for: attempt, hop), hasNTLM: builder.supportsNTLM)
        }
        // A response through a tunnel comes from the server, not from the proxy.
        guard hop.url.scheme == .http else { return nil }
        return answering(
            AuthenticationChallenge.all(in: head.all("proxy-authenticate")), proxyOf: hop, attempt)
    }

    /// Returns the request that answers a proxy's refusal of a tunnel; `nil` if no credential fits.
    func answering(tunnel error: CurlError, _ hop: Hop, of attempt: Attempt) -> Hop? {
        guard error.proxyStatus == 407, sessions.hasCredentials else { return nil }
        // libcurl tells the schemes that the proxy offers, but not their realms.
        let names = ConnectionRules.Authentication.Scheme.strongestFirst.filter {
            $0.challenged.map { error.proxySchemes.contains($0) } ?? false
        }
        return answering(AuthenticationChallenge.all(in: names.map(\.rawValue)), proxyOf: hop, attempt)
    }

    private func answering(
        _ challenges: [AuthenticationChallenge], proxyOf hop: Hop, _ attempt: Attempt
    ) -> Hop? {
        guard let proxy = attempt.anonymousProxy(of: hop) else { return nil }
        return hop.answering(
            challenges, of: proxy, with: sessions.credentials(of: attempt.tenant, attempt.spec.session),
            hasNTLM: builder.supportsNTLM)
    }

    /// Notes what a response says about the session's credentials that its request has sent.
    func note(_ head: ResponseHead, to hop: Hop, of attempt: Attempt) {
        if let sent = hop.proxyCredential?.value, sent.answersChallenge, head.status != 407 {
            spaces.learn(sent, hop.url.path, of: attempt.sessionKey)
        }
        guard let sent = hop.sentCredential else { return }
        if head.status == 401 {
            spaces.forget(sent, of: attempt.sessionKey)
        } else if sent.answersChallenge, head.status != 407 {
            spaces.learn(sent, hop.url.path, of: attempt.sessionKey)
        }
    }
}

extension Attempt {
    fileprivate var sessionKey: SessionKey { SessionKey(tenant: tenant, name: spec.session) }

    /// Whether the job itself says how its request is authenticated. `isWithheld`: whether the request leaves
    /// out that field.
    fileprivate func hasOwnCredential(unless isWithheld: (String) -> Bool) -> Bool {
        spec.request.connection?.authentication != nil
            || hasField("authorization") && !isWithheld("authorization")
    }

    /// The proxy of a request if the job names one without a credential; `nil` for others.
    fileprivate func anonymousProxy(of hop: Hop) -> ProxyURL? {
        guard let proxy = spec.request.connection?.proxy, proxy.user == nil, proxy.url.scheme != .socks5,
            !proxy.bypass.contains(hop.url), !hasField("proxy-authorization")
        else { return nil }
        return proxy.url
    }

    private func hasField(_ name: String) -> Bool {
        spec.request.headers.contains { equalIgnoringCase($0.name, name) }
            || secrets.headers.contains { equalIgnoringCase($0.name, name) }
    }
}
