internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/sessions`
    func listSessions(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, name) = try call.page { cursor throws(Problem) -> String in
                try NameCursor.session.name(cursor, where: SessionName.isValid)
            }
            ports.sessions.sessions(tenant: call.principal.tenant, after: name, limit: limit + 1) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let found):
                    let shown = found.prefix(limit)
                    let next = found.count > limit ? shown.last?.key.name : nil
                    sendPage(
                        call, nextCursor: next.map(NameCursor.session.text),
                        reservingCapacity: shown.count * 1_024
                    ) { writer in
                        for session in shown { session.write(into: &writer, for: call.disclosure) }
                    }
                }
            }
        }
    }

    /// `GET /v1/sessions/{id}`
    func readSession(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let key = try call.sessionKey()
            ports.sessions.session(key) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let session): answer(session, 200, call)
                }
            }
        }
    }

    /// `PUT /v1/sessions/{id}`: creates it, finds it as it is, or changes it.
    func putSession(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let name = call.parameters.first ?? ""
            guard SessionName.isValid(name) else {
                throw Problem(
                    .invalidParameter,
                    "A session's name is made of 1 to \(Limits.nameByteCountMax) letters, digits and -._~:@.")
            }
            let draft = try draft(try call.json(isOptional: true))
            let key = SessionKey(tenant: call.principal.tenant, name: name)
            call.changing { [self] revision, reply in
                ports.sessions.putSession(key, draft, if: call.sessionCondition(revision), reply: reply)
            } then: { (result: Result<SessionPut, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(.created(let session)):
                    answer(session, 201, call, [("Location", "/v1/sessions/\(name)")])
                case .success(.changed(let session)), .success(.unchanged(let session)):
                    answer(session, 200, call)
                case .success(.needsCondition):
                    call.fail(
                        Problem(
                            .preconditionRequired,
                            "The session exists with another configuration; name the one you have read."))
                }
            }
        }
    }

    private func draft(_ json: JSON) throws(Problem) -> SessionDraft {
        do throws(InvalidFields) {
            return try SessionDraft(
                json, node: node, refusal: { ports.egress.refusal(of: $0) }, seal: ports.seal)
        } catch {
            throw Problem(error)
        }
    }

    /// `POST /v1/sessions/{id}/invalidate`
    func invalidateSession(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let key = try call.sessionKey()
            let mode = try invalidation(try call.json())
            call.changing { [self] revision, reply in
                ports.sessions.invalidateSession(key, mode, if: call.sessionCondition(revision), reply: reply)
            } then: { (result: Result<SessionOverview, StoreError>) in
                switch result {
                case .failure(.sessionInUse):
                    call.fail(
                        Problem(
                            .sessionInUse,
                            "The session default is the one of jobs that name none: it is never invalidated.")
                    )
                case .failure(let error): call.fail(error)
                case .success(let session): answer(session, 200, call)
                }
            }
        }
    }

    private func invalidation(_ json: JSON) throws(Problem) -> SessionInvalidation {
        let complaints = ValidationErrors()
        var mode: SessionInvalidation?
        if var fields = FieldReader(json, at: "#", complaints) {
            if !fields.has("mode") {
                fields.complain("mode", "required", "Name what becomes of its jobs: finish or cancel.")
            }
            mode = fields.choice("mode", SessionInvalidation.self)
            fields.finish()
        }
        guard complaints.isEmpty, let mode else { throw Problem(InvalidFields(complaints.errors)) }
        return mode
    }

    /// `DELETE /v1/sessions/{id}`
    func deleteSession(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let key = try call.sessionKey()
            call.changing { [self] revision, reply in
                ports.sessions.deleteSession(key, if: call.sessionCondition(revision), reply: reply)
            } then: { (result: Result<Void, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success: call.send(Response(status: 204))
                }
            }
        }
    }
}

extension RequestContext {
    /// The session in the path; what cannot be one names nothing.
    func sessionKey() throws(Problem) -> SessionKey {
        guard let name = parameters.first, SessionName.isValid(name) else {
            throw Problem(StoreError.notFound)
        }
        return SessionKey(tenant: principal.tenant, name: name)
    }

    /// `If-Match`, of which this is the revision; nil: it names none, or there is none.
    fileprivate func sessionCondition(_ revision: Int32?) -> SessionCondition {
        if let revision { return .revision(revision) }
        return fields.contains("If-Match") ? .exists : .none
    }
}

private func answer(
    _ session: SessionOverview, _ status: Int, _ call: RequestContext,
    _ extra: [(name: String, value: String)] = []
) {
    call.send(status, tag: entityTag(revision: session.revision), extra) {
        var writer = JSONWriter(reservingCapacity: 1_024)
        session.write(into: &writer, for: call.disclosure)
        return writer.bytes
    }
}
