/// Rules for questions about a job that no client answers.
public struct QuestionRules: FieldObject {
    public static let summary = "What applies if no client answers a question about the job."
    public static let schemaName = "QuestionRules"
    public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
    /// Default answer before the job begins.
    public enum Begin: String, FieldChoice {
        case continueLoading = "continue_loading"
        case cancel
    }
    /// Default answer to a redirect.
    public enum Redirect: String, FieldChoice { case follow, reject, cancel }
    /// Default answer to an authentication challenge.
    public enum Challenge: String, FieldChoice {
        case performDefaultHandling = "perform_default_handling"
        case cancel
    }

    /// Default answer if the URL is outdated.
    public enum ExpiredURL: String, FieldChoice {
        case performDefaultHandling = "perform_default_handling"
        case cancel
    }

    /// Seconds until the default answer applies.
    public var timeout = 600.0
    /// Default answers by kind of question.
    public var begin = Begin.continueLoading
    public var redirect = Redirect.reject
    public var challenge = Challenge.performDefaultHandling
    public var urlExpired = ExpiredURL.performDefaultHandling
    /// Creates the default rules.
    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "timeout", &timeout, 1...Limits.questionSecondsMax, .of(unit: .seconds),
            "Time until the default answer applies.")
        visitor.field("begin", &begin, .plain, "Default answer before the job begins.")
        visitor.field("redirect", &redirect, .plain, "Default answer to a redirect.")
        visitor.field("challenge", &challenge, .plain, "Default answer to an authentication challenge.")
        visitor.field(
            "url_expired", &urlExpired, .plain,
            "Default answer if the URL is outdated. perform_default_handling: the job fails.")
    }

    /// Returns the default answer to a question.
    public func answer(to kind: JobQuestion.Kind) -> JobAnswer {
        let name =
            switch kind {
            case .begin: begin.rawValue
            case .redirect: redirect.rawValue
            case .challenge: challenge.rawValue
            case .urlExpired: urlExpired.rawValue
            }
        return JobAnswer(JobAnswer.Disposition(rawValue: name) ?? .cancel)
    }
}

/// An answer to a question about a job.
public struct JobAnswer: Sendable, Equatable {
    /// Decision of an answer.
    public enum Disposition: String, Sendable, CaseIterable {
        case continueLoading = "continue_loading"
        case useNewRequest = "use_new_request"
        case follow, reject
        case useCredential = "use_credential"
        case performDefaultHandling = "perform_default_handling"
        case rejectProtectionSpace = "reject_protection_space"
        case cancel
    }
    /// Credential of an answer.
    public struct Credential: Sendable, Equatable {
        /// User, or `nil` with a token.
        public var user: String?
        /// Password or token.
        public var secret: String
    }

    /// The decision.
    public let disposition: Disposition
    /// The credential of `use_credential`, or `nil`.
    public let credential: Credential?
    /// Merge patch of the request, with `use_new_request` only.
    public let request: JSON?
    /// `asked_at` of the question that is answered, or `nil` for the open one.
    public let askedAt: Timestamp?

    /// Creates an answer.
    public init(
        _ disposition: Disposition, credential: Credential? = nil, request: JSON? = nil,
        askedAt: Timestamp? = nil
    ) {
        self.disposition = disposition
        self.credential = credential
        self.request = request
        self.askedAt = askedAt
    }
}

extension JobQuestion.Kind {
    /// Decisions that a question of this kind allows.
    public var dispositions: [JobAnswer.Disposition] {
        switch self {
        case .begin: [.continueLoading, .useNewRequest, .cancel]
        case .redirect: [.follow, .reject, .useNewRequest, .cancel]
        case .challenge: [.useCredential, .performDefaultHandling, .rejectProtectionSpace, .cancel]
        case .urlExpired: [.useNewRequest, .cancel]
        }
    }
}

/// Source of the last answer: `answered_by`.
public struct AnswerSource: Sendable, Equatable {
    /// Way in which an answer came.
    public enum Way: String, ShownChoice { case api, webhook, timeout }
    /// Way in which the answer came.
    public var way: Way
    /// API key or delivery, or `nil` for a timeout.
    public var name: String?
    /// Creates a source.
    public init(_ way: Way, name: String? = nil) {
        self.way = way
        self.name = name
    }
}

/// The answers so far, as far as later attempts need them. Stored with the accepted fields; only `last` is
/// shown.
public struct JobAnswers: Sendable, Equatable {
    /// The last answer.
    public struct Last: Sendable, Equatable {
        /// Kind of the question.
        public var kind: JobQuestion.Kind
        /// Decision.
        public var disposition: JobAnswer.Disposition
        /// Source of the answer.
        public var source: AnswerSource
        /// Time of the answer.
        public var at: Timestamp
    }

    /// `true` if a client has confirmed the job.
    public var isConfirmed = false
    /// URLs of approved redirects: the latest, as many as one attempt can follow.
    public private(set) var approved: [String] = []
    /// Request with which attempt `startAttempt` begins, after an approved redirect.
    public var start: JobQuestion.Hop?
    public var startAttempt: Int32 = 0
    /// `true` if redirects are not followed.
    public var rejectsRedirects = false
    /// `true` if challenges are not asked about.
    public var usesDefaultHandling = false
    /// Number of credentials that were refused.
    public var failureCount = 0
    /// Number of credentials that the job's proxy refused.
    public var proxyFailureCount = 0
    /// The last answer, or `nil`.
    public var last: Last?
    /// Creates an empty collection.
    public init() {}

    /// Approves a redirect. Bounded, so that a server that redirects elsewhere each time does not enlarge the
    /// job forever.
    public mutating func approve(_ url: String) {
        approved.append(url)
        approved.removeFirst(max(0, approved.count - Limits.redirectCountMax))
    }
}

extension JobSpec {
    /// The answers, or `nil` if no question was answered yet.
    public var answers: JobAnswers? {
        get { boxedAnswers?.value }
        set { boxedAnswers = newValue.map(Boxed.init) }
    }

    /// `true` if a client must confirm the job before it begins.
    public var awaitsConfirmation: Bool {
        schedule.confirmsBeforeBegin && !(answers?.isConfirmed ?? false)
    }

    /// Returns the approved redirect with which the attempt begins, or `nil`.
    public func startHop(attempt: Int32) -> JobQuestion.Hop? {
        guard let answers, answers.startAttempt == attempt else { return nil }
        return answers.start
    }
}

// MARK: Encoding

extension JobAnswers.Last: ShownObject {
    public static let summary = "The last answer about the job, and its source."
    public static let schemaName = "AnsweredBy"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("question", \.kind, "Kind of the question.")
        list.member("disposition", \.disposition, "Decision of the answer.")
        list.member(
            "by", \.source.way,
            "Source of the answer: a request to the API, a response of a webhook, or the timeout of the "
                + "question.")
        list.member("name", \.source.name, "The API key or the delivery, or null after a timeout.")
        list.member("at", \.at, "Time of the answer.")
    }

    fileprivate init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        kind = try stored.need(stored.string("question").flatMap(JobQuestion.Kind.init), "question")
        disposition = try stored.need(
            stored.string("disposition").flatMap(JobAnswer.Disposition.init), "disposition")
        source = AnswerSource(
            try stored.need(stored.string("by").flatMap(AnswerSource.Way.init), "by"),
            name: stored.string("name"))
        at = try stored.need(try stored.timestamp("at"), "at")
    }
}

extension JobAnswers {
    /// The secret values of the stored form as a merge patch, or `nil` if there are none.
    var secretValues: JSON? {
        var members: [JSON.Member] = []
        if approved.contains(where: { !RedactedURL.hasNoSecrets($0) }) {
            members.append(JSON.Member("approved", .array(approved.map { .string($0) })))
        }
        if let start, !RedactedURL.hasNoSecrets(start.url) {
            members.append(JSON.Member("start", .object([JSON.Member("url", .string(start.url))])))
        }
        return members.isEmpty ? nil : .object(members)
    }

    func store(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.name("answers")
        writer.beginObject()
        writer.member("confirmed", isConfirmed)
        writer.name("approved")
        writer.beginArray()
        for url in approved { writer.value(isRedacted ? RedactedURL.text(of: url) : url) }
        writer.endArray()
        if let start {
            writer.name("start")
            ShownHop(hop: start, isStored: true).show(into: &writer, isRedacted: isRedacted)
            writer.member("start_attempt", startAttempt)
        }
        writer.member("rejects_redirects", rejectsRedirects)
        writer.member("default_handling", usesDefaultHandling)
        writer.member("failure_count", failureCount)
        if proxyFailureCount > 0 { writer.member("proxy_failure_count", proxyFailureCount) }
        if let last {
            writer.name("last")
            last.show(into: &writer, isRedacted: isRedacted)
        }
        writer.endObject()
    }

    init?(_ stored: StoredObject?) throws(StoredJSONError) {
        guard let stored else { return nil }
        isConfirmed = stored.bool("confirmed")
        approved = stored.strings("approved")
        start = try stored.object("start").map(JobQuestion.Hop.init)
        startAttempt = Int32(clamping: stored.integer("start_attempt") ?? 0)
        rejectsRedirects = stored.bool("rejects_redirects")
        usesDefaultHandling = stored.bool("default_handling")
        failureCount = Int(clamping: stored.integer("failure_count") ?? 0)
        proxyFailureCount = Int(clamping: stored.integer("proxy_failure_count") ?? 0)
        last = try Last(stored.object("last"))
    }
}
