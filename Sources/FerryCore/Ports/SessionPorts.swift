/// Condition of `If-Match` on the revision of a session.
public enum SessionCondition: Sendable, Equatable {
    /// The request has no such field.
    case none
    /// `*`: any revision, if the session exists.
    case exists
    case revision(Int32)
}

/// Result of PUT of a session.
public enum SessionPut: Sendable {
    case created(SessionOverview)
    case changed(SessionOverview)
    /// The session had this configuration already.
    case unchanged(SessionOverview)
    /// The session has another configuration, and the request has no condition.
    case needsCondition
}

/// Stores sessions. A session of another tenant is `notFound`, and so is one that was never configured or
/// used.
public protocol SessionStore: Sendable {
    /// The sessions as this node knows them.
    var sessionCache: SessionCache { get }
    /// Reads a session with its unfinished jobs.
    func session(_ key: SessionKey, reply: @escaping Reply<SessionOverview>)
    /// Reads sessions by name, after `name`.
    func sessions(
        tenant: String, after name: String?, limit: Int, reply: @escaping Reply<[SessionOverview]>)
    /// Creates or changes a session. After the reply, every job that is submitted on any node uses the new
    /// configuration. Errors: `stale` if the condition is not met, `sessionInvalidated`.
    func putSession(
        _ key: SessionKey, _ draft: SessionDraft, if condition: SessionCondition,
        reply: @escaping Reply<SessionPut>)
    /// Makes a session accept no more jobs. Idempotent. Error: `sessionInUse` for the default session.
    func invalidateSession(
        _ key: SessionKey, _ mode: SessionInvalidation, if condition: SessionCondition,
        reply: @escaping Reply<SessionOverview>)
    /// Removes a session that has ended. Error: `sessionInUse` for others.
    func deleteSession(_ key: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>)
}

/// Stores the cookies of sessions. Errors: `notFound`, `sessionNotConfigured`.
public protocol CookieStore: Sendable {
    /// Replies with the cookies of a session, which this node has just read.
    func cookies(of key: SessionKey, reply: @escaping Reply<CookieStorage>)
    /// Changes the cookies of a session, and replies once that is stored: every job that is submitted later,
    /// on any node, uses them. `change` may be called several times.
    func changeCookies<Value: Sendable>(
        of key: SessionKey, _ change: @escaping @Sendable (inout CookieJar) -> Value,
        reply: @escaping Reply<Value>)
    /// Removes the cookies and credentials of a session.
    func resetSession(_ key: SessionKey, reply: @escaping Reply<SessionOverview>)
    /// Stores what this node has in memory, and makes requests of the session that begin after the reply, on
    /// any node, use new connections.
    func flushSession(_ key: SessionKey, reply: @escaping Reply<SessionOverview>)
}
