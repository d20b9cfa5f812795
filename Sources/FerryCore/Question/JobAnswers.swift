/// What holds when nobody answers a question about a job, and when that is so.
package struct QuestionRules: Sendable, Equatable {
    package enum Begin: String, Sendable, CaseIterable {
        case continueLoading = "continue_loading"
        case cancel
    }
    package enum Redirect: String, Sendable, CaseIterable { case follow, reject, cancel }
    package enum Challenge: String, Sendable, CaseIterable {
        case performDefaultHandling = "perform_default_handling"
        case cancel
    }

    /// Seconds.
    package var timeout = 600.0
    package var begin = Begin.continueLoading
    package var redirect = Redirect.reject
    package var challenge = Challenge.performDefaultHandling
    package init() {}

    /// What a job gets that says nothing.
    package static let standard = QuestionRules()

    /// What is answered when nobody has.
    package func answer(to kind: JobQuestion.Kind) -> JobAnswer {
        let name =
            switch kind {
            case .begin: begin.rawValue
            case .redirect: redirect.rawValue
            case .challenge: challenge.rawValue
            }
        return JobAnswer(JobAnswer.Disposition(rawValue: name) ?? .cancel)
    }
}

/// One answer to a question about a job.
package struct JobAnswer: Sendable, Equatable {
    package enum Disposition: String, Sendable, CaseIterable {
        case continueLoading = "continue_loading"
        case useNewRequest = "use_new_request"
        case follow, reject
        case useCredential = "use_credential"
        case performDefaultHandling = "perform_default_handling"
        case rejectProtectionSpace = "reject_protection_space"
        case cancel
    }
    package struct Credential: Sendable, Equatable {
        package var user: String?
        /// The password, or the token.
        package var secret: String
        package init(user: String?, secret: String) {
            self.user = user
            self.secret = secret
        }
    }

    package let disposition: Disposition
    package let credential: Credential?
    /// Of `use_new_request`: a merge patch of the request.
    package let request: JSON?
    /// Of the question that is answered; nil: of the one that is open.
    package let askedAt: Timestamp?

    package init(
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
    package var dispositions: [JobAnswer.Disposition] {
        switch self {
        case .begin: [.continueLoading, .useNewRequest, .cancel]
        case .redirect: [.follow, .reject, .useNewRequest, .cancel]
        case .challenge: [.useCredential, .performDefaultHandling, .rejectProtectionSpace, .cancel]
        }
    }
}

/// Who gave the last answer: `answered_by`.
package struct AnswerSource: Sendable, Equatable {
    package enum Way: String, Sendable, CaseIterable { case api, webhook, timeout }
    package var way: Way
    /// The API key or the delivery; nil for a timeout.
    package var name: String?
    package init(_ way: Way, name: String? = nil) {
        self.way = way
        self.name = name
    }
}

/// What has been answered so far, as far as later attempts need it. Kept with the accepted fields and never
/// shown, but for `last`.
package struct JobAnswers: Sendable, Equatable {
    package struct Last: Sendable, Equatable {
        package var kind: JobQuestion.Kind
        package var disposition: JobAnswer.Disposition
        package var source: AnswerSource
        package var at: Timestamp
    }

    package var isConfirmed = false
    /// Where redirects may lead: as many as one attempt can follow, the latest.
    package private(set) var approved: [String] = []
    /// Where the attempt of this number begins.
    package var start: JobQuestion.Hop?
    package var startAttempt: Int32 = 0
    package var rejectsRedirects = false
    package var usesDefaultHandling = false
    /// Credentials that were refused.
    package var failureCount = 0
    /// The same, of those for the job's proxy.
    package var proxyFailureCount = 0
    package var last: Last?
    package init() {}

    /// A server that leads elsewhere each time does not make its job longer for ever.
    package mutating func approve(_ url: String) {
        approved.append(url)
        approved.removeFirst(max(0, approved.count - Limits.redirectCountMax))
    }
}

extension JobSpec {
    /// Nil: nothing was asked yet.
    package var answers: JobAnswers? {
        get { boxedAnswers?.value }
        set { boxedAnswers = newValue.map(Boxed.init) }
    }

    /// Whether somebody has to confirm the job before it begins.
    package var awaitsConfirmation: Bool {
        schedule.confirmsBeforeBegin && !(answers?.isConfirmed ?? false)
    }

    /// The redirect that was approved for this attempt.
    package func startHop(attempt: Int32) -> JobQuestion.Hop? {
        guard let answers, answers.startAttempt == attempt else { return nil }
        return answers.start
    }
}

// MARK: Encoding

extension QuestionRules {
    func write(into writer: inout JSONWriter) {
        writer.name("questions")
        writer.beginObject()
        writer.member("timeout", timeout)
        writer.member("begin", begin.rawValue)
        writer.member("redirect", redirect.rawValue)
        writer.member("challenge", challenge.rawValue)
        writer.endObject()
    }

    init(_ stored: StoredObject?) {
        guard let stored else { return }
        timeout = stored.double("timeout") ?? timeout
        begin = stored.string("begin").flatMap(Begin.init) ?? begin
        redirect = stored.string("redirect").flatMap(Redirect.init) ?? redirect
        challenge = stored.string("challenge").flatMap(Challenge.init) ?? challenge
    }
}

extension JobAnswers.Last {
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("question", kind.rawValue)
        writer.member("disposition", disposition.rawValue)
        writer.member("by", source.way.rawValue)
        writer.memberOrNull("name", source.name)
        writer.member("at", at)
        writer.endObject()
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
    /// What is not harmless of the stored form, as a merge patch of it; nil: nothing.
    var secretValues: JSON? {
        var members: [JSON.Member] = []
        if approved.contains(where: { !RedactedURL.isHarmless($0) }) {
            members.append(JSON.Member("approved", .array(approved.map { .string($0) })))
        }
        if let start, !RedactedURL.isHarmless(start.url) {
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
            writer.beginObject()
            start.writeMembers(into: &writer, isRedacted: isRedacted)
            writer.endObject()
            writer.member("start_attempt", startAttempt)
        }
        writer.member("rejects_redirects", rejectsRedirects)
        writer.member("default_handling", usesDefaultHandling)
        writer.member("failure_count", failureCount)
        if proxyFailureCount > 0 { writer.member("proxy_failure_count", proxyFailureCount) }
        if let last {
            writer.name("last")
            last.write(into: &writer)
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
