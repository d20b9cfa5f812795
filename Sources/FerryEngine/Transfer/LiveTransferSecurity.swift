import Curl
import FerryCore

/// Whom an attempt talks to, and how it answers for itself.
extension LiveTransfer {
    func allows(_ address: SocketAddress) -> Bool { context.allows(address, for: attempt, hop.url) }

    /// Whether libcurl answers a challenge of this hop by itself.
    var answersChallenges: Bool { attempt.answersChallenges(of: hop) }

    /// Whether somebody is asked about a proxy that has refused a tunnel; the attempt has ended then.
    func asksAboutTunnel(_ error: CurlError) -> Bool {
        guard error.proxyStatus == 407 || error.proxyStatus == 401, head == nil,
            let question = judge(isDecoded: false).question(aboutTunnel: error, hop, context.clock.now())
        else { return false }
        handle(.head(.ask(question)))
        handle(.transferEnded(nil))
        return true
    }

    func judge(isDecoded: Bool) -> ResponseJudge {
        ResponseJudge(
            spec: attempt.spec, egress: context.configuration.egress, isDecoded: isDecoded,
            hasNTLM: context.builder.supportsNTLM)
    }

    /// A body that ends with its connection is whole only when the server says over TLS that it ends it
    /// (RFC 9112 §9.8), or something else proves it.
    func awaitFarewell(_ head: ResponseHead) {
        if hop.url.scheme == .https, !head.isDelimited(hop.method) { transfer?.awaitFarewell() }
    }

    /// What libcurl takes for an end, judged.
    func judged(_ outcome: TransferOutcome) -> TransferOutcome {
        guard outcome.error == nil, outcome.lacksFarewell, case .drain(let drain) = sink, let head,
            !head.isDelimited(hop.method), !drain.hasKnownEnd, attempt.spec.integrity.size == nil,
            !drain.digests.isProof
        else { return outcome }
        var outcome = outcome
        outcome.error = .withoutFarewell
        return outcome
    }

    /// Judges a head that libcurl did not answer by itself.
    func takeHeldHead() -> Bool {
        guard isHeadHeld, let head else { return true }
        isHeadHeld = false
        return takeHead(head)
    }
}

extension EngineContext {
    /// Whether this very address may be connected for a request to `url`.
    func allows(_ address: SocketAddress, for attempt: Attempt, _ url: WebURL) -> Bool {
        // The address is the proxy's, which the operator has named.
        builder.usesServiceProxy(attempt, url) || allows(address)
    }

    func allows(_ address: SocketAddress) -> Bool {
        let plain =
            address.isIPv6
            ? IPAddress(v6High: address.high, low: address.low)
            : IPAddress(v4: UInt32(truncatingIfNeeded: address.low))
        return configuration.egress.allows(plain, port: address.port)
    }
}

extension Attempt {
    /// Whether libcurl answers a challenge of this hop by itself.
    func answersChallenges(of hop: Hop) -> Bool {
        guard let rules = spec.request.connection else { return false }
        let scheme = rules.authentication?.scheme
        if hop.keepsCredentials, scheme == .digest || scheme == .ntlm { return true }
        // In a tunnel the proxy says nothing more.
        guard let proxy = rules.proxy, proxy.user != nil, proxy.scheme != .basic,
            hop.url.scheme == .http
        else { return false }
        return !proxy.bypass.contains(hop.url)
    }
}
