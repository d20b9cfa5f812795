import FerryAPI
import FerryCore
import Synchronization

// The port for API keys in memory.
extension MemoryStore: KeyStore {
    func keys(reply: @escaping Reply<[APIKey]>) { reply(.success(state.withLock { $0.keys })) }

    func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>) {
        let all = state.withLock { $0.keys }.filter { key in before.map { key.id < $0 } ?? true }
        reply(.success(Array(all.sorted { $0.id > $1.id }.prefix(limit))))
    }

    func key(_ id: KeyID, reply: @escaping Reply<APIKey>) {
        let found = state.withLock { $0.keys.first { $0.id == id } }
        reply(found.map { .success($0) } ?? .failure(.notFound))
    }

    func createKey(_ new: NewKey, reply: @escaping Reply<KeyCreation>) {
        reply(
            state.withLock { state -> Result<KeyCreation, StoreError> in
                if let key = new.idempotency {
                    if let first = state.firstKeys[key.key] {
                        guard first.fingerprint == key.fingerprint else {
                            return .failure(.idempotencyKeyReused)
                        }
                        let known = state.keys.first { $0.id == first.id }
                        return known.map { .success(.known($0, sealedText: first.sealedText)) }
                            ?? .failure(.notFound)
                    }
                    state.firstKeys[key.key] = (key.fingerprint, new.key.id, new.sealedText ?? [])
                }
                state.keys.append(new.key)
                return .success(.made)
            })
    }

    func revokeKey(_ id: KeyID, reply: @escaping Reply<Void>) {
        let isKnown = state.withLock { state in
            guard let index = state.keys.firstIndex(where: { $0.id == id }) else { return false }
            let key = state.keys[index]
            state.keys[index] = APIKey(
                id: key.id, tenant: key.tenant, role: key.role, name: key.name, hash: key.hash,
                createdAt: key.createdAt, revokedAt: Timestamp(microseconds: 5))
            return true
        }
        reply(isKnown ? .success(()) : .failure(.notFound))
    }
}
