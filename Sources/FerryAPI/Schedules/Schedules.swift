package import FerryCore
internal import HTTPServer

/// What a creation became.
package struct Created<Record: Sendable>: Sendable {
    package let record: Record
    /// The same key and body were accepted before.
    package let isReplay: Bool
    package init(_ record: Record, isReplay: Bool) {
        self.record = record
        self.isReplay = isReplay
    }
}

/// Keeps schedules. Another tenant's is `notFound`; `revision`: what `If-Match` names, as in `JobControl`.
package protocol ScheduleStore: Sendable {
    func create(
        _ schedule: NewSchedule, idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<ScheduleRecord>>)
    /// The one that was created with this key; `notFound` also when it was deleted since. Of another request
    /// the key is `idempotencyKeyReused`.
    func schedule(createdWith key: Submission.Idempotency, reply: @escaping Reply<ScheduleRecord>)
    func schedule(_ id: ScheduleID, tenant: String, reply: @escaping Reply<ScheduleRecord>)
    /// Newest first, only those before `before`.
    func schedules(
        tenant: String, before: ScheduleID?, limit: Int, reply: @escaping Reply<[ScheduleRecord]>)
    /// `template` nil: the job stays. `change` may be asked more than once.
    func change(
        _ id: ScheduleID, tenant: String, revision: Int32?, template: JobTemplate?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec, reply: @escaping Reply<ScheduleRecord>)
    func delete(_ id: ScheduleID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Submits its job now, whatever its times say.
    func run(
        _ id: ScheduleID, tenant: String, idempotency: Submission.Idempotency?, traceparent: String,
        reply: @escaping Reply<Created<JobRecord>>)
}

extension API {
    /// `POST /v1/schedules`
    func createSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let idempotency = try idempotency(call)
            let valid: ValidatedSchedule
            do throws(Problem) {
                valid = try validatedSchedule(call)
            } catch {
                return refuseSchedule(call, idempotency, error)
            }
            let schedule = NewSchedule(
                id: identifiers.make(), tenant: call.principal.tenant, spec: valid.spec,
                template: template(valid.job))
            afterSources(of: valid.job.spec, call, idempotency, place: "#/job") { [self] in
                ports.schedules.create(schedule, idempotency: idempotency) { result in
                    switch result {
                    case .failure(let error): call.fail(error)
                    case .success(let created): sendCreatedSchedule(created, call)
                    }
                }
            }
        }
    }

    /// What cannot be accepted, unless it was accepted before: time, a session or the egress policy may have
    /// made it wrong since.
    private func refuseSchedule(_ call: RequestContext, _ key: Submission.Idempotency?, _ problem: Problem) {
        guard let key else { return call.fail(problem) }
        ports.schedules.schedule(createdWith: key) { result in
            switch result {
            case .failure(.notFound): call.fail(problem)
            case .failure(let error): call.fail(error)
            case .success(let record): sendCreatedSchedule(Created(record, isReplay: true), call)
            }
        }
    }

    private func validatedSchedule(_ call: RequestContext) throws(Problem) -> ValidatedSchedule {
        let json = try call.json()
        let sessions = scope(call)
        do throws(InvalidFields) {
            return try ValidatedSchedule(json, zones: ports.zones, now: ports.clock.now()) {
                job throws(InvalidFields) in
                try validate(job, at: "#/job", call, sessions)
            }
        } catch {
            throw Problem(error)
        }
    }

    private func template(_ job: ValidatedJob) -> JobTemplate {
        JobTemplate(
            specJSON: job.spec.encodeStored(ports.secrets),
            sealedSecrets: job.secrets.isEmpty ? nil : ports.seal(job.secrets.encode()), payload: job.payload)
    }

    /// `GET /v1/schedules`
    func listSchedules(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let (limit, before) = try call.page { cursor throws(Problem) -> ScheduleID in try position(cursor)
            }
            ports.schedules.schedules(tenant: call.principal.tenant, before: before, limit: limit + 1) {
                result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let schedules):
                    let page = Page(schedules, limit: limit) { $0.id }
                    page.send(call, reservingCapacity: page.shown.count * 2_560) {
                        $0.write(into: &$1, for: call.disclosure)
                    }
                }
            }
        }
    }

    /// `GET /v1/schedules/{id}`
    func readSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(ScheduleID.self)
            ports.schedules.schedule(id, tenant: call.principal.tenant) { answer($0, call) }
        }
    }

    /// `PUT /v1/schedules/{id}`: everything that it is to be, its job included.
    func replaceSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(ScheduleID.self)
            let valid = try validatedSchedule(call)
            let template = template(valid.job)
            afterSources(of: valid.job.spec, call, nil, place: "#/job") { [self] in
                change(id, call, template: template) { _ in valid.spec }
            }
        }
    }

    /// `DELETE /v1/schedules/{id}`
    func deleteSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(ScheduleID.self)
            call.changing { [self] revision, reply in
                ports.schedules.delete(id, tenant: call.principal.tenant, revision: revision, reply: reply)
            } then: { (result: Result<Void, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success: call.send(Response(status: 204))
                }
            }
        }
    }

    /// `POST /v1/schedules/{id}/run`
    func runSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(ScheduleID.self)
            try needEmptyObject(call)
            ports.schedules.run(
                id, tenant: call.principal.tenant, idempotency: try idempotency(call),
                traceparent: traceContext(call.fields)
            ) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let created):
                    send(
                        created.record, 201, call,
                        [("Location", "/v1/jobs/\(created.record.id)")]
                            + (created.isReplay ? replayed : []))
                }
            }
        }
    }

    /// `POST /v1/schedules/{id}/pause`
    func pauseSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(ScheduleID.self)
            try needEmptyObject(call)
            enable(id, call, false)
        }
    }

    /// `POST /v1/schedules/{id}/resume`. Without the rules of its zone nobody could say when it runs.
    func resumeSchedule(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(ScheduleID.self)
            try needEmptyObject(call)
            ports.schedules.schedule(id, tenant: call.principal.tenant) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let record) where ports.zones.rules(named: record.spec.timeZone) == nil:
                    call.fail(
                        Problem(
                            InvalidFields(
                                "#/time_zone", "invalid_value",
                                "The schedule's time zone is not known here any more.")))
                case .success: enable(id, call, true)
                }
            }
        }
    }

    private func enable(_ id: ScheduleID, _ call: RequestContext, _ isEnabled: Bool) {
        change(id, call, template: nil) { spec in
            var spec = spec
            spec.isEnabled = isEnabled
            return spec
        }
    }

    private func change(
        _ id: ScheduleID, _ call: RequestContext, template: JobTemplate?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec
    ) {
        call.changing { [self] revision, reply in
            ports.schedules.change(
                id, tenant: call.principal.tenant, revision: revision, template: template, change,
                reply: reply)
        } then: { (result: Result<ScheduleRecord, StoreError>) in
            answer(result, call)
        }
    }
}

private func answer(_ result: Result<ScheduleRecord, StoreError>, _ call: RequestContext) {
    switch result {
    case .failure(let error): call.fail(error)
    case .success(let record): sendSchedule(record, 200, call)
    }
}

private func sendCreatedSchedule(_ created: Created<ScheduleRecord>, _ call: RequestContext) {
    sendSchedule(
        created.record, 201, call,
        [("Location", "/v1/schedules/\(created.record.id)")] + (created.isReplay ? replayed : []))
}

private func sendSchedule(
    _ record: ScheduleRecord, _ status: Int, _ call: RequestContext,
    _ extra: [(name: String, value: String)] = []
) {
    call.send(status, tag: entityTag(revision: record.revision), extra) {
        var writer = JSONWriter(reservingCapacity: record.jobJSON.count + 2_048)
        record.write(into: &writer, for: call.disclosure)
        return writer.bytes
    }
}
