import FerryCore
import Logging
import Postgres
import Synchronization

/// One pass of the relay: takes events from the inbox, numbers them, adds them to the log and creates their
/// deliveries (steps 3 to 6 of `EventRelay`). An advisory lock, held until the commit is visible, lets one
/// pass run at a time.
struct RelayTransaction {
    struct Outcome {
        var eventCount = 0
        var deliveryCount = 0
        /// `true` if the inbox may have more rows.
        var isFull = false
        /// The tenant with most of the deliveries, if a pass could not create them all: its other events are
        /// left for later passes. Otherwise `nil`.
        var busyTenant: String?
        /// `true` if sessions have drained: their final event is due after their deliveries.
        var hasDrained = false
        /// `true` if jobs depend on groups that have finished.
        var hasDependencyWork = false
        /// Microseconds since the oldest event of the pass happened.
        var lagMicroseconds: Int64 = 0
        /// Tenant and session of the row that was set aside.
        var rejected: (tenant: String, session: String)?
    }

    /// Advisory lock "ferryeve".
    private static let lock: Int64 = 0x6665_7272_7965_7665

    /// Events of one session in the inbox.
    struct Group {
        let tenant: String
        let session: String
        var packed: [UInt8] = []
        var entries: [EventRecord.Packed] = []
        /// Index of each entry among all events of the pass.
        var places: [Int] = []
        var firstSequence: Int64 = 0
        /// The time that the session's event before these shows, or `nil`.
        var lastTimestamp: Timestamp?

        /// When the latest of the events happened.
        var latest: Timestamp? { entries.map(\.occurredAt).max() }
        var growth: Int64 {
            entries.reduce(0) { growth, entry in
                guard let type = entry.record?.type else { return growth }
                return growth + (type == .jobCreated ? 1 : type.isTerminal ? -1 : 0)
            }
        }
        var hasEnded: Bool { entries.contains { $0.record?.type.isTerminal == true } }
    }

    let numbering: EventNumbering
    var outcome = Outcome()
    private var lastID: EventID?
    let handover: DeliveryHandover?
    /// Jobs that the same transaction has finished.
    private let finished: [JobID: EventJob]

    /// Runs a pass. Waits for the pass of another node. `handover`: the caller reports commit or failure to
    /// it.
    static func commit(
        _ connection: inout Connection, _ numbering: EventNumbering, _ selection: InboxSelection,
        handover: DeliveryHandover? = nil
    ) throws(PostgresError) -> Outcome {
        try connection.transaction { connection throws(PostgresError) in
            var pass = RelayTransaction(numbering, handover)
            try pass.run(selection, makesDeliveries: true, &connection)
            return pass.outcome
        }
    }

    /// Number of results that a transaction may write if it includes a pass: those of a node that is nearly
    /// idle. A pass that waits for one commit less is then worth more than the time for which it holds its
    /// locks.
    static let resultMax = 2
    /// Rows of the inbox that such a pass takes at most; the relay takes the others.
    private static let joinedRowMax: Int32 = 16

    /// Sends the statement that begins a pass within the caller's transaction.
    static func begin(in pipeline: inout Pipeline) {
        pipeline.send(Statements.tryLockRelay, .int64(lock))
    }

    /// Runs a pass within the caller's transaction, unless another pass is under way: then returns `nil`, and
    /// the events stay in the inbox. `begun`: the result of the statement of `begin`. `finished`: jobs that
    /// the transaction has finished.
    static func run(
        begun: consuming ResultSet, _ connection: inout Connection, _ numbering: EventNumbering,
        handover: DeliveryHandover, finished: [JobID: EventJob]
    ) throws(PostgresError) -> Outcome? {
        guard begun.bool(0, 0) else { return nil }
        var pass = RelayTransaction(numbering, handover, finished)
        let lowWatermark = numbering.signals.events.lowWatermark.load(ordering: .relaxed)
        try pass.run(
            InboxSelection(rowMax: joinedRowMax, lowWatermark: lowWatermark), makesDeliveries: true,
            &connection)
        return pass.outcome
    }

    /// Writes the final event of those of the sessions that have drained and of which no event or delivery is
    /// pending.
    static func drain(
        _ sessions: [(tenant: String, session: String)], _ connection: inout Connection,
        _ numbering: EventNumbering, lowWatermark: Int64, handover: DeliveryHandover?
    ) throws(PostgresError) -> Outcome {
        var parameters = Parameters()
        parameters.appendArray(.text, sessions) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, sessions) { $0.append(text: $1.session) }
        parameters.append(int64: lowWatermark)
        let now = numbering.context.clock.now()
        parameters.append(now)
        return try connection.transaction { [parameters] connection throws(PostgresError) in
            var results = try connection.pipeline { pipeline in
                pipeline.send(Statements.waitForLock, .int64(Self.lock))
                pipeline.send(Statements.lastEvent)
                pipeline.send(Statements.drainSessions, parameters)
            }
            var pass = RelayTransaction(numbering, handover)
            pass.note(last: results.take(1))
            try pass.writeFinalEvents(results.take(2), at: now, &connection)
            return pass.outcome
        }
    }

    /// Sets aside the first row of the inbox, since the database refuses what the relay makes of it. If
    /// `isNumbered`, its events get their numbers and are in the log, but no deliveries. Otherwise the copy
    /// in `rejected_events` is all that is left. `except`: tenants whose rows are skipped. Returns `nil` if
    /// there is no other row.
    static func reject(
        _ connection: inout Connection, _ numbering: EventNumbering, except: [String], error: PostgresError,
        isNumbered: Bool
    ) throws(PostgresError) -> Outcome? {
        try connection.transaction { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(text: "\(error)")
            parameters.append(bool: isNumbered)
            parameters.appendArray(.text, except) { $0.append(text: $1) }
            var results = try connection.pipeline { pipeline in
                pipeline.send(Statements.waitForLock, .int64(Self.lock))
                pipeline.send(Statements.rejectEvents, parameters)
            }
            let rejected = results.take(1)
            guard rejected.rowCount == 1 else { return nil }
            let first = InboxSelection(rowMax: 1, except: except)
            var pass = RelayTransaction(numbering, nil)
            if isNumbered {
                try pass.run(first, makesDeliveries: false, &connection)
            } else {
                var results = try connection.pipeline { pipeline in
                    pipeline.send(Statements.lastEvent)
                    pipeline.send(Statements.takeEvents, first.parameters)
                }
                pass.note(last: results.take(0))
                let groups = Self.jobGroups(of: results.take(1))
                if !groups.isEmpty { try pass.finish(groups, &connection) }
            }
            pass.outcome.isFull = true
            pass.outcome.rejected = (rejected.text(0, 0), rejected.text(0, 1))
            return pass.outcome
        }
    }

    private init(
        _ numbering: EventNumbering, _ handover: DeliveryHandover?, _ finished: [JobID: EventJob] = [:]
    ) {
        self.numbering = numbering
        self.handover = handover
        self.finished = finished
    }

    /// Runs the steps of a pass. `makesDeliveries`: if `false`, no delivery is created.
    private mutating func run(
        _ selection: InboxSelection, makesDeliveries: Bool, _ connection: inout Connection
    ) throws(PostgresError) {
        var results = try connection.pipeline { pipeline in
            pipeline.send(Statements.waitForLock, .int64(Self.lock))
            pipeline.send(Statements.lastEvent)
            pipeline.send(Statements.takeEvents, selection.parameters)
            // Read after the events, so that it includes every session that their jobs were accepted with.
            pipeline.send(Statements.readSessionEpoch)
        }
        note(last: results.take(1))
        let taken = results.take(2)
        let epoch = results.take(3).int64(0, 0)
        if epoch != numbering.context.sessions.current.epoch {
            try numbering.sessionLoader.readSessions(&connection)
        }
        outcome.isFull = taken.rowCount > 0 && taken.bool(0, 3)
        let jobGroups = Self.jobGroups(of: taken)
        var rows = unpack(taken)
        var router = EventRouter(numbering.context, handover, finished)
        if makesDeliveries { try plan(&rows, &router, &connection) }
        var groups = group(rows)
        if !groups.isEmpty {
            try number(&groups, &connection)
            try keep(groups, router, &connection)
        }
        if !jobGroups.isEmpty { try finish(jobGroups, &connection) }
    }

    /// Records the latest id of the log. `last`: the result of last_event.sql.
    private mutating func note(last: consuming ResultSet) {
        if last.rowCount == 1 { lastID = last.identifier(0, 0) }
    }

    /// Returns the groups of rows of take_events.sql.
    private static func jobGroups(of taken: borrowing ResultSet) -> Set<JobGroupID> {
        var groups: Set<JobGroupID> = []
        for row in 0..<taken.rowCount {
            if let group: JobGroupID = taken.identifierOrNil(row, 5) { groups.insert(group) }
        }
        return groups
    }

    /// Reads rows of take_events.sql.
    private func unpack(_ taken: borrowing ResultSet) -> [InboxRow] {
        var rows: [InboxRow] = []
        for row in 0..<taken.rowCount {
            let packed = taken.bytes(row, 2)
            let next = InboxRow(
                position: taken.int64(row, 4), tenant: taken.text(row, 0), session: taken.text(row, 1),
                group: taken.identifierOrNil(row, 5), packed: packed, entries: EventRecord.unpack(packed))
            if (next.entries.last?.range.upperBound ?? 0) != packed.count {
                numbering.context.logger.error(
                    "a row of event_inbox ends in unreadable bytes", metadata: ["session": "\(next.session)"])
            }
            if !next.entries.isEmpty { rows.append(next) }
        }
        return rows
    }

    /// Leaves in `rows` the events whose deliveries fit into one pass, and puts the others back: other passes
    /// can run in between, and memory stays bounded.
    private mutating func plan(
        _ rows: inout [InboxRow], _ router: inout EventRouter, _ connection: inout Connection
    ) throws(PostgresError) {
        let planned = try router.plan(rows, &connection)
        guard let busyTenant = planned.busyTenant else { return }
        let (first, rest) = rows.split(after: planned.eventCount)
        _ = try connection.execute(Statements.putBackEvents, .inbox(rest))
        rows = first
        outcome.isFull = true
        outcome.busyTenant = busyTenant
    }

    // MARK: Numbers

    mutating func group(_ rows: [InboxRow]) -> [Group] {
        var groups: [Group] = []
        var places: [[String]: Int] = [:]
        var oldest = Timestamp(microseconds: .max)
        var count = 0
        for row in rows {
            let place = places[[row.tenant, row.session]] ?? groups.count
            if place == groups.count {
                groups.append(Group(tenant: row.tenant, session: row.session))
                places[[row.tenant, row.session]] = place
            }
            let offset = groups[place].packed.count
            groups[place].packed.append(contentsOf: row.packed)
            for entry in row.entries {
                oldest = min(oldest, entry.occurredAt)
                groups[place].entries.append(entry.moved(by: offset))
                groups[place].places.append(count)
                count += 1
            }
        }
        if !groups.isEmpty {
            outcome.lagMicroseconds = max(0, numbering.context.clock.now().microseconds - oldest.microseconds)
        }
        return groups
    }

    mutating func number(
        _ groups: inout [Group], _ connection: inout Connection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.appendArray(.text, groups) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, groups) { $0.append(text: $1.session) }
        parameters.appendArray(.int64, groups) { $0.append(int64: Int64($1.entries.count)) }
        parameters.appendArray(.int64, groups) { $0.append(int64: $1.growth) }
        parameters.appendArray(.bool, groups) { $0.append(bool: $1.hasEnded) }
        parameters.appendArray(.timestamp, groups) { $0.append($1.latest) }
        let rows = try connection.execute(Statements.numberEvents, parameters)
        var last: [[String]: (sequence: Int64, timestamp: Timestamp?)] = [:]
        for row in 0..<rows.rowCount {
            last[[rows.text(row, 0), rows.text(row, 1)]] = (rows.int64(row, 2), rows.instantOrNil(row, 4))
            if rows.bool(row, 3) { outcome.hasDrained = true }
        }
        for index in groups.indices {
            let group = groups[index]
            let found = last[[group.tenant, group.session]]
            groups[index].firstSequence = (found?.sequence ?? 0) - Int64(group.entries.count) + 1
            groups[index].lastTimestamp = found?.timestamp
            outcome.eventCount += group.entries.count
        }
    }

    mutating func nextID() -> EventID {
        let next = EventRow.nextID(after: lastID, numbering.context.identifiers)
        lastID = next
        return next
    }

    // MARK: Rows and deliveries

    /// Adds the events to the log and creates their deliveries. `router`: has planned these events.
    mutating func keep(
        _ groups: [Group], _ router: EventRouter, _ connection: inout Connection
    ) throws(PostgresError) {
        var rows = EventRowDrafts()
        var events = [Event?](repeating: nil, count: groups.reduce(0) { $0 + $1.entries.count })
        for group in groups {
            let numbered = rows.add(
                tenant: group.tenant, session: group.session, packed: group.packed, group.entries,
                from: group.firstSequence, after: group.lastTimestamp, makeID: { nextID() })
            for (place, event) in zip(group.places, numbered) { events[place] = event }
        }
        try keep(rows, &connection)
        outcome.deliveryCount += try router.commit(events, &connection)
    }

    func keep(_ rows: EventRowDrafts, _ connection: inout Connection) throws(PostgresError) {
        let notifies = numbering.nodeState.hasPeers.load(ordering: .relaxed)
        var notification = Parameters()
        notification.append(text: EventNumbering.notification)
        _ = try connection.pipeline { pipeline in
            pipeline.send(Statements.keepEvents, rows.parameters)
            if notifies { pipeline.send(Statements.notify, notification) }
        }
    }

    /// Writes the final event of sessions. `drained`: the result of drain_sessions.sql.
    private mutating func writeFinalEvents(
        _ drained: consuming ResultSet, at now: Timestamp, _ connection: inout Connection
    ) throws(PostgresError) {
        guard drained.rowCount > 0 else { return }
        var packed: [UInt8] = []
        EventRecord(.sessionEventsFinished, job: nil, at: now).pack(into: &packed)
        let entries = EventRecord.unpack(packed)
        var rows = EventRowDrafts()
        var ends: [InboxRow] = []
        var events: [Event?] = []
        for row in 0..<drained.rowCount {
            let end = InboxRow(
                position: 0, tenant: drained.text(row, 0), session: drained.text(row, 1), group: nil,
                packed: packed, entries: entries)
            ends.append(end)
            events += rows.add(
                tenant: end.tenant, session: end.session, packed: packed, entries,
                from: drained.int64(row, 2), after: drained.instantOrNil(row, 3), makeID: { nextID() })
        }
        try keep(rows, &connection)
        var router = EventRouter(numbering.context, handover)
        _ = try router.plan(ends, byteCountMax: .max, &connection)
        outcome.deliveryCount += try router.commit(events, &connection)
        outcome.eventCount += ends.count
    }
}

extension EventNumbering {
    /// Payload of the notification that events were numbered.
    static var notification: String { "events" }
}
