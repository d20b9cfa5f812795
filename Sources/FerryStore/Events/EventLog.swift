import FerryCore
import Postgres

/// Row of the event log (table `events`): consecutive events of one session.
struct EventRow {
    /// The ids of a row's events differ in these bits only.
    private static let lowBits: UInt64 = 0xFFFF
    /// Maximum number of events of a row. Reading one event reads the whole row.
    static let eventCountMax = 500
    /// Maximum microseconds between the earliest and the latest event of a row. Bounds how far a search by
    /// time has to look.
    static let spanMax: Int64 = 10_000_000

    let id: EventID
    let tenant: String
    let session: String
    let firstSequence: Int64
    let packed: [UInt8]
    /// The time that the session's event before the row shows, if an event of the row happened earlier.
    let notBefore: Timestamp?

    /// The events whose type this version knows, in their order.
    var events: [Event] {
        var timestamps = EventTimestamps(after: notBefore)
        return EventRecord.unpack(packed).enumerated().compactMap { index, entry in
            let timestamp = timestamps.next(entry.occurredAt)
            return entry.record.map { event(index, $0, timestamp) }
        }
    }

    func event(_ index: Int, _ record: EventRecord, _ timestamp: Timestamp) -> Event {
        Event(
            id: EventID(high: id.high, low: id.low + UInt64(index)), tenant: tenant, session: session,
            sequence: firstSequence + Int64(index), timestamp: timestamp, record: record)
    }

    /// Returns the id of the row that an event is in.
    static func row(of event: EventID) -> EventID { EventID(high: event.high, low: event.low & ~lowBits) }

    /// Returns an id for the next row: later than `last`, even if the clock of another node was ahead.
    static func nextID(after last: EventID?, _ identifiers: IdentifierGenerator) -> EventID {
        let made = row(of: identifiers.make())
        guard let last, made <= last else { return made }
        let (low, overflow) = last.low.addingReportingOverflow(lowBits + 1)
        return EventID(high: last.high + (overflow ? 1 : 0), low: low)
    }
}

/// The times that consecutive events of a session show: the transactions that write events commit in another
/// order than their clocks say.
struct EventTimestamps {
    /// The time of the latest event, or `nil`.
    private(set) var last: Timestamp?

    /// `last`: the time that the event before shows, or `nil`.
    init(after last: Timestamp?) { self.last = last }

    /// Returns the time that the next event shows.
    mutating func next(_ occurredAt: Timestamp) -> Timestamp {
        let next = last.map { max($0, occurredAt) } ?? occurredAt
        last = next
        return next
    }
}

/// Rows to be added to the log: the parameters of keep_events.sql.
struct EventRowDrafts {
    struct Draft {
        let row: EventRow
        let firstAt: Timestamp
        let lastAt: Timestamp
        let types: Int32
    }
    private(set) var drafts: [Draft] = []
    private var marks: [(job: JobID, number: Int32)] = []

    /// Splits the events of a session into rows. `entries`: those of `packed`; the first one gets the number
    /// `sequence`. `last`: the time that the session's event before shows, or `nil`. Returns one event for
    /// each entry, `nil` if this version does not know its type.
    mutating func add(
        tenant: String, session: String, packed: [UInt8], _ entries: [EventRecord.Packed],
        from sequence: Int64, after last: Timestamp?, makeID: () -> EventID
    ) -> [Event?] {
        var timestamps = EventTimestamps(after: last)
        var events: [Event?] = []
        events.reserveCapacity(entries.count)
        var start = 0
        while start < entries.count {
            var (first, last) = (entries[start].occurredAt, entries[start].occurredAt)
            var types: Int32 = 0
            var end = start
            while end < entries.count, end - start < EventRow.eventCountMax {
                let at = entries[end].occurredAt
                let (earlier, later) = (min(first, at), max(last, at))
                guard later.microseconds - earlier.microseconds <= EventRow.spanMax else { break }
                (first, last) = (earlier, later)
                types |= 1 << Int32(entries[end].code & 31)
                mark(entries[end])
                end += 1
            }
            let bytes = entries[start].range.lowerBound..<entries[end - 1].range.upperBound
            let row = EventRow(
                id: makeID(), tenant: tenant, session: session, firstSequence: sequence + Int64(start),
                packed: Array(packed[bytes]), notBefore: timestamps.last.flatMap { $0 > first ? $0 : nil })
            drafts.append(Draft(row: row, firstAt: first, lastAt: last, types: types))
            for index in start..<end {
                let timestamp = timestamps.next(entries[index].occurredAt)
                events.append(entries[index].record.map { row.event(index - start, $0, timestamp) })
            }
            start = end
        }
        return events
    }

    /// Marks the row with the event's job, so that the event is found. Events at the creation, start or end
    /// of a job need no mark: the job's row has these times.
    private mutating func mark(_ entry: EventRecord.Packed) {
        guard let job = entry.job else { return }
        switch entry.record?.type {
        case .jobCreated, .jobStarted, .jobSucceeded, .jobFailed, .jobCancelled: return
        case .jobAttemptFailed where entry.record?.state?.isTerminal == true: return
        default: marks.append((job, Int32(drafts.count + 1)))
        }
    }

    var parameters: Parameters {
        var parameters = Parameters(capacity: drafts.reduce(512) { $0 + $1.row.packed.count + 160 })
        parameters.appendArray(.uuid, drafts) { $0.append($1.row.id) }
        parameters.appendArray(.int64, drafts) { $0.append(int64: $1.row.firstSequence) }
        parameters.appendArray(.timestamp, drafts) { $0.append($1.firstAt) }
        parameters.appendArray(.timestamp, drafts) { $0.append($1.lastAt) }
        parameters.appendArray(.int32, drafts) { $0.append(int32: $1.types) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.row.tenant) }
        parameters.appendArray(.text, drafts) { $0.append(text: $1.row.session) }
        parameters.appendArray(.bytea, drafts) { $0.append(bytea: $1.row.packed) }
        parameters.appendArray(.uuid, marks) { $0.append($1.job) }
        parameters.appendArray(.int32, marks) { $0.append(int32: $1.number) }
        parameters.appendArray(.timestamp, drafts) { $0.append($1.row.notBefore) }
        return parameters
    }
}
