import FerryAPI
import FerryCore
import FerryEngine
import FerryStore
import Glibc

// The API's ports over the store.

/// Adapter from the API's ports to the store and the engine.
struct StoreAdapter: SubmissionSink {
    let store: Store
    let paths: StoragePaths
    let engine: Engine?
    let health: Health
    let throughput = Throughput()
    let openSecrets: @Sendable ([UInt8]) -> JobSecrets?

    var control: ControlLane { store.control }

    func submit(_ submission: Submission) { store.submissions.submit(submission) }
}

extension StoreAdapter: JobReader, JobControl {
    func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        control.job(id, tenant: tenant, reply: reply)
    }

    func jobs(_ query: JobQuery, reply: @escaping Reply<ListPage<JobRecord, JobKindTag>>) {
        control.jobs(query, reply: reply)
    }

    func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>) {
        let read = { @Sendable (running: AttemptSnapshot?) in
            control.attempts(of: id, tenant: tenant) { result in
                reply(
                    result.map { attempts in
                        var attempts = attempts
                        if let running { attempts.add(running) }
                        return attempts
                    })
            }
        }
        if let engine { engine.snapshot(of: id, reply: read) } else { read(nil) }
    }

    func cancel(
        _ id: JobID, tenant: String, revision: Int32?, keepsBytes: Bool, reply: @escaping Reply<JobRecord>
    ) {
        control.cancel(id, tenant: tenant, revision: revision, keepsBytes: keepsBytes, reply: reply)
    }

    func suspend(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>) {
        control.suspend(id, tenant: tenant, revision: revision, reply: reply)
    }

    func resume(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>) {
        control.resume(id, tenant: tenant, revision: revision, reply: reply)
    }

    func acknowledge(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        control.acknowledge(id, tenant: tenant, reply: reply)
    }

    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        let file = "\(paths.managedFiles)/\(ManagedFiles.path(for: id))"
        control.delete(id, tenant: tenant, revision: revision) { result in
            // The row is gone. If a crash leaves the file, the sweep finds it by its name.
            if case .success(let record) = result {
                if let engine { engine.remove(file) } else { unlink(file) }
                // A spec that cannot be read has no bytes to forget.
                if let spec = try? JobSpec(storedJSON: record.specJSON), spec.kind == .download {
                    engine?.forget(
                        ResumePoint(
                            tenant: tenant, job: id, url: spec.request.url, path: spec.destination?.path))
                }
            }
            reply(result.map { _ in })
        }
    }

    func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>) {
        control.storedJob(id, tenant: tenant) { result in
            reply(
                result.flatMap { stored in
                    guard stored.record.state.isTerminal else {
                        return .failure(.invalidState(of: stored.record))
                    }
                    guard let sealed = stored.sealedSecrets else {
                        return .success(
                            RetrySource(record: stored.record, secrets: JobSecrets(), payload: stored.payload)
                        )
                    }
                    guard let secrets = openSecrets(sealed) else { return .failure(.failed) }
                    return .success(
                        RetrySource(record: stored.record, secrets: secrets, payload: stored.payload))
                })
        }
    }
}

extension StoreAdapter: DependencyReader {
    func missing(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        control.known(jobs, tenant: tenant) { reply($0.map { known in jobs.filter { !known.contains($0) } }) }
    }

    func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        control.prepareDependencies(jobs, tenant: tenant, reply: reply)
    }

    func firstAcceptance(of key: Submission.Idempotency, reply: @escaping Reply<Submission.Accepted?>) {
        control.firstAcceptance(of: key, reply: reply)
    }
}

extension StoreAdapter: EventReader {
    func events(_ query: EventQuery, reply: @escaping Reply<ListPage<EventEntry, EventKindTag>>) {
        control.events(query, reply: reply)
    }

    func events(
        of job: JobID, tenant: String, before: EventID?, limit: Int, reply: @escaping Reply<[EventEntry]>
    ) {
        control.events(of: job, tenant: tenant, before: before, limit: limit, reply: reply)
    }

    func events(
        of job: JobID, tenant: String, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>
    ) {
        control.events(of: job, tenant: tenant, after: after, limit: limit, reply: reply)
    }

    func replay(
        tenant: String, session: String?, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>
    ) {
        control.replay(tenant: tenant, session: session, after: after, limit: limit, reply: reply)
    }

    func lastEvent(reply: @escaping Reply<EventID>) { control.lastEvent(reply: reply) }

    func follow(_ sink: any EventSink, ready: @escaping @Sendable () -> Void) {
        store.eventTail.follow(sink, ready: ready)
    }

    func stopFollowing(unless isNeeded: @escaping @Sendable () -> Bool) {
        store.eventTail.stopFollowing(unless: isNeeded)
    }
}

extension StoreAdapter: DeliveryReader {
    func deliveries(
        of job: JobID, tenant: String, before: DeliveryID?, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        control.job(job, tenant: tenant) { found in
            if case .failure(let error) = found { return reply(.failure(error)) }
            control.deliveries(of: .job(job), tenant: tenant, before: before, limit: limit, reply: reply)
        }
    }

    func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        control.delivery(id, tenant: tenant, reply: reply)
    }

    func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        control.redeliver(id, tenant: tenant) { result in
            switch result {
            case .success: delivery(id, tenant: tenant, reply: reply)
            case .failure(let error): reply(.failure(error))
            }
        }
    }
}

extension StoreAdapter: WebhookStore {
    func createWebhook(_ new: NewWebhook, reply: @escaping Reply<WebhookCreation>) {
        control.createWebhook(new, reply: reply)
    }

    func webhook(createdWith key: Submission.Idempotency, reply: @escaping Reply<CreatedWebhook>) {
        control.webhook(createdWith: key, reply: reply)
    }

    func webhook(_ id: WebhookID, tenant: String, reply: @escaping Reply<WebhookRecord>) {
        control.webhook(id, tenant: tenant, reply: reply)
    }

    func webhooks(
        tenant: String, before: WebhookID?, limit: Int, reply: @escaping Reply<[WebhookRecord]>
    ) {
        control.webhooks(tenant: tenant, before: before, limit: limit, reply: reply)
    }

    func editWebhook(
        _ id: WebhookID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (WebhookRecord) throws(InvalidFields) -> WebhookRecord,
        reply: @escaping Reply<Result<WebhookRecord, InvalidFields>>
    ) {
        control.editWebhook(id, tenant: tenant, revision: revision, change, reply: reply)
    }

    func deleteWebhook(_ id: WebhookID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        control.deleteWebhook(id, tenant: tenant, revision: revision, reply: reply)
    }

    func pingWebhook(
        _ id: WebhookID, tenant: String, traceparent: String?, reply: @escaping Reply<DeliveryID>
    ) {
        control.pingWebhook(id, tenant: tenant, traceparent: traceparent, reply: reply)
    }

    func replay(
        _ id: WebhookID, tenant: String, since: Timestamp, until: Timestamp?, onlyFailed: Bool,
        reply: @escaping Reply<Int64>
    ) {
        control.replay(
            id, tenant: tenant, since: since, until: until, onlyFailed: onlyFailed, reply: reply)
    }

    func deliveries(
        of webhook: WebhookID, tenant: String, state: DeliveryRecord.State?, type: String?,
        before: DeliveryID?, limit: Int, reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        control.webhook(webhook, tenant: tenant) { found in
            if case .failure(let error) = found { return reply(.failure(error)) }
            control.deliveries(
                of: .webhook(webhook), tenant: tenant, state: state, type: type, before: before, limit: limit,
                reply: reply)
        }
    }
}

extension StoreAdapter: JobEditor {
    func edit(
        _ id: JobID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (JobDraft) throws(InvalidFields) -> JobDraft,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>
    ) {
        control.edit(id, tenant: tenant, revision: revision, change) { reply($0.map(\.result)) }
    }
}

extension StoreAdapter: AnswerSink {
    func answer(
        _ id: JobID, tenant: String, revision: Int32?, kind: JobQuestion.Kind, askedAt: Timestamp?,
        _ resolve:
            @escaping @Sendable (JobDraft, JobQuestion, Int32) throws(InvalidFields) -> AnswerResolution,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>
    ) {
        control.answer(id, tenant: tenant, revision: revision, kind: kind, askedAt: askedAt, resolve) {
            reply($0.map(\.result))
        }
    }
}

extension JobEdit {
    fileprivate var result: Result<JobRecord, InvalidFields> {
        switch self {
        case .done(let record): .success(record)
        case .refused(let invalid): .failure(invalid)
        }
    }
}

extension StoreAdapter: SessionStore {
    var sessionCache: SessionCache { store.sessionCache }

    func session(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        control.session(key, reply: reply)
    }

    func sessions(
        tenant: String, after name: String?, limit: Int, reply: @escaping Reply<[SessionOverview]>
    ) {
        control.sessions(tenant: tenant, after: name, limit: limit, reply: reply)
    }

    func putSession(
        _ key: SessionKey, _ draft: SessionDraft, if condition: SessionCondition,
        reply: @escaping Reply<SessionPut>
    ) {
        control.putSession(key, draft, if: condition, reply: reply)
    }

    func invalidateSession(
        _ key: SessionKey, _ mode: SessionInvalidation, if condition: SessionCondition,
        reply: @escaping Reply<SessionOverview>
    ) {
        control.invalidateSession(key, mode, if: condition, reply: reply)
    }

    func deleteSession(_ key: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>) {
        control.deleteSession(key, if: condition, reply: reply)
    }
}

extension StoreAdapter: LimitStore {
    func limits(reply: @escaping Reply<TransferLimits>) { control.limits(reply: reply) }

    func changeLimits(
        if isAllowed: @escaping @Sendable (TransferLimits) -> Bool,
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>
    ) {
        control.changeLimits(if: isAllowed, change, reply: reply)
    }
}

extension StoreAdapter: HostStore {
    func hosts(after origin: String, limit: Int, reply: @escaping Reply<[HostRecord]>) {
        control.hosts(after: origin, limit: limit, reply: reply)
    }

    func host(_ origin: String, reply: @escaping Reply<HostRecord>) { control.host(origin, reply: reply) }

    func changeHost(
        _ origin: String, _ patch: HostPatch, if isAllowed: @escaping @Sendable (HostRecord) -> Bool,
        reply: @escaping Reply<Result<HostRecord, InvalidFields>>
    ) {
        control.changeHost(origin, patch, if: isAllowed, reply: reply)
    }
}

extension StoreAdapter: KeyStore {
    func keys(reply: @escaping Reply<[APIKey]>) { control.keys(reply: reply) }

    func keys(before: KeyID?, limit: Int, reply: @escaping Reply<[APIKey]>) {
        control.keys(before: before, limit: limit, reply: reply)
    }

    func key(_ id: KeyID, reply: @escaping Reply<APIKey>) { control.key(id, reply: reply) }

    func create(_ new: NewKey, reply: @escaping Reply<KeyCreation>) { control.createKey(new, reply: reply) }

    func revoke(_ id: KeyID, reply: @escaping Reply<Void>) { control.revokeKey(id, reply: reply) }
}
