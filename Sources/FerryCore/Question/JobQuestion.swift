/// What somebody has to say about a job before it goes on. Its row keeps it while it is asked, and the job
/// shows it as `question`.
package struct JobQuestion: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        case begin, redirect, challenge

        package var waitingFor: WaitingFor {
            switch self {
            case .begin: .confirmation
            case .redirect: .redirect
            case .challenge: .challenge
            }
        }
    }

    /// A request that a redirect made of another one (RFC 9110 §15.4).
    package struct Hop: Sendable, Equatable {
        package var url: String
        package var method: String
        package var sendsBody: Bool
        package var redirectCount: Int
        package var hasDroppedBody: Bool
        package var hasActed: Bool
        package var keepsCredentials: Bool
        package init(
            url: String, method: String, sendsBody: Bool, redirectCount: Int, hasDroppedBody: Bool,
            hasActed: Bool, keepsCredentials: Bool
        ) {
            self.url = url
            self.method = method
            self.sendsBody = sendsBody
            self.redirectCount = redirectCount
            self.hasDroppedBody = hasDroppedBody
            self.hasActed = hasActed
            self.keepsCredentials = keepsCredentials
        }
    }

    /// Where a credential would be used (RFC 9110 §11.5).
    package struct ProtectionSpace: Sendable, Equatable {
        package var url: String
        package var realm: String?
        package var method: ConnectionRules.Authentication.Scheme
        /// `url` is the job's own proxy.
        package var isProxy: Bool
        package init(
            url: String, realm: String?, method: ConnectionRules.Authentication.Scheme, isProxy: Bool = false
        ) {
            self.url = url
            self.realm = realm
            self.method = method
            self.isProxy = isProxy
        }
    }

    package enum Subject: Sendable, Equatable {
        case begin
        case redirect(status: Int, Hop)
        /// The strongest first; the first one is asked about. `previousFailureCount`: credentials that were
        /// refused before.
        case challenge([ProtectionSpace], previousFailureCount: Int)
    }

    package var subject: Subject
    package var askedAt: Timestamp
    /// When the job decides by itself.
    package var expiresAt: Timestamp

    package init(_ subject: Subject, askedAt: Timestamp, timeout: Double) {
        self.subject = subject
        self.askedAt = askedAt
        expiresAt = askedAt + timeout
    }

    package var kind: Kind {
        switch subject {
        case .begin: .begin
        case .redirect: .redirect
        case .challenge: .challenge
        }
    }
}

// MARK: Encoding

extension JobQuestion {
    /// The form that is stored (`SealedDocument`).
    package func encode(_ seal: SecretSeal) -> [UInt8] {
        var patch: JSON?
        if case .redirect(_, let hop) = subject, !RedactedURL.isHarmless(hop.url) {
            patch = .object([
                JSON.Member("redirect", .object([JSON.Member("url", .string(hop.url))]))
            ])
        }
        var writer = JSONWriter(reservingCapacity: 256)
        write(into: &writer, isStored: true, isRedacted: true)
        return SealedDocument.make(writer.bytes, secrets: patch, seal)
    }

    /// As a reader sees it.
    func write(into writer: inout JSONWriter, for disclosure: Disclosure) {
        write(into: &writer, isStored: false, isRedacted: disclosure.isRedacted)
    }

    private func write(into writer: inout JSONWriter, isStored: Bool, isRedacted: Bool) {
        writer.beginObject()
        writer.member("kind", kind.rawValue)
        writer.member("asked_at", askedAt)
        writer.member("expires_at", expiresAt)
        writer.name("redirect")
        if case .redirect(let status, let hop) = subject {
            writer.beginObject()
            writer.member("status", status)
            if isStored {
                hop.writeMembers(into: &writer, isRedacted: isRedacted)
            } else {
                hop.writeShown(into: &writer, isRedacted: isRedacted)
            }
            writer.endObject()
        } else {
            writer.null()
        }
        writer.name("challenge")
        if case .challenge(let spaces, let count) = subject, let space = spaces.first {
            writer.beginObject()
            writer.name("protection_space")
            space.write(into: &writer)
            writer.member("previous_failure_count", count)
            if isStored {
                writer.name("others")
                writer.beginArray()
                for other in spaces.dropFirst() { other.write(into: &writer) }
                writer.endArray()
            }
            writer.endObject()
        } else {
            writer.null()
        }
        writer.endObject()
    }

    /// Reads what `encode` wrote, of what is encrypted only the redacted form.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) { try self.init(try StoredObject(storedJSON)) }

    /// The same with what is encrypted. Throws if that cannot be decrypted.
    package init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
        try self.init(try StoredObject(storedJSON, opening: seal))
    }

    private init(_ stored: StoredObject) throws(StoredJSONError) {
        let asked = try stored.need(try stored.timestamp("asked_at"), "asked_at")
        let expires = try stored.need(try stored.timestamp("expires_at"), "expires_at")
        let kind = try stored.need(stored.string("kind").flatMap(Kind.init), "kind")
        switch kind {
        case .begin: self.init(.begin, askedAt: asked, timeout: 0)
        case .redirect:
            let redirect = try stored.need(stored.object("redirect"), "redirect")
            let status = Int(clamping: redirect.integer("status") ?? 0)
            self.init(.redirect(status: status, try Hop(redirect)), askedAt: asked, timeout: 0)
        case .challenge:
            let challenge = try stored.need(stored.object("challenge"), "challenge")
            let first = try stored.need(challenge.object("protection_space"), "protection_space")
            var spaces = [try ProtectionSpace(first)]
            for other in challenge.array("others") { spaces.append(try ProtectionSpace(StoredObject(other))) }
            let count = Int(clamping: challenge.integer("previous_failure_count") ?? 0)
            self.init(.challenge(spaces, previousFailureCount: count), askedAt: asked, timeout: 0)
        }
        expiresAt = expires
    }
}

extension JobQuestion.Hop {
    fileprivate func writeShown(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.member("url", isRedacted ? RedactedURL.text(of: url) : url)
        writer.member("method", method)
    }

    func writeMembers(into writer: inout JSONWriter, isRedacted: Bool) {
        writeShown(into: &writer, isRedacted: isRedacted)
        writer.member("sends_body", sendsBody)
        writer.member("redirect_count", redirectCount)
        writer.member("has_dropped_body", hasDroppedBody)
        writer.member("has_acted", hasActed)
        writer.member("keeps_credentials", keepsCredentials)
    }

    init(_ stored: StoredObject) throws(StoredJSONError) {
        self.init(
            url: try stored.need(stored.string("url"), "url"),
            method: try stored.need(stored.string("method"), "method"), sendsBody: stored.bool("sends_body"),
            redirectCount: Int(clamping: stored.integer("redirect_count") ?? 0),
            hasDroppedBody: stored.bool("has_dropped_body"), hasActed: stored.bool("has_acted"),
            keepsCredentials: stored.bool("keeps_credentials"))
    }
}

extension JobQuestion.ProtectionSpace {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("url", url)
        writer.memberOrNull("realm", realm)
        writer.member("authentication_method", method.rawValue)
        writer.member("proxy", isProxy)
        writer.endObject()
    }

    fileprivate init(_ stored: StoredObject) throws(StoredJSONError) {
        self.init(
            url: try stored.need(stored.string("url"), "url"), realm: stored.string("realm"),
            method: try stored.need(
                stored.string("authentication_method").flatMap(ConnectionRules.Authentication.Scheme.init),
                "authentication_method"), isProxy: stored.bool("proxy"))
    }
}

extension EventType {
    /// What an answer to the event's delivery may decide.
    package var question: JobQuestion.Kind? {
        switch self {
        case .jobWillBegin: .begin
        case .jobRedirect: .redirect
        case .jobChallenge: .challenge
        default: nil
        }
    }
}

extension Delivery {
    /// What the receiver's answer may decide.
    package var question: JobQuestion.Kind? { EventType(rawValue: type)?.question }

    /// Which question the receiver was shown.
    package var askedAt: Timestamp? {
        guard let job = try? JSON.parse(jobJSON) else { return nil }
        return job["question"]?["asked_at"]?.string.flatMap { Timestamp(rfc3339: $0) }
    }
}
