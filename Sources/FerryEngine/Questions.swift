import FerryCore

// What the judge would rather not decide by itself.
extension ResponseJudge {
    var followsRedirects: Bool {
        switch spec.redirects.policy {
        case .follow: true
        case .reject: false
        case .ask: !(spec.answers?.rejectsRedirects ?? false)
        }
    }

    /// A redirect that nobody has approved is asked about.
    func asking(_ judgement: Judgement, _ status: Int, _ now: Timestamp) -> Judgement {
        guard spec.redirects.policy == .ask, case .follow(let next) = judgement else { return judgement }
        if spec.answers?.approved.contains(next.url.string) ?? false { return judgement }
        let subject = JobQuestion.Subject.redirect(status: status, JobQuestion.Hop(next))
        return .ask(JobQuestion(subject, askedAt: now, timeout: spec.questions.timeout))
    }

    /// Nil: what the server offers cannot be answered, or it is not the job's own server.
    func question(_ head: ResponseHead, _ hop: Hop, _ now: Timestamp) -> JobQuestion? {
        guard !(spec.answers?.usesDefaultHandling ?? false),
            let own = try? WebURL.parse(spec.request.url), hop.url.isSameOrigin(as: own)
        else { return nil }
        let spaces = JobQuestion.ProtectionSpace.offered(
            by: head.all("www-authenticate"), from: hop.url.origin)
        guard !spaces.isEmpty else { return nil }
        let hadCredential =
            spec.request.connection?.authentication != nil
            || spec.request.headers.contains { equalIgnoringCase($0.name, "authorization") }
        let count = (spec.answers?.failureCount ?? 0) + (hadCredential ? 1 : 0)
        return JobQuestion(
            .challenge(spaces, previousFailureCount: count), askedAt: now, timeout: spec.questions.timeout)
    }
}

extension JobQuestion.Hop {
    init(_ hop: Hop) {
        self.init(
            url: hop.url.string, method: hop.method, sendsBody: hop.sendsBody,
            redirectCount: hop.redirectCount, hasDroppedBody: hop.hasDroppedBody, hasActed: hop.hasActed,
            keepsCredentials: hop.keepsCredentials)
    }
}

extension Hop {
    /// A redirect that was approved; nil when its URL cannot be read.
    init?(_ approved: JobQuestion.Hop) {
        guard let url = try? WebURL.parse(approved.url) else { return nil }
        self.init(
            url: url, method: approved.method, sendsBody: approved.sendsBody,
            redirectCount: approved.redirectCount, hasDroppedBody: approved.hasDroppedBody,
            hasActed: approved.hasActed, keepsCredentials: approved.keepsCredentials)
    }
}
