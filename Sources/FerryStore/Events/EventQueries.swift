package import FerryCore
import Postgres
import Sys

/// Reads the event log. Any thread.
package final class EventQueries: Sendable {
    private let reads: ReadPool
    private let context: StoreContext
    private let signals: StoreSignals

    init(_ reads: ReadPool, _ context: StoreContext, _ signals: StoreSignals) {
        self.reads = reads
        self.context = context
        self.signals = signals
    }

    /// Rows of one read; each has up to `EventRow.eventCountMax` events.
    private static let rowMax: Int32 = 8
    /// Events whose jobs one statement reads; each may have a large spec.
    fileprivate static let jobChunk = 50

    /// Reads a page of events, newest first. Includes all events committed before the call.
    package func events(_ query: EventQuery, reply: @escaping Reply<ListPage<EventEntry, EventKindTag>>) {
        numbered { [self] in
            reads.readPage(
                "list_events", of: .tenant(query.tenant), EventListReading(query: query, context), reply)
        }
    }

    /// Reads the events of a job, newest first. Fails with `notFound` for another tenant's job.
    package func events(
        of job: JobID, tenant: String, before: EventID?, limit: Int, reply: @escaping Reply<[EventEntry]>
    ) {
        withJob(job, tenant, reply) { [context] record, connection throws(PostgresError) in
            let events = try Self.events(of: record, &connection)
            let earlier = before.map { before in events.filter { $0.id < before } } ?? events
            return try context.entries(Array(earlier.reversed().prefix(limit)), &connection)
        }
    }

    /// Reads the first events of a job after `after`, which may be an event of another job.
    package func events(
        of job: JobID, tenant: String, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>
    ) {
        withJob(job, tenant, reply) { [context] record, connection throws(PostgresError) in
            // Checked before the events are read: an event that gets its number in between is then among
            // them.
            var isComplete = record.state.isTerminal
            if isComplete { isComplete = try !EventNumbering.isMissingNumbers(of: record, &connection) }
            let later = try Self.events(of: record, &connection).filter { $0.id > after }
            return EventReplay(
                entries: try context.entries(Array(later.prefix(limit)), &connection),
                isKnown: try Self.isKnown(EventRow.row(of: after), &connection),
                hasMore: later.count > limit, isOver: isComplete && later.isEmpty)
        }
    }

    /// Reads events after `after` of a tenant, or of one of its sessions. `after` itself may have been
    /// removed.
    package func replay(
        tenant: String, session: String?, after: EventID, limit: Int, reply: @escaping Reply<EventReplay>
    ) {
        reads.read("follow_events", of: .tenant(tenant), reply) {
            [context] connection throws(PostgresError) in
            let first = EventRow.row(of: after)
            let rows = try Self.rows(from: first, tenant, session, &connection)
            let events = rows.flatMap(\.events).filter { $0.id > after }
            // Of any tenant: a stream begins with the latest event of the whole log.
            let isKnown = try Self.isKnown(first, &connection)
            let entries = try context.entries(Array(events.prefix(limit)), &connection)
            return .success(
                EventReplay(
                    entries: entries, isKnown: isKnown,
                    hasMore: events.count > limit || rows.count == Int(Self.rowMax)))
        }
    }

    /// Returns the latest event of the whole log, after all events committed before the call have their
    /// numbers. Zero if the log is empty.
    package func lastEvent(reply: @escaping Reply<EventID>) {
        numbered { [self] in
            reads.read("last_event", of: .service, reply) { connection throws(PostgresError) in
                .success(try Self.lastEvent(&connection))
            }
        }
    }

    // MARK: On a database thread

    /// Calls `body` when events committed before have their numbers, or when that is not possible now.
    private func numbered(_ body: @escaping @Sendable () -> Void) {
        if !signals.events.mailbox.send(.pass(done: body)) { body() }
    }

    /// Passes the job to `body` when its events committed before have their numbers, or when that is not
    /// possible now.
    private func withJob<Value: Sendable>(
        _ id: JobID, _ tenant: String, _ reply: @escaping Reply<Value>,
        _ body: @escaping @Sendable (JobRecord, inout Connection) throws(PostgresError) -> Value
    ) {
        numbered { [self] in
            reads.read("job_events", of: .tenant(tenant), reply) {
                [context] connection throws(PostgresError) in
                let found = try context.job(id, withBodies: false, &connection)
                guard let stored = found, stored.record.tenant == tenant else { return .failure(.notFound) }
                return .success(try body(stored.record, &connection))
            }
        }
    }

    /// Reads all events of a job in their order.
    private static func events(
        of job: JobRecord, _ connection: inout Connection
    ) throws(PostgresError) -> [Event] {
        var parameters = Parameters()
        parameters.append(text: job.tenant)
        // Without a readable spec only marked rows are found.
        parameters.append(text: job.spec?.session)
        parameters.append(job.id)
        let times = [job.createdAt, job.startedAt, job.finishedAt].compactMap(\.self)
        parameters.appendArray(.timestamp, times) { $0.append($1) }
        let rows = EventRow.all(try connection.execute(Statements.jobEvents, parameters))
        return rows.flatMap(\.events).filter { $0.record.job == job.id }.sorted { $0.id < $1.id }
    }

    static func rows(
        from first: EventID, _ tenant: String?, _ session: String?, _ connection: inout Connection
    ) throws(PostgresError) -> [EventRow] {
        var parameters = Parameters()
        parameters.append(first)
        parameters.append(text: tenant)
        parameters.append(text: session)
        parameters.append(int32: rowMax)
        return EventRow.all(try connection.execute(Statements.followEvents, parameters))
    }

    /// Returns whether all events after a row are still in the log.
    private static func isKnown(
        _ row: EventID, _ connection: inout Connection
    ) throws(PostgresError) -> Bool {
        try connection.execute(Statements.hasEvent, .identifier(row)).bool(0, 0)
    }

    static func lastEvent(_ connection: inout Connection) throws(PostgresError) -> EventID {
        let rows = try connection.execute(Statements.lastEvent)
        // The greatest id of its row.
        return rows.rowCount == 1 ? (rows.identifier(0, 0) as EventID).rowEnd : EventID(high: 0, low: 0)
    }
}

extension StoreContext {
    /// Returns the events with their jobs, without bodies. The jobs are read after the events, so that no
    /// event is of a later state than its job.
    func entries(
        _ events: [Event], _ connection: inout Connection
    ) throws(PostgresError) -> [EventEntry] {
        var entries: [EventEntry] = []
        entries.reserveCapacity(events.count)
        for start in stride(from: 0, to: events.count, by: EventQueries.jobChunk) {
            let some = events[start..<min(events.count, start + EventQueries.jobChunk)]
            let jobs = try self.jobs(of: some.map(\.record), withBodies: false, &connection)
            entries += some.map { event in
                EventEntry(event: event, job: event.record.job.flatMap { jobs[$0] }?.record.withoutBody)
            }
        }
        return entries
    }

    /// Reads the jobs of events, with the fields that edited jobs had at the events.
    func jobs(
        of events: [EventRecord], withBodies: Bool, _ connection: inout Connection
    ) throws(PostgresError) -> [JobID: StoredJob] {
        let ids = Array(Set(events.compactMap(\.job)))
        guard !ids.isEmpty else { return [:] }
        var jobs = try self.jobs(ids, withBodies: withBodies, &connection)
        let edited = events.filter { event in
            event.job.flatMap { jobs[$0] }?.record.hasEarlierSpec(at: event) ?? false
        }
        guard !edited.isEmpty else { return jobs }
        var parameters = Parameters()
        parameters.appendArray(.uuid, edited) { $0.append($1.job) }
        parameters.appendArray(.int32, edited) { $0.append(int32: $1.revision) }
        let rows = try connection.execute(Statements.readEarlierSpecs, parameters)
        for row in 0..<rows.rowCount {
            let id: JobID = rows.identifier(row, 0)
            jobs[id]?.add(
                earlierSpec: StoredSpec(rows.bytes(row, 2), of: id, log: damagedRows),
                at: rows.int32(row, 1))
        }
        return jobs
    }
}

/// State of a page of events that is read in several turns.
private struct EventListReading: ListReading {
    /// Rows of the first read, and the maximum of a later one: a row may have one event or hundreds.
    private static let rowCountMin: Int32 = 8
    private static let rowCountMax: Int32 = 64
    /// Seconds by which the clocks of nodes may differ.
    private static let clockSeconds = 60.0

    let query: EventQuery
    private let context: StoreContext
    private var events: [Event] = []
    private var scan = ListScan()
    /// Event after which the next read begins.
    private var last: EventID
    /// The row that was read last.
    private var stoppedAt: EventID?
    private(set) var value: ListPage<EventEntry, EventKindTag>?

    init(query: EventQuery, _ context: StoreContext) {
        self.query = query
        self.context = context
        last = query.before.map(EventRow.row(of:)) ?? .last
    }

    mutating func readTurn(_ connection: inout Connection) throws(PostgresError) {
        var (rowCount, left) = (Self.rowCountMin, scan.turnRowCount)
        while left > 0 {
            let scanned = try read(rowCount, scanning: left, &connection)
            guard let scanned else {
                return value = ListPage(try context.entries(events, &connection))
            }
            left -= scanned
            rowCount = min(rowCount * 2, Self.rowCountMax)
            guard scan.add(scanned) else {
                let entries = try context.entries(events, &connection)
                return value = ListPage(entries, stoppedAt: stoppedAt)
            }
        }
    }

    /// An id below every event since `query.since`; `nil` if the query has no such bound.
    private var lowerBound: EventID? { query.since.map { EventID.first(at: $0 + -Self.clockSeconds) } }

    /// Adds the events of the next rows. Returns the number of rows read, or `nil` if the page is full or the
    /// log ends.
    private mutating func read(
        _ rowCount: Int32, scanning scanCount: Int, _ connection: inout Connection
    ) throws(PostgresError) -> Int? {
        var parameters = Parameters()
        parameters.append(text: query.tenant)
        parameters.append(last)
        parameters.append(text: query.session)
        parameters.append(int32: query.types)
        parameters.append(query.since)
        parameters.append(int32: rowCount)
        parameters.append(lowerBound)
        parameters.append(int32: Int32(scanCount))
        let rows = try connection.execute(Statements.listEvents, parameters)
        for row in 0..<rows.rowCount where !rows.isNull(row, 4) {
            for event in EventRow(rows, row).events.reversed() {
                guard query.admits(event), query.before.map({ event.id < $0 }) ?? true else { continue }
                events.append(event)
                if events.count == query.limit { return nil }
            }
        }
        guard rows.rowCount > 0 else { return nil }
        let end = rows.rowCount - 1
        let scanned = Int(rows.int64(end, 6))
        guard rows.rowCount == Int(rowCount) || scanned == scanCount else { return nil }
        let row: EventID = rows.identifier(end, 0)
        // The scan of a session does not stop there by itself.
        if let lowerBound, row < lowerBound { return nil }
        (stoppedAt, last) = (row, row.predecessor)
        return scanned
    }
}

extension JobRecord {
    fileprivate var withoutBody: JobRecord {
        var record = self
        record.body = nil
        return record
    }
}

extension EventRow {
    /// Reads rows of list_events.sql and of statements with the same columns.
    static func all(_ rows: consuming ResultSet) -> [EventRow] {
        var all: [EventRow] = []
        for row in 0..<rows.rowCount { all.append(EventRow(rows, row)) }
        return all
    }

    fileprivate init(_ rows: borrowing ResultSet, _ row: Int) {
        self.init(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1), session: rows.text(row, 2),
            firstSequence: rows.int64(row, 3), packed: rows.bytes(row, 4),
            notBefore: rows.instantOrNil(row, 5))
    }
}

extension Identifier<EventKindTag> {
    fileprivate var predecessor: Self {
        low == 0 ? Self(high: high &- 1, low: .max) : Self(high: high, low: low - 1)
    }

    /// The highest possible id of its row, below all ids of the next row.
    var rowEnd: Self { Self(high: high, low: low | 0xFFFF) }
}
