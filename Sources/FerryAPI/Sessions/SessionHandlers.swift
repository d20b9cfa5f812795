internal import FerryCore
internal import HTTPServer

/// Configures, shows, invalidates and deletes sessions.
final class SessionHandlers: Sendable {
    private let store: any SessionStore
    private let node: NodeAbilities
    private let egress: EgressPolicy
    private let seal: @Sendable ([UInt8]) -> [UInt8]

    init(_ ports: APIPorts, _ node: NodeAbilities) {
        store = ports.store.sessions
        egress = ports.egress
        seal = ports.seal
        self.node = node
    }

    /// `GET /v1/sessions`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, name) = try request.page { cursor throws(Problem) -> String in
            try NameCursor.session.name(cursor, where: SessionName.isValid)
        }
        store.sessions(
            tenant: request.tenant, after: name, limit: limit + 1,
            reply: request.onSuccess { found in
                let page = Page(found, limit: limit) { NameCursor.session.text($0.key.name) }
                page.send(request, reservingCapacity: page.shown.count * 2_048)
            })
    }

    /// `GET /v1/sessions/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        store.session(try request.sessionKey(), reply: request.onSuccess { send($0, 200, request) })
    }

    /// `PUT /v1/sessions/{id}`: creates or changes a session.
    func put(_ request: RequestContext) throws(Problem) {
        let name = request.parameters.first ?? ""
        guard SessionName.isValid(name) else {
            throw Problem(
                .invalidParameter,
                "The name of a session must have 1 to \(Limits.nameByteCountMax) letters, digits and -._~:@.")
        }
        let json = try request.json(isOptional: true)
        let draft = try valid(
            try SessionDraft(json, node: node, refusal: egress.refusal(of:), seal: seal))
        let key = SessionKey(tenant: request.tenant, name: name)
        request.changing(
            { [store] revision, reply in
                store.putSession(key, draft, if: request.sessionCondition(revision), reply: reply)
            },
            then: request.onSuccess { result throws(Problem) in
                switch result {
                case .created(let session):
                    send(session, 201, request, [("Location", "/v1/sessions/\(name)")])
                case .changed(let session), .unchanged(let session): send(session, 200, request)
                case .needsCondition:
                    throw Problem(
                        .preconditionRequired,
                        "The session exists with another configuration; send its ETag as If-Match.")
                }
            })
    }

    /// `POST /v1/sessions/{id}/invalidate`
    func invalidate(_ request: RequestContext) throws(Problem) {
        let key = try request.sessionKey()
        let mode = try request.decoded(InvalidateRequest.self).mode
        request.changing { [store] revision, reply in
            store.invalidateSession(key, mode, if: request.sessionCondition(revision), reply: reply)
        } then: { (result: Result<SessionOverview, StoreError>) in
            guard case .failure(.sessionInUse) = result else {
                return request.onSuccess { send($0, 200, request) }(result)
            }
            request.fail(
                Problem(
                    .sessionInUse,
                    "The session default is for jobs that name no session; it is never invalidated."))
        }
    }

    /// `DELETE /v1/sessions/{id}`
    func delete(_ request: RequestContext) throws(Problem) {
        let key = try request.sessionKey()
        request.changing(
            { [store] revision, reply in
                store.deleteSession(key, if: request.sessionCondition(revision), reply: reply)
            }, then: request.onSuccess { request.send(Response(status: 204)) })
    }
}

/// The body of `POST /v1/sessions/{id}/invalidate`.
struct InvalidateRequest: FieldObject {
    static let summary = "How a session ends."
    static let schemaName = "InvalidateRequest"
    fileprivate var mode = SessionInvalidation.finish

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "mode", &mode, .of(required: true),
            "What happens to the session's jobs: finish lets them continue, cancel cancels them.")
    }
}

extension RequestContext {
    /// The session in the path. A text that is no session name is a 404.
    func sessionKey() throws(Problem) -> SessionKey {
        guard let name = parameters.first, SessionName.isValid(name) else {
            throw Problem(StoreError.notFound)
        }
        return SessionKey(tenant: tenant, name: name)
    }

    /// The condition of `If-Match`. `revision`: a revision that the field names; `nil` if it is `*` or
    /// absent.
    func sessionCondition(_ revision: Int32?) -> SessionCondition {
        if let revision { return .revision(revision) }
        return fields.contains("If-Match") ? .exists : .none
    }
}

func send(
    _ session: SessionOverview, _ status: Int, _ request: RequestContext,
    _ extra: [(name: String, value: String)] = []
) {
    request.send(status, tag: entityTag(revision: session.revision), extra) {
        session.shown(isRedacted: request.disclosure.isRedacted, reservingCapacity: 2_048)
    }
}
