package import FerryCore
internal import HTTPServer

/// Stores schedules. A schedule of another tenant is `notFound`. `revision`: the one that `If-Match` names,
/// as in `JobControl`.
package protocol ScheduleStore: Sendable {
    /// Stores a new schedule. A repeated `idempotency` key replies with the first one.
    func createSchedule(
        _ schedule: NewSchedule, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<ScheduleRecord>>)
    /// Replies with the schedule that was created with this key; `notFound` if there is none or it was
    /// deleted since. A key of another request is `idempotencyKeyReused`.
    func schedule(createdWith key: Submission.Idempotency, reply: @escaping Reply<ScheduleRecord>)
    /// Replies with one schedule.
    func schedule(_ id: ScheduleID, tenant: String, reply: @escaping Reply<ScheduleRecord>)
    /// Replies with schedules, newest first, only those before `before`.
    func schedules(
        tenant: String, before: ScheduleID?, limit: Int, reply: @escaping Reply<[ScheduleRecord]>)
    /// Changes a schedule, and its jobs unless `jobs` is `nil`. The store may call `change` more than
    /// once.
    func changeSchedule(
        _ id: ScheduleID, tenant: String, revision: Int32?, jobs: ScheduleJobs?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec, reply: @escaping Reply<ScheduleRecord>)
    /// Deletes a schedule.
    func deleteSchedule(_ id: ScheduleID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Submits the schedule's jobs now, in addition to its times.
    func runSchedule(
        _ id: ScheduleID, tenant: String, _ idempotency: Submission.Idempotency?, traceparent: String,
        reply: @escaping Reply<ScheduleRun>)
}

/// Creates, shows, changes, runs and deletes schedules.
final class ScheduleHandlers: Sendable {
    private let store: any ScheduleStore
    private let zones: any TimeZoneSource
    private let clock: any WallClock
    private let identifiers: IdentifierGenerator
    private let validation: JobValidation
    private let references: JobReferenceCheck
    private let view: JobView
    private let batches: BatchThread

    init(
        _ ports: APIPorts, _ identifiers: IdentifierGenerator, _ validation: JobValidation,
        _ references: JobReferenceCheck, _ view: JobView, _ batches: BatchThread
    ) {
        store = ports.store.schedules
        zones = ports.zones
        clock = ports.clock
        self.identifiers = identifiers
        self.validation = validation
        self.references = references
        self.view = view
        self.batches = batches
    }

    /// `POST /v1/schedules`
    func create(_ request: RequestContext) throws(Problem) {
        try batches.run(request) { [self] () throws(Problem) in try createNow(request) }
    }

    private func createNow(_ request: RequestContext) throws(Problem) {
        let json = try request.json()
        let key = try request.idempotency([json])
        let valid: ValidatedSchedule
        do throws(Problem) {
            valid = try validatedSchedule(json, request)
        } catch {
            return refuse(request, key, error)
        }
        let schedule = NewSchedule(
            id: identifiers.make(), tenant: request.tenant, spec: valid.spec, jobs: valid.jobs)
        checkSources(of: valid.jobs, request, key) { [store] in
            store.createSchedule(
                schedule, key, reply: request.onSuccess { sendCreated($0, request) })
        }
    }

    /// Refuses a request, unless its key was accepted before: time, a session or the egress policy may have
    /// made it invalid since.
    private func refuse(_ request: RequestContext, _ key: Submission.Idempotency?, _ problem: Problem) {
        guard let key else { return request.fail(problem) }
        store.schedule(createdWith: key) { result in
            if case .failure(.notFound) = result { return request.fail(problem) }
            request.onSuccess { sendCreated(Created($0, isReplay: true), request) }(result)
        }
    }

    private func validatedSchedule(
        _ json: JSONView, _ request: RequestContext
    ) throws(Problem) -> ValidatedSchedule {
        let sessions = validation.sessions(of: request)
        // The jobs of a sample run.
        var jobs: [NewJob] = []
        let schedule = try valid(
            try ValidatedSchedule(json, zones: zones, now: clock.now()) {
                json, pointer, earlierJob throws(InvalidFields) in
                let job = try validation.validate(
                    json, at: pointer, request, sessions, earlierJob: earlierJob)
                jobs.append(
                    NewJob(
                        id: JobID(placeInList: jobs.count), tenant: request.tenant, job, specJSON: [],
                        sealedSecrets: nil, traceparent: nil, retryOf: nil))
                return job
            })
        let conflicts = BatchDestinations(jobs).conflicts(place: schedule.jobs.place)
        guard conflicts.isEmpty else { throw Problem(InvalidFields(conflicts)) }
        return schedule
    }

    /// `GET /v1/schedules`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: ScheduleID.self)
        store.schedules(
            tenant: request.tenant, before: before, limit: limit + 1,
            reply: request.onSuccess { schedules in
                let page = Page(schedules, limit: limit) { $0.id }
                page.send(request, reservingCapacity: page.shown.count * 2_560) {
                    $0.view(for: request.disclosure).show(into: &$1, isRedacted: false)
                }
            })
    }

    /// `GET /v1/schedules/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        store.schedule(
            try request.identifier(ScheduleID.self), tenant: request.tenant,
            reply: request.onSuccess { send($0, 200, request) })
    }

    /// `PUT /v1/schedules/{id}`: replaces the whole schedule, its jobs included.
    func replace(_ request: RequestContext) throws(Problem) {
        try batches.run(request) { [self] () throws(Problem) in try replaceNow(request) }
    }

    private func replaceNow(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(ScheduleID.self)
        let valid = try validatedSchedule(request.json(), request)
        checkSources(of: valid.jobs, request, nil) { [self] in
            change(id, request, jobs: valid.jobs) { _ in valid.spec }
        }
    }

    /// Calls `then` if the jobs and uploads exist whose bytes the jobs of a schedule send.
    private func checkSources(
        of jobs: ScheduleJobs, _ request: RequestContext, _ key: Submission.Idempotency?,
        then: @escaping @Sendable () -> Void
    ) {
        let specs = jobs.requests.map(\.spec)
        references.checkSources(of: specs, request, key, place: jobs.place) { [references] in
            references.checkUploads(of: specs, request, key, place: jobs.place, then: then)
        }
    }

    /// `DELETE /v1/schedules/{id}`
    func delete(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(ScheduleID.self)
        request.changing(
            { [store] revision, reply in
                store.deleteSchedule(id, tenant: request.tenant, revision: revision, reply: reply)
            }, then: request.onSuccess { request.send(Response(status: 204)) })
    }

    /// `POST /v1/schedules/{id}/run`
    func run(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(ScheduleID.self)
        try request.needEmptyObject()
        store.runSchedule(
            id, tenant: request.tenant, try request.idempotency(),
            traceparent: traceContext(request.fields),
            reply: request.onSuccess { [view] run in
                switch run {
                case .job(let created):
                    view.sendCreated(
                        created.record, isReplay: created.isReplay, isNew: created.isNew, to: request)
                case .jobs(let accepted): sendBatch(accepted, request)
                }
            })
    }

    /// `POST /v1/schedules/{id}/pause`
    func pause(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(ScheduleID.self)
        try request.needEmptyObject()
        enable(id, request, false)
    }

    /// `POST /v1/schedules/{id}/resume`. Without the rules of its time zone the next run cannot be computed.
    func resume(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(ScheduleID.self)
        try request.needEmptyObject()
        store.schedule(
            id, tenant: request.tenant,
            reply: request.onSuccess { [self] record throws(Problem) in
                guard zones.rules(named: record.spec.timeZone) != nil else {
                    throw Problem(
                        InvalidFields(
                            "#/time_zone", "invalid_value",
                            "This node no longer knows the schedule's time zone. Replace the schedule."))
                }
                enable(id, request, true)
            })
    }

    private func enable(_ id: ScheduleID, _ request: RequestContext, _ isEnabled: Bool) {
        change(id, request, jobs: nil) { spec in
            var spec = spec
            spec.isEnabled = isEnabled
            return spec
        }
    }

    private func change(
        _ id: ScheduleID, _ request: RequestContext, jobs: ScheduleJobs?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec
    ) {
        request.changing(
            { [store] revision, reply in
                store.changeSchedule(
                    id, tenant: request.tenant, revision: revision, jobs: jobs, change, reply: reply)
            }, then: request.onSuccess { send($0, 200, request) })
    }
}

private func sendCreated(_ created: Created<ScheduleRecord>, _ request: RequestContext) {
    send(
        created.record, 201, request,
        [("Location", "/v1/schedules/\(created.record.id)")] + (created.isReplay ? replayed : []))
}

private func send(
    _ record: ScheduleRecord, _ status: Int, _ request: RequestContext,
    _ extra: [(name: String, value: String)] = []
) {
    request.send(status, tag: entityTag(revision: record.revision), extra) {
        record.view(for: request.disclosure)
            .shown(
                isRedacted: false,
                reservingCapacity: record.templates.reduce(2_048) { $0 + $1.json.count })
    }
}

extension ScheduleJobs {
    /// Returns the JSON Pointer to a job in the body of the schedule.
    fileprivate func place(_ index: Int) -> String { list == nil ? "#/job" : "#/jobs/\(index)" }
}
