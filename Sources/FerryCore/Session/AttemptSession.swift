/// A configured session, as far as one attempt uses it: its cookies and connections. Immutable; may be used
/// on any thread.
public final class AttemptSession: Sendable {
    /// The cookies of the session.
    public let cookies: CookieStorage
    private let record: SessionRecord
    /// URLSession's `httpShouldHandleCookies`.
    private let handlesCookies: Bool
    private let mainDocument: WebURL?

    init(_ record: SessionRecord, _ cookies: CookieStorage, _ spec: JobSpec) {
        self.cookies = cookies
        self.record = record
        // Requests to object stores are signed, and need no cookies.
        handlesCookies = spec.request.handlesCookies && spec.storeObject == nil
        mainDocument = spec.request.mainDocument
    }

    /// Returns what the attempt uses with other fields of the job.
    func with(_ spec: JobSpec) -> AttemptSession { AttemptSession(record, cookies, spec) }

    /// The attempt uses no connection that was made before this time; `nil`: any.
    public var flushedAt: Timestamp? { record.flushedAt }

    private var configuration: SessionConfiguration { record.configuration }

    /// Returns the value of `Cookie` for a request; `nil` if it has none.
    public func cookieField(for url: WebURL, at now: Timestamp) -> [UInt8]? {
        guard handlesCookies, configuration.setsCookies else { return nil }
        return cookies.field(for: context(url, now))
    }

    /// Keeps the cookies of a response. `values`: those of its `Set-Cookie` fields.
    public func keepCookies(_ values: [[UInt8]], from url: WebURL, at now: Timestamp) {
        guard handlesCookies, configuration.cookieAcceptPolicy != .never else { return }
        cookies.take(values, context(url, now))
    }

    private func context(_ url: WebURL, _ now: Timestamp) -> CookieContext {
        CookieContext(
            url: url, mainDocument: mainDocument, acceptPolicy: configuration.cookieAcceptPolicy, now: now)
    }
}
