import FerryCore

// Requests that outlast their attempt, while a client is asked or the job waits.

extension JobQuestion.Hop {
    init(_ hop: Hop) {
        self.init(
            url: hop.target.string, method: hop.method, sendsBody: hop.sendsBody,
            redirectCount: hop.redirectCount, hasDroppedBody: hop.hasDroppedBody, hasActed: hop.hasActed,
            keepsCredentials: hop.keepsCredentials)
    }
}

extension Hop {
    /// The hop of an approved redirect; `nil` if its URL is invalid.
    init?(_ approved: JobQuestion.Hop) {
        // Without the hop the job starts at its own URL and follows the approved redirect again.
        guard let target = try? WebURL.unknown.resolving(approved.url) else { return nil }
        self.init(
            url: target.url, method: approved.method, sendsBody: approved.sendsBody,
            redirectCount: approved.redirectCount, hasDroppedBody: approved.hasDroppedBody,
            hasActed: approved.hasActed, keepsCredentials: approved.keepsCredentials,
            userInformation: target.userInformation)
    }
}

extension DelayedRedirect {
    /// `attempt`: the one that the redirect ends.
    init(_ hop: Hop, at place: Int = 0, after attempt: Attempt) {
        self.init(
            JobQuestion.Hop(hop), at: place, cookies: hop.cookies.cookies, attempt: attempt.number + 1)
    }
}

extension Attempt {
    /// The request of a redirect with which the attempt begins; `nil`: the job's own.
    var firstHop: Hop? {
        guard let delayedRedirect else { return spec.startHop(attempt: number).flatMap { Hop($0) } }
        var hop = Hop(delayedRedirect.hop)
        hop?.cookies = RedirectCookies(delayedRedirect.cookies)
        return hop
    }
}
