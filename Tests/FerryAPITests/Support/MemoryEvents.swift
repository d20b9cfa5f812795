import FerryAPI
import FerryCore
import Synchronization

extension MemoryStore {
    /// Adds an event to the log and passes it to the sink.
    func addEvent(_ type: EventType, _ job: JobID?, tenant: String = "default", session: String = "default") {
        let (entry, sink) = state.withLock { state in
            let number = UInt64(state.events.count + 1)
            let record = EventRecord(
                type, job: job, at: Timestamp(microseconds: Int64(number) * 1_000_000), attempt: 1,
                revision: 2,
                state: type.isTerminal ? .succeeded : .running)
            let event = Event(
                id: EventID(high: 1, low: number), tenant: tenant, session: session, sequence: Int64(number),
                timestamp: record.occurredAt, record: record)
            let entry = EventEntry(event: event, job: job.flatMap { state.jobs[$0] })
            state.events.append(entry)
            return (entry, state.sink)
        }
        if let sink, sink.wants(entry.event) { sink.receive([entry]) }
    }

    func events(_ query: EventQuery, reply: @escaping Reply<ListPage<EventEntry, EventKindTag>>) {
        let found = state.withLock { $0.events }.reversed().filter { entry in
            entry.event.tenant == query.tenant && query.admits(entry.event)
                && query.before.map { entry.event.id < $0 } ?? true
        }
        reply(.success(ListPage(Array(found.prefix(query.limit)))))
    }

    func events(
        of job: JobID, tenant: String, before: EventID?, limit: Int, reply: @escaping Reply<[EventEntry]>
    ) {
        events(of: job, tenant: tenant, after: EventID(high: 0, low: 0), limit: .max) { result in
            reply(result.map { Array($0.entries.reversed().prefix(limit)) })
        }
    }

    func events(
        of job: JobID, tenant: String, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>
    ) {
        self.job(job, tenant: tenant) { [self] found in
            let (events, isWhole) = state.withLock { ($0.events, !$0.hasUnnumberedEvents) }
            let later = events.filter { $0.event.record.job == job && $0.event.id > after }
            reply(
                found.map { job in
                    EventReplay(
                        entries: Array(later.prefix(limit)), isKnown: isKnown(after),
                        hasMore: later.count > limit,
                        isOver: isWhole && later.isEmpty && job.state.isTerminal)
                })
        }
    }

    /// Whether the log has the events after `id`. Zero is known: the log removes no events.
    private func isKnown(_ id: EventID) -> Bool {
        id == EventID(high: 0, low: 0) || state.withLock { $0.events }.contains { $0.event.id == id }
    }

    func replay(
        tenant: String, session: String?, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>
    ) {
        let all = state.withLock { $0.events }.filter { $0.event.tenant == tenant }
        let next = all.filter { $0.event.id > after && (session == nil || session == $0.event.session) }
        reply(
            .success(
                EventReplay(
                    entries: Array(next.prefix(limit)), isKnown: isKnown(after),
                    hasMore: next.count > limit)))
    }

    func lastEvent(reply: @escaping Reply<EventID>) {
        reply(.success(state.withLock { $0.events.last?.event.id } ?? EventID(high: 0, low: 0)))
    }

    func follow(_ sink: any EventSink, ready: @escaping @Sendable () -> Void) {
        state.withLock { $0.sink = sink }
        ready()
    }

    func stopFollowing(unless isNeeded: @escaping @Sendable () -> Bool) {
        if !isNeeded() { state.withLock { $0.sink = nil } }
    }
}
