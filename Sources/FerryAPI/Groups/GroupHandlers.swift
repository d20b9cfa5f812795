package import FerryCore
internal import HTTPServer

/// Stores groups of jobs. A group of another tenant is `notFound`.
package protocol GroupStore: Sendable {
    /// Stores a new group. A repeated `idempotency` key replies with the first one.
    func createGroup(
        _ group: JobGroup, _ idempotency: Submission.Idempotency?, reply: @escaping Reply<Created<JobGroup>>)
    /// Replies with one group.
    func group(_ name: String, tenant: String, reply: @escaping Reply<JobGroup>)
    /// Replies with groups, newest first, only those before `before`.
    func groups(tenant: String, before: JobGroupID?, limit: Int, reply: @escaping Reply<[JobGroup]>)
    /// Replies with those of the groups that exist, and whether an unfinished job depends on each.
    func awaitedGroups(_ names: [String], tenant: String, reply: @escaping Reply<[String: Bool]>)
    /// Closes a group and replies with it; a closed one stays as it is.
    func closeGroup(_ name: String, tenant: String, reply: @escaping Reply<JobGroup>)
    /// Deletes a finished group for which `holds` returns `true`.
    func deleteGroup(
        _ name: String, tenant: String, if holds: @escaping @Sendable (JobGroup) -> Bool,
        reply: @escaping Reply<Void>)
}

/// Creates, shows, closes and deletes groups of jobs.
final class GroupHandlers: Sendable {
    private let store: any GroupStore
    private let progress: GroupProgress
    private let node: NodeAbilities
    private let egress: EgressPolicy
    private let secrets: SecretSeal
    private let clock: any WallClock
    private let identifiers: IdentifierGenerator

    init(_ ports: APIPorts, _ node: NodeAbilities, _ identifiers: IdentifierGenerator) {
        store = ports.store.groups
        progress = GroupProgress(ports)
        egress = ports.egress
        secrets = ports.secrets
        clock = ports.clock
        self.node = node
        self.identifiers = identifiers
    }

    /// `POST /v1/job_groups`
    func create(_ request: RequestContext) throws(Problem) {
        let json = try request.json()
        let key = try request.idempotency([json])
        var draft = try valid(
            try GroupDraft(body: json, FieldContext(node: node, refusal: egress.refusal(of:))))
        let texts = draft.takeSecrets()
        var group = JobGroup(
            id: identifiers.make(), tenant: request.tenant, draft, createdAt: clock.now())
        if !texts.isEmpty { group.sealedSecrets = secrets.seal(texts.encode()) }
        store.createGroup(
            group, key,
            reply: request.onSuccess { created in
                let place = ("Location", "/v1/job_groups/\(created.record.draft.name)")
                send(created.record, 201, request, [place] + (created.isReplay ? replayed : []))
            })
    }

    /// `GET /v1/job_groups`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: JobGroupID.self)
        store.groups(
            tenant: request.tenant, before: before, limit: limit + 1,
            reply: request.onSuccess { groups in
                let page = Page(groups, limit: limit) { $0.id }
                page.send(request, reservingCapacity: page.shown.count * 512)
            })
    }

    /// `GET /v1/job_groups/{name}`
    func read(_ request: RequestContext) throws(Problem) {
        store.group(
            try request.groupName(), tenant: request.tenant,
            reply: request.onSuccess { [progress] group in
                progress.read(group) { send($0, 200, request) }
            })
    }

    /// `POST /v1/job_groups/{name}/close`
    func close(_ request: RequestContext) throws(Problem) {
        let name = try request.groupName()
        try request.needEmptyObject()
        store.closeGroup(
            name, tenant: request.tenant, reply: request.onSuccess { send($0, 200, request) })
    }

    /// `DELETE /v1/job_groups/{name}`
    func delete(_ request: RequestContext) throws(Problem) {
        let name = try request.groupName()
        let tags = EntityTags(request.fields, "If-Match")
        store.deleteGroup(
            name, tenant: request.tenant,
            if: { group in tags.map { $0.matches(tag(of: group.shown(isRedacted: false))) } ?? true },
            reply: request.onSuccess { request.send(Response(status: 204)) })
    }
}

extension RequestContext {
    /// The group in the path. A text that is no group's name is a 404.
    func groupName() throws(Problem) -> String {
        guard let name = parameters.first, GroupName.isValid(name) else { throw Problem(StoreError.notFound) }
        return name
    }
}

/// Returns the entity tag of a group: nothing of it can be changed but by its jobs.
private func tag(of shown: [UInt8]) -> String { entityTag(changeable: [], shown: shown) }

private func send(
    _ group: JobGroup, _ status: Int, _ request: RequestContext,
    _ extra: [(name: String, value: String)] = []
) {
    request.send(status, tag: tag(of: group.shown(isRedacted: false)), extra) {
        group.shown(isRedacted: request.disclosure.isRedacted)
    }
}
