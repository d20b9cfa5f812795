/// A question that a client must answer before a job continues. The job's row stores the open question, and
/// the job shows it as `question`.
public struct JobQuestion: Sendable, Equatable {
    /// Kind of a question.
    public enum Kind: String, ShownChoice {
        case begin, redirect, challenge
        case urlExpired = "url_expired"

        /// Condition for which a job with such a question waits.
        public var waitingFor: WaitingFor {
            switch self {
            case .begin: .confirmation
            case .redirect: .redirect
            case .challenge: .challenge
            case .urlExpired: .urlExpired
            }
        }
    }

    /// Head of the response that a question is about, without values that may be secret.
    public struct Response: Sendable, Equatable {
        /// Status code.
        public let status: Int
        /// Header fields in order, as many as `Limits.questionHeaderByteCountMax` allows; values of fields
        /// that may carry a credential are empty.
        public let headers: [JobSpec.Pair]

        /// Creates a head of the response's lines.
        public init(status: Int, headers: [JobSpec.Pair]) {
            self.status = status
            var byteCount = 0
            self.headers = headers.prefix { line in
                byteCount += line.name.utf8.count + line.value.utf8.count
                return byteCount <= Limits.questionHeaderByteCountMax
            }.map { NonSecretFields.contains($0.name) ? $0 : JobSpec.Pair($0.name, "") }
        }
    }

    /// A request that follows a redirect (RFC 9110 §15.4).
    public struct Hop: Sendable, Equatable {
        /// URL and method of the request.
        public var url: String
        public var method: String
        /// `true` if the body is sent again.
        public var sendsBody: Bool
        /// Redirects so far.
        public var redirectCount: Int
        /// `true` if a redirect has changed the request to a GET without a body.
        public var hasDroppedBody: Bool
        /// `true` if an earlier request may have had an effect.
        public var hasActed: Bool
        /// `true` if the credentials may be sent to this URL.
        public var keepsCredentials: Bool
        /// Creates a request.
        public init(
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
    public struct ProtectionSpace: Sendable, Equatable {
        /// URL of the request, or of the proxy.
        public var url: String
        /// Realm, or `nil`.
        public var realm: String?
        /// Scheme of the challenge.
        public var method: ConnectionRules.Authentication.Scheme
        /// `true` if `url` is the job's own proxy.
        public var isProxy: Bool
        /// Creates a space.
        public init(
            url: String, realm: String?, method: ConnectionRules.Authentication.Scheme, isProxy: Bool = false
        ) {
            self.url = url
            self.realm = realm
            self.method = method
            self.isProxy = isProxy
        }
    }

    /// The session's credential that fits a challenge.
    public struct ProposedCredential: Sendable, Equatable {
        /// Name of the credential in its session.
        public var name: String
        /// Name of the user; empty with a token.
        public var user: String
        /// Creates a proposal.
        public init(name: String, user: String) {
            self.name = name
            self.user = user
        }
    }

    /// Subject of a question.
    public enum Subject: Sendable, Equatable {
        case begin
        case redirect(status: Int, Hop)
        /// Spaces by strength; the question is about the first one. `previousFailureCount`: number of refused
        /// credentials.
        case challenge([ProtectionSpace], previousFailureCount: Int)
        /// The server refuses the URL or the credential.
        case urlExpired
    }

    /// Subject of the question.
    public var subject: Subject
    /// The response that the question is about, or `nil` if there is none, or libcurl does not report it.
    public var response: Response?
    /// The session's credential that fits a challenge, and that the server has refused; `nil` if there is
    /// none.
    public var proposedCredential: ProposedCredential?
    /// Time of the question.
    public var askedAt: Timestamp
    /// Time at which the default answer applies.
    public var expiresAt: Timestamp

    /// Creates a question; `timeout` in seconds.
    public init(_ subject: Subject, about response: Response? = nil, askedAt: Timestamp, timeout: Double) {
        self.subject = subject
        self.response = response
        self.askedAt = askedAt
        expiresAt = askedAt + timeout
    }

    /// Kind of the question.
    public var kind: Kind {
        switch subject {
        case .begin: .begin
        case .redirect: .redirect
        case .challenge: .challenge
        case .urlExpired: .urlExpired
        }
    }
}

extension JobSpec {
    /// Returns the question whether the job may begin if it is asked as the job is accepted: the job is to be
    /// confirmed and waits for nothing else; `nil` otherwise.
    public func firstQuestion(createdAt: Timestamp) -> JobQuestion? {
        guard schedule.confirmsBeforeBegin, schedule.dependencies.isEmpty, !startsSuspended,
            schedule.earliestBeginAt.map({ $0 <= createdAt }) ?? true
        else { return nil }
        return questions.question(askedAt: createdAt)
    }
}

extension QuestionRules {
    /// Returns the question whether a job may begin.
    public func question(askedAt: Timestamp) -> JobQuestion {
        JobQuestion(.begin, askedAt: askedAt, timeout: timeout)
    }
}

// MARK: Encoding

extension JobQuestion {
    /// Stored form without secret values. The question whether a job may begin has none.
    public var encodedWithoutSecrets: [UInt8] {
        SealedDocument.make(ShownQuestion(self, isStored: true).shown(reservingCapacity: 256))
    }

    /// Returns the stored form (`SealedDocument`).
    public func encode(_ seal: SecretSeal) -> [UInt8] {
        var patch: JSON?
        if case .redirect(_, let hop) = subject, !RedactedURL.hasNoSecrets(hop.url) {
            patch = .object([
                JSON.Member("redirect", .object([JSON.Member("url", .string(hop.url))]))
            ])
        }
        return SealedDocument.make(
            ShownQuestion(self, isStored: true).shown(reservingCapacity: 256), secrets: patch, seal)
    }

    /// Reads what `encode` returned; secret values are redacted.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) { try self.init(try StoredObject(storedJSON)) }

    /// Reads what `encode` returned with its secret values. Throws if they cannot be decrypted.
    public init(storedJSON: [UInt8], opening seal: SecretSeal) throws(StoredJSONError) {
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
            proposedCredential = challenge.object("proposed_credential").map(ProposedCredential.init)
        case .urlExpired: self.init(.urlExpired, askedAt: asked, timeout: 0)
        }
        expiresAt = expires
        response = stored.object("response").map(Response.init)
    }
}

extension JobQuestion.Response: ShownObject {
    public static let summary = "The head of the response that a question is about."
    public static let schemaName = "QuestionResponse"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("status", \.status, "HTTP status code.")
        list.member(
            "header_fields", { ShownHeaderLines($0.headers) },
            "Header fields in order, at most 4 KiB of them. Values of fields that may carry a credential are "
                + "hidden.")
    }

    fileprivate init(_ stored: StoredObject) {
        self.init(status: Int(clamping: stored.integer("status") ?? 0), headers: stored.headerFields)
    }
}

extension JobQuestion.Hop {
    init(_ stored: StoredObject) throws(StoredJSONError) {
        self.init(
            url: try stored.need(stored.string("url"), "url"),
            method: try stored.need(stored.string("method"), "method"), sendsBody: stored.bool("sends_body"),
            redirectCount: Int(clamping: stored.integer("redirect_count") ?? 0),
            hasDroppedBody: stored.bool("has_dropped_body"), hasActed: stored.bool("has_acted"),
            keepsCredentials: stored.bool("keeps_credentials"))
    }
}

extension JobQuestion.ProtectionSpace: ShownObject {
    public static let summary = "Protection space of a credential (RFC 9110 section 11.5)."
    public static let schemaName = "ProtectionSpace"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("url", \.url, "URL of the request, or of the job's proxy.")
        list.member("realm", \.realm, "Realm of the challenge, or null if not known.")
        list.member("authentication_method", \.method, "Authentication scheme of the challenge.")
        list.member("proxy", \.isProxy, "true if the challenge is of the job's own proxy.")
    }

    fileprivate init(_ stored: StoredObject) throws(StoredJSONError) {
        self.init(
            url: try stored.need(stored.string("url"), "url"), realm: stored.string("realm"),
            method: try stored.need(
                stored.string("authentication_method").flatMap(ConnectionRules.Authentication.Scheme.init),
                "authentication_method"), isProxy: stored.bool("proxy"))
    }
}

extension JobQuestion.ProposedCredential: ShownObject {
    public static let summary = "A credential of the job's session, without its secrets."
    public static let schemaName = "ProposedCredential"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("name", \.name, "Name of the credential.")
        list.member("user", \.user, "Name of the user; empty with a token.")
    }

    fileprivate init(_ stored: StoredObject) {
        self.init(name: stored.string("name") ?? "", user: stored.string("user") ?? "")
    }
}

/// The `question` object of the API, or its stored form, which has more members.
public struct ShownQuestion: ShownObject {
    public static let summary = "A question that a client must answer before the job continues."
    public static let schemaName = "Question"

    private let question: JobQuestion
    private let isStored: Bool

    init(_ question: JobQuestion, isStored: Bool = false) {
        self.question = question
        self.isStored = isStored
    }

    private var redirect: Redirect? {
        guard case .redirect(let status, let hop) = question.subject else { return nil }
        return Redirect(status: status, request: ShownHop(hop: hop, isStored: isStored))
    }

    private var challenge: Challenge? {
        guard case .challenge(let spaces, let count) = question.subject, let space = spaces.first else {
            return nil
        }
        return Challenge(
            space: space, previousFailureCount: count, proposed: question.proposedCredential,
            others: isStored ? Array(spaces.dropFirst()) : nil)
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("kind", \.question.kind, "Kind of the question.")
        list.member("asked_at", \.question.askedAt, "Time of the question.")
        list.member("expires_at", \.question.expiresAt, "Time at which the default answer applies.")
        list.member(
            "response", \.question.response,
            "The head of the response that the question is about, or null if there is none.")
        list.member("redirect", \.redirect, "The redirect, or null for another kind of question.")
        list.member("challenge", \.challenge, "The challenge, or null for another kind of question.")
    }

    private struct Redirect: ShownObject {
        static let summary = "A redirect that a job asks about."
        static let schemaName = "QuestionRedirect"

        let status: Int
        let request: ShownHop

        static func members(_ list: inout some MemberVisitor<Self>) {
            list.member("status", \.status, "HTTP status code of the redirect.")
            list.include(\.request)
        }
    }

    private struct Challenge: ShownObject {
        static let summary = "A challenge that a job asks about."
        static let schemaName = "QuestionChallenge"

        let space: JobQuestion.ProtectionSpace
        let previousFailureCount: Int
        let proposed: JobQuestion.ProposedCredential?
        let others: [JobQuestion.ProtectionSpace]?

        static func members(_ list: inout some MemberVisitor<Self>) {
            list.member("protection_space", \.space, "The protection space of the challenge.")
            list.member(
                "previous_failure_count", \.previousFailureCount,
                "Number of credentials that were refused before.", [.minimum(0)])
            list.member(
                "proposed_credential", \.proposed,
                "The session's credential that fits the challenge, and was refused; null if there is none.")
            list.stored("others", \.others)
        }
    }
}

/// The request of a redirect as a question shows it, or its stored form.
struct ShownHop: ShownObject {
    static let summary = "A request that follows a redirect."
    static let schemaName = "ShownHop"

    let hop: JobQuestion.Hop
    let isStored: Bool

    private var stored: JobQuestion.Hop? { isStored ? hop : nil }

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("url", { URLText($0.hop.url) }, "URL of the redirect target.")
        list.member("method", \.hop.method, "Method of the request to the redirect target.")
        list.stored("sends_body", \.stored?.sendsBody)
        list.stored("redirect_count", \.stored?.redirectCount)
        list.stored("has_dropped_body", \.stored?.hasDroppedBody)
        list.stored("has_acted", \.stored?.hasActed)
        list.stored("keeps_credentials", \.stored?.keepsCredentials)
    }
}

extension EventType {
    /// The question that the event asks, or `nil`. The response to its delivery may contain the answer.
    public var question: JobQuestion.Kind? {
        switch self {
        case .jobWillBegin: .begin
        case .jobRedirect: .redirect
        case .jobChallenge: .challenge
        case .jobURLExpired: .urlExpired
        default: nil
        }
    }
}
