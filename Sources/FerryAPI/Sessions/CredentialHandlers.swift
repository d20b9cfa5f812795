internal import FerryCore
internal import HTTPServer

/// Stores, shows and deletes credentials of sessions.
final class CredentialHandlers: Sendable {
    private let store: any CredentialStore
    private let node: NodeAbilities
    private let seal: @Sendable ([UInt8]) -> [UInt8]

    init(_ ports: APIPorts, _ node: NodeAbilities) {
        store = ports.store.credentials
        seal = ports.seal
        self.node = node
    }

    /// `GET /v1/sessions/{id}/credentials`
    func list(_ request: RequestContext) throws(Problem) {
        let session = try request.sessionKey()
        let (limit, name) = try request.page { cursor throws(Problem) -> String in
            try NameCursor.credential.name(cursor, where: SessionName.isValid)
        }
        store.credentials(
            of: session, after: name, limit: limit + 1,
            reply: request.onSuccess { found in
                let page = Page(found, limit: limit) { NameCursor.credential.text($0.name) }
                page.send(request, reservingCapacity: page.shown.count * 384)
            })
    }

    /// `GET /v1/sessions/{id}/credentials/{credential}`
    func read(_ request: RequestContext) throws(Problem) {
        store.credential(
            try request.credentialName(), of: try request.sessionKey(),
            reply: request.onSuccess { send($0, 200, request) })
    }

    /// `PUT /v1/sessions/{id}/credentials/{credential}`: creates or replaces a credential.
    func put(_ request: RequestContext) throws(Problem) {
        let session = try request.sessionKey()
        let name = request.parameters.last ?? ""
        guard SessionName.isValid(name) else {
            throw Problem(
                .invalidParameter,
                "The name of a credential must have 1 to \(Limits.nameByteCountMax) letters, digits and "
                    + "-._~:@.")
        }
        let json = try request.json()
        let draft = try valid(try CredentialDraft(json, node: node, seal: seal))
        request.changing(
            { [store] revision, reply in
                store.putCredential(
                    name, of: session, draft, if: request.sessionCondition(revision), reply: reply)
            },
            then: request.onSuccess { result in
                switch result {
                case .created(let credential):
                    let place = "/v1/sessions/\(session.name)/credentials/\(name)"
                    send(credential, 201, request, [("Location", place)])
                case .stored(let credential): send(credential, 200, request)
                }
            })
    }

    /// `DELETE /v1/sessions/{id}/credentials/{credential}`
    func delete(_ request: RequestContext) throws(Problem) {
        let (session, name) = (try request.sessionKey(), try request.credentialName())
        request.changing(
            { [store] revision, reply in
                store.deleteCredential(
                    name, of: session, if: request.sessionCondition(revision), reply: reply)
            }, then: request.onSuccess { request.send(Response(status: 204)) })
    }
}

extension RequestContext {
    /// The credential in the path. A text that is no credential's name is a 404.
    fileprivate func credentialName() throws(Problem) -> String {
        guard let name = parameters.last, SessionName.isValid(name) else {
            throw Problem(StoreError.notFound)
        }
        return name
    }
}

private func send(
    _ credential: CredentialRecord, _ status: Int, _ request: RequestContext,
    _ extra: [(name: String, value: String)] = []
) {
    request.send(status, tag: entityTag(revision: credential.revision), extra) {
        credential.shown(isRedacted: request.disclosure.isRedacted)
    }
}
