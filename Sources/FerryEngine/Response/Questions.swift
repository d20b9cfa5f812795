import Curl
import FerryCore

// The questions that a client may be asked about a response.
extension ResponseJudge {
    /// Turns a redirect that the client has not approved into a question, if the job asks for that.
    func asking(_ judgement: Judgement, _ head: ResponseHead, _ now: Timestamp) -> Judgement {
        guard spec.redirects.policy == .ask, case .follow(let next, _) = judgement else { return judgement }
        if spec.answers?.approved.contains(next.target.string) ?? false { return judgement }
        let subject = JobQuestion.Subject.redirect(status: head.status, JobQuestion.Hop(next))
        return .ask(
            JobQuestion(subject, about: .init(head), askedAt: now, timeout: spec.questions.timeout))
    }

    /// Returns the question about a 401 or 407; `nil` if the challenge cannot be answered, or comes neither
    /// from the job's own server nor from its own proxy.
    func question(_ head: ResponseHead, _ hop: Hop, _ now: Timestamp) -> JobQuestion? {
        switch head.status {
        case 401:
            guard hop.url.isSameOrigin(as: spec.request.webURL) else { return nil }
            let fields = head.all("www-authenticate")
            return question(
                about: .offered(by: fields, from: hop.url.origin, hasNTLM: hasNTLM), .init(head), now,
                after: hop.sentCredential)
        case 407:
            // A response through a tunnel comes from the server, not from the proxy.
            guard hop.url.scheme == .http, let proxy = proxyThatAsks(hop) else { return nil }
            let fields = head.all("proxy-authenticate")
            return question(
                about: .offered(by: fields, from: proxy.url.string, isProxy: true, hasNTLM: hasNTLM),
                .init(head), now, after: hop.proxyCredential?.value)
        default: return nil
        }
    }

    /// Returns the question about a proxy that has refused a tunnel. libcurl does not report its head.
    func question(aboutTunnel error: CurlError, _ hop: Hop, _ now: Timestamp) -> JobQuestion? {
        guard spec.asksOnChallenge, let proxy = proxyThatAsks(hop) else { return nil }
        var offered = error.proxySchemes
        // Some proxies answer wrong credentials with 401 and no challenge.
        if error.proxyStatus == 401, proxy.user != nil { offered = [proxy.scheme.challenged ?? .basic] }
        let schemes = ConnectionRules.Authentication.Scheme.strongestFirst.filter { scheme in
            (scheme != .ntlm || hasNTLM) && scheme.challenged.map { offered.contains($0) } ?? false
        }
        return question(
            about: schemes.map { .init(url: proxy.url.string, realm: nil, method: $0, isProxy: true) }, nil,
            now, after: hop.proxyCredential?.value)
    }

    private func proxyThatAsks(_ hop: Hop) -> ConnectionRules.Proxy? {
        guard let proxy = spec.request.connection?.proxy, proxy.url.scheme != .socks5,
            !proxy.bypass.contains(hop.url)
        else { return nil }
        return proxy
    }

    /// `sent`: the credential of the session that was refused; `nil` if none was sent.
    private func question(
        about spaces: [JobQuestion.ProtectionSpace], _ response: JobQuestion.Response?, _ now: Timestamp,
        after sent: SentCredential?
    ) -> JobQuestion? {
        let answers = spec.answers
        guard let first = spaces.first, !(answers?.usesDefaultHandling ?? false) else { return nil }
        let rules = spec.request.connection
        let hadCredential = first.isProxy ? rules?.proxy?.user != nil : rules?.authentication != nil
        let header = first.isProxy ? "proxy-authorization" : "authorization"
        let hadHeader = spec.request.headers.contains { equalIgnoringCase($0.name, header) }
        let isRefusal = hadCredential || hadHeader || sent != nil
        let before = (first.isProxy ? answers?.proxyFailureCount : answers?.failureCount) ?? 0
        var question = JobQuestion(
            .challenge(spaces, previousFailureCount: before + (isRefusal ? 1 : 0)),
            about: response, askedAt: now, timeout: spec.questions.timeout)
        question.proposedCredential = sent.map { .init(name: $0.chosen.name, user: $0.chosen.user) }
        return question
    }
}

extension [JobQuestion.ProtectionSpace] {
    fileprivate static func offered(
        by fields: [String], from url: String, isProxy: Bool = false, hasNTLM: Bool
    ) -> Self {
        JobQuestion.ProtectionSpace.offered(by: fields, from: url, isProxy: isProxy, hasNTLM: hasNTLM)
    }
}

extension ConnectionRules.Authentication.Scheme {
    /// The scheme as libcurl knows it; `nil` if Ferry writes the field itself.
    var challenged: TransferRequest.Credentials.Scheme? {
        switch self {
        case .basic: .basic
        case .digest: .digest
        case .ntlm: .ntlm
        case .bearer: nil
        }
    }
}

extension JobQuestion.Response {
    init(_ head: ResponseHead) { self.init(status: head.status, headers: head.headers) }
}
