import FerryCore
import Synchronization

extension MemoryStore {
    func credentials(
        of session: SessionKey, after name: String?, limit: Int, reply: @escaping Reply<[CredentialRecord]>
    ) {
        let (isKnown, records) = state.withLock {
            ($0.sessions[session] != nil, $0.credentials[session]?.values.map { $0 } ?? [])
        }
        guard isKnown else { return reply(.failure(.notFound)) }
        let sorted = records.filter { $0.name > name ?? "" }.sorted { $0.name < $1.name }
        reply(.success(Array(sorted.prefix(limit))))
    }

    func credential(_ name: String, of session: SessionKey, reply: @escaping Reply<CredentialRecord>) {
        let found = state.withLock { $0.credentials[session]?[name] }
        reply(found.map { .success($0) } ?? .failure(.notFound))
    }

    func putCredential(
        _ name: String, of session: SessionKey, _ draft: CredentialDraft, if condition: SessionCondition,
        reply: @escaping Reply<CredentialPut>
    ) {
        let (owner, before) = state.withLock { ($0.sessions[session], $0.credentials[session]?[name]) }
        guard let owner else {
            let isKnown = session.name == SessionName.standard
            return reply(.failure(isKnown ? .sessionNotConfigured : .notFound))
        }
        if owner.invalidation != nil { return reply(.failure(.sessionInvalidated)) }
        if case .revision(let revision) = condition, revision != before?.revision ?? 0 {
            return reply(.failure(.stale(revision: before?.revision ?? 0)))
        }
        let record = CredentialRecord(
            name, revision: (before?.revision ?? 0) + 1, createdAt: Timestamp(microseconds: 0),
            updatedAt: Timestamp(microseconds: 0), credential: draft.credential, secrets: draft.secrets)
        state.withLock { $0.credentials[session, default: [:]][name] = record }
        reply(.success(before == nil ? .created(record) : .stored(record)))
    }

    func deleteCredential(
        _ name: String, of session: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>
    ) {
        guard let found = state.withLock({ $0.credentials[session]?[name] }) else {
            return reply(.failure(.notFound))
        }
        if case .revision(let revision) = condition, revision != found.revision {
            return reply(.failure(.stale(revision: found.revision)))
        }
        state.withLock { $0.credentials[session]?[name] = nil }
        reply(.success(()))
    }
}
