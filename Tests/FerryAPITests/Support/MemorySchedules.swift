import FerryAPI
import FerryCore
import Synchronization

extension MemoryStore: WindowStore {
    func windows(reply: @escaping Reply<OffPeakWindows>) { reply(.success(state.withLock { $0.windows })) }

    func changeWindows(
        if isAllowed: @escaping @Sendable (OffPeakWindows) -> Bool,
        _ change: @escaping @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows,
        reply: @escaping Reply<Result<OffPeakWindows, InvalidFields>>
    ) {
        do throws(InvalidFields) {
            let before = state.withLock { $0.windows }
            let windows = try change(before)
            guard isAllowed(before) else { return reply(.failure(.stale(revision: nil))) }
            state.withLock { $0.windows = windows }
            reply(.success(.success(windows)))
        } catch {
            reply(.success(.failure(error)))
        }
    }
}

extension MemoryStore: ScheduleStore {
    private func changed(
        _ id: ScheduleID, _ tenant: String, _ revision: Int32?, _ change: (inout ScheduleRecord) -> Void
    ) -> Result<ScheduleRecord, StoreError> {
        state.withLock { state in
            guard var record = state.schedules[id], record.tenant == tenant else {
                return .failure(.notFound)
            }
            if let revision, revision != record.revision {
                return .failure(.stale(revision: record.revision))
            }
            change(&record)
            state.schedules[id] = record
            return .success(record)
        }
    }

    func createSchedule(
        _ schedule: NewSchedule, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<ScheduleRecord>>
    ) {
        let now = Timestamp(microseconds: 0)
        let record = ScheduleRecord(
            id: schedule.id, tenant: schedule.tenant, revision: 1, createdAt: now, updatedAt: now,
            spec: schedule.spec, templates: schedule.jobs.requests.map { StoredSpec($0.spec.encodeStored()) },
            list: schedule.jobs.list)
        state.withLock { state in
            state.schedules[schedule.id] = record
            state.scheduledJobs[schedule.id] = schedule.jobs
            if let key = idempotency { state.scheduleKeys["\(key.tenant) \(key.key)"] = schedule.id }
        }
        reply(.success(Created(record, isReplay: false)))
    }

    func schedule(createdWith key: Submission.Idempotency, reply: @escaping Reply<ScheduleRecord>) {
        let id = state.withLock { $0.scheduleKeys["\(key.tenant) \(key.key)"] }
        guard let id else { return reply(.failure(.notFound)) }
        schedule(id, tenant: key.tenant, reply: reply)
    }

    func schedule(_ id: ScheduleID, tenant: String, reply: @escaping Reply<ScheduleRecord>) {
        reply(changed(id, tenant, nil) { _ in })
    }

    func schedules(
        tenant: String, before: ScheduleID?, limit: Int, reply: @escaping Reply<[ScheduleRecord]>
    ) {
        let all = state.withLock { Array($0.schedules.values) }
        let page = all.filter { record in
            record.tenant == tenant && (before.map { record.id < $0 } ?? true)
        }
        reply(.success(Array(page.sorted { $0.id > $1.id }.prefix(limit))))
    }

    func changeSchedule(
        _ id: ScheduleID, tenant: String, revision: Int32?, jobs: ScheduleJobs?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec, reply: @escaping Reply<ScheduleRecord>
    ) {
        reply(
            changed(id, tenant, revision) { record in
                record.spec = change(record.spec)
                record.revision += 1
                if let jobs {
                    record.templates = jobs.requests.map { StoredSpec($0.spec.encodeStored()) }
                    record.list = jobs.list
                }
            })
    }

    func deleteSchedule(_ id: ScheduleID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        let found = changed(id, tenant, revision) { _ in }
        if case .success = found { state.withLock { _ = $0.schedules.removeValue(forKey: id) } }
        reply(found.map { _ in })
    }

    func runSchedule(
        _ id: ScheduleID, tenant: String, _ idempotency: Submission.Idempotency?, traceparent: String,
        reply: @escaping Reply<ScheduleRun>
    ) {
        reply(
            changed(id, tenant, nil) { _ in }.map { record in
                let ids = record.templates.indices.map { JobID(high: 7, low: UInt64(7 + $0)) }
                guard record.list == nil else {
                    let jobs = ids.map { id in
                        Submission.Accepted.Job(
                            id: id, state: .queued, waitingFor: nil, createdAt: record.createdAt,
                            startedAt: nil, node: nil, nextAttemptAt: nil)
                    }
                    return .jobs(Submission.Accepted(jobs: jobs, isReplay: false))
                }
                let job = JobRecord(
                    id: ids[0], tenant: tenant, state: .queued, waitingFor: nil, revision: 1,
                    attempt: 0, failedAttemptCount: 0, node: nil, createdAt: record.createdAt, startedAt: nil,
                    retryOf: nil, storedSpec: record.templates[0])
                return .job(Created(job, isReplay: false))
            })
    }
}
