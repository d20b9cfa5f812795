import FerryAPI
import FerryCore
import Synchronization

extension MemoryStore {
    func session(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        let record = state.withLock { $0.sessions[key] }
        guard record != nil || key.name == SessionName.standard else { return reply(.failure(.notFound)) }
        let implicit = sessionCache.current.implicit
        reply(.success(SessionOverview(key, record: record, implicit: implicit, counts: .init())))
    }

    func sessions(
        tenant: String, after name: String?, limit: Int, reply: @escaping Reply<[SessionOverview]>
    ) {
        let records = state.withLock { Array($0.sessions.values) }
        let found = records.filter { $0.key.tenant == tenant && $0.key.name > name ?? "" }
        let sorted = found.sorted { $0.key.name < $1.key.name }
        reply(.success(sorted.prefix(limit).map { SessionOverview($0) }))
    }

    func putSession(
        _ key: SessionKey, _ draft: SessionDraft, if condition: SessionCondition,
        reply: @escaping Reply<SessionPut>
    ) {
        let before = state.withLock { $0.sessions[key] }
        if let before {
            if before.invalidation != nil { return reply(.failure(.sessionInvalidated)) }
            if case .revision(let revision) = condition, revision != before.revision {
                return reply(.failure(.stale(revision: before.revision)))
            }
            if before.configuration == draft.configuration, before.secrets == draft.secrets {
                return reply(.success(.unchanged(SessionOverview(before, counts: .init()))))
            }
            if condition == .none { return reply(.success(.needsCondition)) }
        }
        let record = SessionRecord(
            key, revision: (before?.revision ?? 0) + 1, epoch: sessionCache.current.epoch + 1,
            createdAt: Timestamp(microseconds: 0),
            // Later than the jobs that are accepted before the change.
            updatedAt: Timestamp(microseconds: before == nil ? 0 : 2_000_000),
            configuration: draft.configuration, secrets: draft.secrets)
        put(record)
        let overview = SessionOverview(record, counts: .init())
        reply(.success(before == nil ? .created(overview) : .changed(overview)))
    }

    func put(_ record: SessionRecord) {
        let all = state.withLock { state in
            state.sessions[record.key] = record
            return state.sessions
        }
        sessionCache.put(SessionSnapshot(epoch: record.epoch, removal: 0, records: all))
    }

    func invalidateSession(
        _ key: SessionKey, _ mode: SessionInvalidation, if condition: SessionCondition,
        reply: @escaping Reply<SessionOverview>
    ) {
        guard key.name != SessionName.standard else { return reply(.failure(.sessionInUse)) }
        let found = state.withLock { $0.sessions[key] }
        guard let found else { return reply(.failure(.notFound)) }
        if case .revision(let revision) = condition, revision != found.revision {
            return reply(.failure(.stale(revision: found.revision)))
        }
        let now = Timestamp(microseconds: 1)
        let record = SessionRecord(
            key, revision: found.revision + 1, epoch: sessionCache.current.epoch + 1,
            createdAt: found.createdAt, updatedAt: now, configuration: found.configuration,
            invalidation: mode, invalidatedAt: now, endedAt: now)
        put(record)
        reply(.success(SessionOverview(record, counts: .init())))
    }

    func flushSession(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        guard let found = state.withLock({ $0.sessions[key] }) else {
            return reply(.failure(key.name == SessionName.standard ? .sessionNotConfigured : .notFound))
        }
        reply(.success(SessionOverview(found, counts: .init())))
    }

    func resetSession(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        cookies(of: key) { storage in
            reply(
                storage.flatMap { storage in
                    _ = storage.change { $0.remove(where: .all, now: Timestamp(microseconds: 0)) }
                    return self.state.withLock { $0.sessions[key] }.map {
                        .success(SessionOverview($0, counts: .init()))
                    }
                        ?? .failure(.notFound)
                })
        }
    }

    func cookies(of key: SessionKey, reply: @escaping Reply<CookieStorage>) {
        guard let found = state.withLock({ $0.sessions[key] }) else {
            return reply(.failure(key.name == SessionName.standard ? .sessionNotConfigured : .notFound))
        }
        reply(.success(cookieStorages.storage(of: found)))
    }

    func changeCookies<Value: Sendable>(
        of key: SessionKey, _ change: @escaping @Sendable (inout CookieJar) -> Value,
        reply: @escaping Reply<Value>
    ) {
        cookies(of: key) { storage in reply(storage.map { $0.change(change) }) }
    }

    func deleteSession(_ key: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>) {
        let found = state.withLock { $0.sessions[key] }
        guard let found else { return reply(.failure(.notFound)) }
        if case .revision(let revision) = condition, revision != found.revision {
            return reply(.failure(.stale(revision: found.revision)))
        }
        guard found.endedAt != nil else { return reply(.failure(.sessionInUse)) }
        state.withLock { $0.sessions[key] = nil }
        reply(.success(()))
    }
}
