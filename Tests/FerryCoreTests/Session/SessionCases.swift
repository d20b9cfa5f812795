import FerryCore

/// Sessions and jobs of tests, as clients give them.
protocol SessionCases {}

extension SessionCases {
    /// A node that accepts every text with these words as a certificate or key.
    var ableNode: NodeAbilities {
        NodeAbilities(
            certificateError: { $0.contains("CERTIFICATE") ? nil : "This is no certificate." },
            keyError: { $0.contains("KEY") && $1 != nil ? nil : "This is no key." })
    }

    func draft(_ text: String) throws -> SessionDraft {
        try SessionDraft(
            JSONView(parsing: Array(text.utf8)), node: ableNode,
            refusal: { $0.host == "10.0.0.1" ? "Not there." : nil }, seal: { $0 })
    }

    func errors(_ text: String) -> [FieldError] {
        do {
            _ = try draft(text)
            return []
        } catch {
            return (error as? InvalidFields)?.errors ?? []
        }
    }

    func scope(_ text: String, tenant: String = "acme", name: String = "s") throws -> SessionScope {
        scope(try draft(text), tenant: tenant, name: name)
    }

    func scope(_ draft: SessionDraft, tenant: String = "acme", name: String = "s") -> SessionScope {
        let key = SessionKey(tenant: tenant, name: name)
        let record = SessionRecord(
            key, revision: 1, epoch: 1, createdAt: Timestamp(microseconds: 0),
            updatedAt: Timestamp(microseconds: 0), configuration: draft.configuration, secrets: draft.secrets)
        return SessionScope(SessionSnapshot(epoch: 1, removal: 0, records: [key: record]), tenant: "acme")
    }

    func job(_ text: String, in scope: SessionScope) throws -> JobRequest {
        try JobRequest(JSONView(parsing: Array(text.utf8)), node: ableNode, sessions: scope) { _ in nil }
    }
}
