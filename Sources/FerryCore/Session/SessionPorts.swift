/// What `If-Match` says about the revision that a session is to have.
package enum SessionCondition: Sendable, Equatable {
    /// There is no such field.
    case none
    /// `*`: any that exists.
    case exists
    case revision(Int32)
}

/// What became of a session that was put.
package enum SessionPut: Sendable {
    case created(SessionOverview)
    case changed(SessionOverview)
    /// It was like that already.
    case unchanged(SessionOverview)
    /// It exists with another configuration, and no condition was given.
    case needsCondition
}

/// Where sessions are kept. Another tenant's is `notFound`, and so is one that nobody has configured or used.
package protocol SessionStore: Sendable {
    /// What is known without asking.
    var sessionBoard: SessionCache { get }
    /// With its unfinished jobs.
    func session(_ key: SessionKey, reply: @escaping Reply<SessionOverview>)
    /// By name, those after `name`.
    func sessions(
        tenant: String, after name: String?, limit: Int, reply: @escaping Reply<[SessionOverview]>)
    /// Creates a session or changes it: when this is answered, every job that is submitted later on any node
    /// has the new configuration. `stale` when the condition does not hold, `sessionInvalidated`.
    func putSession(
        _ key: SessionKey, _ draft: SessionDraft, if condition: SessionCondition,
        reply: @escaping Reply<SessionPut>)
    /// Lets a session take no more jobs; the default one is `sessionInUse`. Once more it changes nothing.
    func invalidateSession(
        _ key: SessionKey, _ mode: SessionInvalidation, if condition: SessionCondition,
        reply: @escaping Reply<SessionOverview>)
    /// Removes a session that has ended, any other is `sessionInUse`.
    func deleteSession(_ key: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>)
}
