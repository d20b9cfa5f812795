import FerryCore
import OpenSSL

extension Hop {
    /// Returns the request that answers a Digest challenge that libcurl does not answer, or answers wrongly;
    /// `nil` if there is none, or if it was answered before. A challenge that only has a new nonce is
    /// answered once more (`stale`, RFC 7616 §3.3).
    func answering(_ head: ResponseHead, for spec: JobSpec) -> Hop? {
        guard head.status == 401, keepsCredentials,
            spec.request.connection?.authentication?.scheme == .digest,
            let answer = DigestAnswer(
                toFields: head.octets("www-authenticate"), sendsBody: sendsBody, after: digest)
        else { return nil }
        var next = self
        next.digest = answer
        return next
    }

    /// Whether every Digest challenge of a response that the job does not accept demands a hash of the body
    /// (`auth-int`, RFC 7616 §3.4.3). Ferry does not compute it, and libcurl would send that of an empty one.
    func needsBodyHash(_ head: ResponseHead, for spec: JobSpec) -> Bool {
        guard head.status == 401, keepsCredentials, sendsBody,
            spec.request.connection?.authentication?.scheme == .digest,
            !ResponseTable(spec: spec).accepts(401)
        else { return false }
        return DigestAnswer.needsBodyHash(head.octets("www-authenticate"))
    }
}

/// The answer to a Digest challenge (RFC 7616) that libcurl does not read, does not choose, or whose
/// algorithm it does not compute.
///
/// libcurl answers the first Digest challenge of a response. If it cannot, this is the answer to the first
/// challenge that can be answered. libcurl 7.88 answers SHA-512-256 wrongly, as a failed login: its transfer
/// ends at the head then.
struct DigestAnswer: Sendable, Equatable {
    private enum Hash: String {
        case md5 = "md5", sha256 = "sha-256", sha512by256 = "sha-512-256"

        var algorithm: Digest.Algorithm {
            switch self {
            case .md5: .md5
            case .sha256: .sha256
            case .sha512by256: .sha512by256
            }
        }
    }

    private let hash: Hash
    /// Whether each session has a key of its own (`-sess`).
    private let isSession: Bool
    /// Quality of protection: `auth`, `auth-int` for a request without a body, or `nil` (RFC 2069).
    private let quality: String?
    /// Its texts are octets (`FieldOctets.text`), which the answer repeats.
    private let challenge: AuthenticationChallenge
    /// Whether an answer with another nonce came before.
    private var isRenewed = false

    /// Makes the answer to the first challenge that this node can answer. `nil` if libcurl answers the first
    /// one itself, or if none can be answered. `last`: the answer that the request had, in place of
    /// libcurl's; it is renewed once, if only its nonce was wrong.
    init?(toFields fields: [FieldOctets], sendsBody: Bool, after last: DigestAnswer? = nil) {
        let challenges = AuthenticationChallenge.all(in: fields.map(\.text)).filter { $0.scheme == "digest" }
        guard let first = challenges.first, last != nil || !Self.isAnsweredByCurl(first),
            let answer = challenges.lazy.compactMap({ Self($0, sendsBody: sendsBody) }).first
        else { return nil }
        self = answer
        guard let last else { return }
        guard !last.isRenewed, challenge["stale"]?.lowercased() == "true",
            challenge["nonce"] != last.challenge["nonce"]
        else { return nil }
        isRenewed = true
    }

    /// `nil` if the challenge cannot be answered.
    private init?(_ challenge: AuthenticationChallenge, sendsBody: Bool) {
        var name = challenge["algorithm"]?.lowercased() ?? "md5"
        isSession = name.hasSuffix("-sess")
        if isSession { name.removeLast(5) }
        guard challenge.realm != nil, challenge["nonce"] != nil, let hash = Hash(rawValue: name),
            hash.algorithm.isAvailable
        else { return nil }
        self.hash = hash
        self.challenge = challenge
        let offered = Self.qualities(challenge)
        switch offered {
        case nil where isSession: return nil
        case nil: quality = nil
        case let offered? where offered.contains("auth"): quality = "auth"
        case let offered? where offered.contains("auth-int") && !sendsBody: quality = "auth-int"
        case .some: return nil
        }
    }

    /// Makes the answer to the first challenge of a realm that this node can answer, whether or not libcurl
    /// could. `nil` if there is none.
    init?(toFields fields: [FieldOctets], realm: String?, sendsBody: Bool) {
        let challenges = AuthenticationChallenge.all(in: fields.map(\.text)).filter { $0.scheme == "digest" }
        let own = challenges.lazy.filter { challenge in
            let octets = challenge.realm.flatMap { FieldOctets(text: $0)?.bytes } ?? []
            return octets.elementsEqual((realm ?? "").utf8)
        }
        guard let answer = own.compactMap({ Self($0, sendsBody: sendsBody) }).first else { return nil }
        self = answer
    }

    /// Whether a request with a body cannot have this answer.
    var isWithoutBody: Bool { quality == "auth-int" }

    /// Whether a response says that only the nonce of this answer was wrong (RFC 7616 §3.3).
    func isStale(by fields: [FieldOctets]) -> Bool {
        AuthenticationChallenge.all(in: fields.map(\.text)).contains {
            $0.scheme == "digest" && $0["stale"]?.lowercased() == "true" && $0["nonce"] != challenge["nonce"]
        }
    }

    /// Whether only a request without a body can be answered.
    fileprivate static func needsBodyHash(_ fields: [FieldOctets]) -> Bool {
        let challenges = AuthenticationChallenge.all(in: fields.map(\.text)).filter { $0.scheme == "digest" }
        return !challenges.contains { Self($0, sendsBody: true) != nil || isAnsweredByCurl($0) }
            && challenges.contains { Self($0, sendsBody: false) != nil }
    }

    private static func isAnsweredByCurl(_ challenge: AuthenticationChallenge) -> Bool {
        let names = ["md5", "md5-sess", "sha-256", "sha-256-sess"]
        return !challenge.hasSpacedParameter
            && names.contains(challenge["algorithm"]?.lowercased() ?? "md5")
            && qualities(challenge)?.contains("auth") ?? true
    }

    private static func qualities(_ challenge: AuthenticationChallenge) -> [String]? {
        challenge["qop"].map { text in
            text.lowercased().split { $0 == "," || $0 == " " || $0 == "\t" }.map(String.init)
        }
    }

    /// Returns the value of `Authorization`. It repeats the octets of the challenge; user and password are
    /// UTF-8. `uri`: the request's target. `clientNonce`: a new one for each nonce of the server.
    /// `nonceCount`: number of requests with that nonce, this one included.
    func authorization(
        user: String, password: String, method: String, uri: String, clientNonce: String,
        nonceCount: UInt32 = 1
    ) -> FieldOctets? {
        let (user, password) = (FieldOctets(user).text, FieldOctets(password).text)
        let (realm, nonce) = (challenge.realm ?? "", challenge["nonce"] ?? "")
        var secret = digest("\(user):\(realm):\(password)")
        if isSession { secret = digest("\(secret):\(nonce):\(clientNonce)") }
        let request = digest("\(method):\(uri)" + (quality == "auth-int" ? ":\(digest(""))" : ""))
        let digits = String(nonceCount, radix: 16)
        let count = String(repeating: "0", count: 8 - digits.utf8.count) + digits
        let middle = quality.map { "\(count):\(clientNonce):\($0):" } ?? ""
        let response = digest("\(secret):\(nonce):\(middle)\(request)")

        let hidesUser = challenge["userhash"]?.lowercased() == "true"
        var text = "Digest username=\(quoted(hidesUser ? digest("\(user):\(realm)") : user))"
        text += ", realm=\(quoted(realm)), nonce=\(quoted(nonce)), uri=\(quoted(uri))"
        if let quality { text += ", cnonce=\(quoted(clientNonce)), nc=\(count), qop=\(quality)" }
        text += ", response=\(quoted(response))"
        if let algorithm = challenge["algorithm"] { text += ", algorithm=\(algorithm)" }
        if let opaque = challenge["opaque"] { text += ", opaque=\(quoted(opaque))" }
        if hidesUser { text += ", userhash=true" }
        return FieldOctets(text: text)
    }

    /// Returns the hash of the octets that the characters are.
    private func digest(_ text: String) -> String {
        hexEncoded(Digest.of(FieldOctets(text: text)?.bytes ?? Array(text.utf8), hash.algorithm))
    }

    private func quoted(_ text: String) -> String {
        "\"" + text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"") + "\""
    }
}
