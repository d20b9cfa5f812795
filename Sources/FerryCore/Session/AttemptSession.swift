/// A configured session, as far as one attempt uses it: its cookies and connections. Immutable; may be used
/// on any thread.
public final class AttemptSession: Sendable {
    /// The cookies of the session.
    public let cookies: CookieStorage
    /// The attempt uses no connection that was made before this time; `nil`: any.
    public let flushedAt: Timestamp?
    private let configuration: SessionConfiguration
    /// URLSession's `httpShouldHandleCookies`.
    private let handlesCookies: Bool
    private let mainDocument: WebURL?

    convenience init(_ record: SessionRecord, _ cookies: CookieStorage, _ spec: JobSpec) {
        self.init(cookies, record.configuration, record.flushedAt, spec)
    }

    private init(
        _ cookies: CookieStorage, _ configuration: SessionConfiguration, _ flushedAt: Timestamp?,
        _ spec: JobSpec
    ) {
        self.cookies = cookies
        self.configuration = configuration
        self.flushedAt = flushedAt
        // Requests to object stores are signed, and need no cookies.
        handlesCookies = spec.request.handlesCookies && spec.storeObject == nil
        mainDocument = spec.request.mainDocument
    }

    /// Returns what the attempt uses with other fields of the job.
    func with(_ spec: JobSpec) -> AttemptSession { AttemptSession(cookies, configuration, flushedAt, spec) }

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
