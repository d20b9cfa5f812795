import FerryAPI
import FerryCore
import FerryEngine
import FerryStore
import Glibc

// The API's ports over the store.

/// What the API asks of the store, in the API's words.
struct StoreDoor: JobIntake {
    let store: Store
    let paths: StoragePaths
    let engine: Engine?
    let health: Health
    let throughput = Throughput()
    let openSecrets: @Sendable ([UInt8]) -> JobSecrets?

    var control: ControlLane { store.control }

    func submit(_ submission: Submission) { store.intake.submit(submission) }
}

extension StoreDoor: JobReader, JobControl {
    func job(_ id: JobID, tenant: String, reply: @escaping FerryAPI.Reply<JobRecord>) {
        control.job(id, tenant: tenant) { reply($0.map(\.record)) }
    }

    func jobs(_ query: FerryAPI.JobQuery, reply: @escaping FerryAPI.Reply<[JobRecord]>) {
        control.jobs(
            FerryStore.JobQuery(
                tenant: query.tenant, session: query.session, state: query.state, kind: query.kind,
                host: query.host, createdAfter: query.createdAfter, metadata: query.metadata, before: query.before,
                limit: query.limit),
            reply: reply)
    }

    func cancel(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping FerryAPI.Reply<JobRecord>) {
        control.cancel(id, tenant: tenant, revision: revision, reply: reply)
    }

    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping FerryAPI.Reply<Void>) {
        let kept = "\(paths.kept)/\(KeptFiles.path(for: id))"
        control.delete(id, tenant: tenant, revision: revision) { result in
            // The row is gone: a file that a crash leaves behind here belongs to nobody and is found by its name.
            if case .success = result { unlink(kept) }
            reply(result.map { _ in })
        }
    }

    func retrySource(_ id: JobID, tenant: String, reply: @escaping FerryAPI.Reply<RetrySource>) {
        control.job(id, tenant: tenant) { result in
            reply(
                result.flatMap { stored in
                    guard stored.record.state.isTerminal else { return .failure(.invalidState(stored.record.state)) }
                    guard let sealed = stored.sealedSecrets else {
                        return .success(RetrySource(record: stored.record, secrets: JobSecrets(), payload: stored.payload))
                    }
                    guard let secrets = openSecrets(sealed) else { return .failure(.failed) }
                    return .success(RetrySource(record: stored.record, secrets: secrets, payload: stored.payload))
                })
        }
    }
}

extension StoreDoor: DeliveryReader {
    func deliveries(of job: JobID, tenant: String, reply: @escaping FerryAPI.Reply<[FerryAPI.DeliveryRecord]>) {
        control.job(job, tenant: tenant) { found in
            if case .failure(let error) = found { return reply(.failure(error)) }
            control.deliveries(tenant: tenant, job: job, limit: Limits.listLimitMax) { result in
                reply(result.map { $0.compactMap { FerryAPI.DeliveryRecord($0, tries: []) } })
            }
        }
    }

    func delivery(_ id: DeliveryID, tenant: String, reply: @escaping FerryAPI.Reply<FerryAPI.DeliveryRecord>) {
        control.delivery(id, tenant: tenant) { result in
            reply(
                result.flatMap { stored, tries in
                    guard let record = FerryAPI.DeliveryRecord(stored, tries: tries) else { return .failure(.failed) }
                    return .success(record)
                })
        }
    }

    func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping FerryAPI.Reply<FerryAPI.DeliveryRecord>) {
        control.redeliver(id, tenant: tenant) { result in
            switch result {
            case .success: delivery(id, tenant: tenant, reply: reply)
            case .failure(let error): reply(.failure(error))
            }
        }
    }
}

extension FerryAPI.DeliveryRecord {
    fileprivate init?(_ stored: FerryStore.DeliveryRecord, tries: [DeliveryTryRecord]) {
        guard let type = EventType(rawValue: stored.type), let state = State(rawValue: stored.state.rawValue) else {
            return nil
        }
        self.init(
            id: stored.id, event: stored.event, type: type, job: stored.job, session: stored.session,
            sequence: stored.sequence, url: stored.url, state: state, occurredAt: stored.occurredAt,
            nextTryAt: stored.nextTryAt,
            tries: tries.map {
                Try(
                    number: $0.number, startedAt: $0.startedAt, duration: $0.durationSeconds,
                    status: $0.status.map(Int.init), error: $0.error, answer: $0.answer)
            })
    }
}

extension StoreDoor: KeyStore {
    func keys(reply: @escaping FerryAPI.Reply<[APIKey]>) {
        control.keys { result in
            reply(
                result.map { records in
                    records.compactMap { record in
                        Role(rawValue: record.role.rawValue).map { role in
                            APIKey(
                                id: record.id, tenant: record.tenant, role: role, name: record.name,
                                hash: record.hash, createdAt: record.createdAt, revokedAt: record.revokedAt)
                        }
                    }
                })
        }
    }

    func create(_ key: APIKey, reply: @escaping FerryAPI.Reply<Void>) {
        guard let role = KeyRecord.Role(rawValue: key.role.rawValue) else { return reply(.failure(.failed)) }
        control.createKey(
            KeyRecord(
                id: key.id, tenant: key.tenant, role: role, name: key.name, hash: key.hash, createdAt: key.createdAt),
            reply: reply)
    }

    func revoke(_ id: KeyID, reply: @escaping FerryAPI.Reply<Void>) {
        control.revokeKey(id, reply: reply)
    }
}
