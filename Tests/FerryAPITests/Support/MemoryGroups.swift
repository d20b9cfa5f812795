import FerryAPI
import FerryCore
import Synchronization

extension MemoryStore: GroupStore {
    func createGroup(
        _ group: JobGroup, _ idempotency: Submission.Idempotency?, reply: @escaping Reply<Created<JobGroup>>
    ) {
        reply(
            state.withLock { state in
                let known = idempotency.flatMap { state.groupKeys["\($0.tenant) \($0.key)"] }
                if let first = state.groups.first(where: { $0.id == known }) {
                    return .success(Created(first, isReplay: true))
                }
                guard !state.groups.contains(where: { $0.isNamed(group.draft.name, group.tenant) }) else {
                    return .failure(.groupExists)
                }
                state.groups.append(group)
                if let key = idempotency { state.groupKeys["\(key.tenant) \(key.key)"] = group.id }
                return .success(Created(group, isReplay: false))
            })
    }

    func group(_ name: String, tenant: String, reply: @escaping Reply<JobGroup>) {
        let found = state.withLock { $0.groups.first { $0.isNamed(name, tenant) } }
        reply(found.map { .success($0) } ?? .failure(.notFound))
    }

    func groups(tenant: String, before: JobGroupID?, limit: Int, reply: @escaping Reply<[JobGroup]>) {
        let found = state.withLock { $0.groups }.filter { group in
            group.tenant == tenant && before.map { group.id < $0 } ?? true
        }
        reply(.success(Array(found.sorted { $0.id > $1.id }.prefix(limit))))
    }

    func awaitedGroups(_ names: [String], tenant: String, reply: @escaping Reply<[String: Bool]>) {
        let (groups, jobs) = state.withLock { ($0.groups, Array($0.jobs.values)) }
        var known: [String: Bool] = [:]
        for name in names where groups.contains(where: { $0.isNamed(name, tenant) }) {
            known[name] = jobs.contains {
                $0.tenant == tenant && $0.spec?.schedule.groupsOfDependencies.contains(name) == true
            }
        }
        reply(.success(known))
    }

    /// An empty group finishes at once.
    func closeGroup(_ name: String, tenant: String, reply: @escaping Reply<JobGroup>) {
        state.withLock { state in
            guard let place = state.groups.firstIndex(where: { $0.isNamed(name, tenant) }),
                state.groups[place].closedAt == nil
            else { return }
            state.groups[place].closedAt = Timestamp(microseconds: 1_000_000)
            state.groups[place].finishedAt = Timestamp(microseconds: 1_000_000)
        }
        group(name, tenant: tenant, reply: reply)
    }

    func deleteGroup(
        _ name: String, tenant: String, if holds: @escaping @Sendable (JobGroup) -> Bool,
        reply: @escaping Reply<Void>
    ) {
        group(name, tenant: tenant) { [self] found in
            reply(
                found.flatMap { group in
                    let finding = ChangeCheck.allowed(group)
                        .checkingState { $0.state == .finished ? nil : .groupUnfinished }
                        .matching { holds(group) }
                    if case .refused(let error) = finding { return .failure(error) }
                    state.withLock { $0.groups.removeAll { $0.id == group.id } }
                    return .success(())
                })
        }
    }
}

extension JobGroup {
    fileprivate func isNamed(_ name: String, _ tenant: String) -> Bool {
        draft.name == name && self.tenant == tenant
    }
}
