import FerryAPI
import FerryCore
import FerryStore

extension StoreAdapter: WindowStore {
    func windows(reply: @escaping Reply<OffPeakWindows>) { control.windows(reply: reply) }

    func changeWindows(
        if isAllowed: @escaping @Sendable (OffPeakWindows) -> Bool,
        _ change: @escaping @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows,
        reply: @escaping Reply<Result<OffPeakWindows, InvalidFields>>
    ) {
        control.changeWindows(if: isAllowed, change) { [store] result in
            store.schedules.wake()
            reply(result)
        }
    }
}

extension StoreAdapter: ScheduleStore {
    func create(
        _ schedule: NewSchedule, idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<ScheduleRecord>>
    ) {
        control.createSchedule(schedule, idempotency) { [store] result in
            store.schedules.wake()
            reply(result.map { Created($0.record, isReplay: $0.isReplay) })
        }
    }

    func schedule(createdWith key: Submission.Idempotency, reply: @escaping Reply<ScheduleRecord>) {
        control.schedule(createdWith: key, reply: reply)
    }

    func schedule(_ id: ScheduleID, tenant: String, reply: @escaping Reply<ScheduleRecord>) {
        control.schedule(id, tenant: tenant, reply: reply)
    }

    func schedules(
        tenant: String, before: ScheduleID?, limit: Int, reply: @escaping Reply<[ScheduleRecord]>
    ) {
        control.schedules(tenant: tenant, before: before, limit: limit, reply: reply)
    }

    func change(
        _ id: ScheduleID, tenant: String, revision: Int32?, template: JobTemplate?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec, reply: @escaping Reply<ScheduleRecord>
    ) {
        control.changeSchedule(id, tenant: tenant, revision: revision, template: template, change) {
            [store] result in
            store.schedules.wake()
            reply(result)
        }
    }

    func delete(_ id: ScheduleID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        control.deleteSchedule(id, tenant: tenant, revision: revision, reply: reply)
    }

    func run(
        _ id: ScheduleID, tenant: String, idempotency: Submission.Idempotency?, traceparent: String,
        reply: @escaping Reply<Created<JobRecord>>
    ) {
        control.runSchedule(id, tenant: tenant, idempotency, traceparent: traceparent) { result in
            reply(result.map { Created($0.record, isReplay: $0.isReplay) })
        }
    }
}
