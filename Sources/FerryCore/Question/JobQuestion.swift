/// A question that a client must answer before a job continues. The job's row stores the open question, and
/// the job shows it as `question`.
package struct JobQuestion: Sendable, Equatable {
    /// Kind of a question.
    package enum Kind: String, Sendable, CaseIterable {
        case begin, redirect, challenge

        /// What a job with such a question waits for.
        package var waitingFor: WaitingFor {
            switch self {
            case .begin: .confirmation
            case .redirect: .redirect
            case .challenge: .challenge
            }
        }
    }

    /// A request that follows a redirect (RFC 9110 §15.4).
    package struct Hop: Sendable, Equatable {
        /// URL and method of the request.
        package var url: String
        package var method: String
        /// `true` if the body is sent again.
        package var sendsBody: Bool
        /// Redirects so far.
        package var redirectCount: Int
        /// `true` if a redirect has changed the request to a GET without a body.
        package var hasDroppedBody: Bool
        /// `true` if an earlier request may have had an effect.
        package var hasActed: Bool
        /// `true` if the credentials may be sent to this URL.
        package var keepsCredentials: Bool
        /// Creates a request.
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

    /// Protection space of a credential (RFC 9110 §11.5).
    package struct ProtectionSpace: Sendable, Equatable {
        /// URL of the request, or of the proxy.
        package var url: String
        /// Realm, or `nil`.
        package var realm: String?
        /// Scheme of the challenge.
        package var method: ConnectionRules.Authentication.Scheme
        /// `true` if `url` is the job's own proxy.
        package var isProxy: Bool
        /// Creates a space.
        package init(
            url: String, realm: String?, method: ConnectionRules.Authentication.Scheme, isProxy: Bool = false
        ) {
            self.url = url
            self.realm = realm
            self.method = method
            self.isProxy = isProxy
        }
    }

    /// What a question is about.
    package enum Subject: Sendable, Equatable {
        case begin
        case redirect(status: Int, Hop)
        /// Spaces by strength; the question is about the first one. `previousFailureCount`: number of refused
        /// credentials.
        case challenge([ProtectionSpace], previousFailureCount: Int)
    }

    /// What the question is about.
    package var subject: Subject
    /// Time of the question.
    package var askedAt: Timestamp
    /// Time at which the default answer applies.
    package var expiresAt: Timestamp

    /// Creates a question; `timeout` in seconds.
    package init(_ subject: Subject, askedAt: Timestamp, timeout: Double) {
        self.subject = subject
        self.askedAt = askedAt
        expiresAt = askedAt + timeout
    }

    /// Kind of the question.
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
    /// Returns the stored form (`SealedDocument`).
    package func encode(_ seal: SecretSeal) -> [UInt8] {
        var patch: JSON?
        if case .redirect(_, let hop) = subject, !RedactedURL.hasNoSecrets(hop.url) {
            patch = .object([
                JSON.Member("redirect", .object([JSON.Member("url", .string(hop.url))]))
            ])
        }
        var writer = JSONWriter(reservingCapacity: 256)
        write(into: &writer, isStored: true, isRedacted: true)
        return SealedDocument.make(writer.bytes, secrets: patch, seal)
    }

    /// Writes the question as the reader may see it.
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

    /// Reads what `encode` returned; secret values are redacted.
    package init(storedJSON: [UInt8]) throws(StoredJSONError) { try self.init(try StoredObject(storedJSON)) }

    /// Reads what `encode` returned with its secret values. Throws if they cannot be decrypted.
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
    /// The question that the event asks, or `nil`. The response to its delivery may contain the answer.
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
    /// The question that the response may answer, or `nil`.
    package var question: JobQuestion.Kind? { EventType(rawValue: type)?.question }

    /// `asked_at` of the question in the delivery, or `nil`.
    package var askedAt: Timestamp? {
        // Written by Ferry; without it the answer counts for the open question.
        guard let job = try? JSON.parse(jobJSON) else { return nil }
        return job["question"]?["asked_at"]?.string.flatMap { Timestamp(rfc3339: $0) }
    }
}
