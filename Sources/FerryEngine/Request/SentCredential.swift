import FerryCore
import Synchronization

/// A session's credential that a request sends. A request to another URL looks for its own credential, so
/// that none is ever sent to another origin.
struct SentCredential: Sendable, Equatable {
    let chosen: ChosenCredential
    /// Origin of the credential's protection space.
    let origin: String
    /// Whether that is a proxy.
    var isProxy = false
    /// The challenge that the request answers by Digest; `nil` with other schemes.
    let digest: DigestSession?
    /// Whether the server has challenged this very request. `false`: it has challenged an earlier one.
    let answersChallenge: Bool
    /// Whether this request was sent with another answer of the same credential before.
    var isRenewed = false
    /// Names of the credentials that the server has refused.
    var refused: [String] = []

    /// Returns the value of `Authorization`; `nil` if libcurl writes it.
    func field(of hop: Hop) -> FieldOctets? {
        switch chosen.scheme {
        case .basic:
            FieldOctets("Basic " + Base64.encode(Array("\(chosen.user):\(chosen.secret)".utf8)))
        case .bearer: FieldOctets("Bearer " + chosen.secret)
        case .digest: digest?.field(user: chosen.user, password: chosen.secret, of: hop)
        case .ntlm: nil
        }
    }

    /// Whether the server may accept the credential with another answer after this 401.
    fileprivate func mayRenew(_ head: ResponseHead, _ challenges: [AuthenticationChallenge]) -> Bool {
        guard !isRenewed else { return false }
        if let digest { return !answersChallenge || digest.isStale(by: head) }
        return mayRenew(byAnotherScheme: challenges)
    }

    /// Whether an earlier challenge named a scheme that the server no longer offers.
    fileprivate func mayRenew(byAnotherScheme challenges: [AuthenticationChallenge]) -> Bool {
        !answersChallenge && !challenges.contains { $0.scheme == chosen.scheme.rawValue }
    }
}

extension Hop {
    /// The session's credential, if it is for the origin of the URL.
    var sentCredential: SentCredential? {
        guard let sent = credential?.value, sent.origin == url.origin else { return nil }
        return sent
    }

    /// Returns the request that answers a 401 with a credential of the session; `nil` if none fits, or the
    /// server has refused it.
    func answering(_ head: ResponseHead, with credentials: [CredentialRecord], hasNTLM: Bool) -> Hop? {
        guard head.status == 401, !credentials.isEmpty else { return nil }
        let challenges = AuthenticationChallenge.all(in: head.all("www-authenticate"))
        let sent = sentCredential
        let refused = credentials.refused(after: sent, mayRenew: sent?.mayRenew(head, challenges) ?? false)
        guard
            let chosen = credentials.choice(
                for: challenges, from: url.origin, hasNTLM: hasNTLM, except: refused)
        else { return nil }
        var digest: DigestSession?
        if chosen.scheme == .digest {
            digest = DigestAnswer(
                toFields: head.octets("www-authenticate"), realm: chosen.realm, sendsBody: sendsBody
            ).map(DigestSession.init)
            guard digest != nil else { return nil }
        }
        var next = self
        let isRenewed = sent.map { $0.answersChallenge && $0.chosen.name == chosen.name } ?? false
        next.credential = Boxed(
            SentCredential(
                chosen: chosen, origin: url.origin, digest: digest, answersChallenge: true,
                isRenewed: isRenewed, refused: refused))
        return next
    }

    /// Returns the request that answers challenges of the job's proxy with a credential of the session; `nil`
    /// if none fits, or the proxy has refused it. libcurl makes the answer.
    func answering(
        _ challenges: [AuthenticationChallenge], of proxy: ProxyURL, with credentials: [CredentialRecord],
        hasNTLM: Bool
    ) -> Hop? {
        let sent = proxyCredential?.value
        let refused = credentials.refused(
            after: sent, mayRenew: sent?.mayRenew(byAnotherScheme: challenges) ?? false)
        guard
            let chosen = credentials.choice(
                for: challenges, from: proxy.string, isProxy: true, hasNTLM: hasNTLM, except: refused)
        else { return nil }
        var next = self
        next.proxyCredential = Boxed(
            SentCredential(
                chosen: chosen, origin: proxy.string, isProxy: true, digest: nil, answersChallenge: true,
                refused: refused))
        return next
    }
}

extension [CredentialRecord] {
    /// Returns the names of the credentials that a server has refused by the response to a request that had
    /// `sent`. A credential that was replaced meanwhile is not refused.
    fileprivate func refused(after sent: SentCredential?, mayRenew: Bool) -> [String] {
        guard let sent else { return [] }
        return sent.refused + (has(sent.chosen) && !mayRenew ? [sent.chosen.name] : [])
    }
}

/// A Digest challenge that several requests answer, with a rising nonce count (RFC 7616 §3.4). Any thread.
final class DigestSession: Sendable, Equatable {
    private let answer: DigestAnswer
    /// One for all requests, because the key of `-sess` algorithms is made with the first one.
    private let clientNonce = hexEncoded((0..<16).map { _ in UInt8.random(in: 0...255) })
    private let count = Atomic<UInt32>(0)

    init(_ answer: DigestAnswer) { self.answer = answer }

    static func == (a: DigestSession, b: DigestSession) -> Bool { a === b }

    /// Whether a request with a body cannot have the answer.
    var isWithoutBody: Bool { answer.isWithoutBody }

    /// Whether a response says that only the nonce was wrong.
    func isStale(by head: ResponseHead) -> Bool { answer.isStale(by: head.octets("www-authenticate")) }

    /// Returns the value of `Authorization` of the next request.
    func field(user: String, password: String, of hop: Hop) -> FieldOctets? {
        answer.authorization(
            user: user, password: password, method: hop.method, uri: hop.digestTarget,
            clientNonce: clientNonce, nonceCount: count.wrappingAdd(1, ordering: .relaxed).newValue)
    }
}
