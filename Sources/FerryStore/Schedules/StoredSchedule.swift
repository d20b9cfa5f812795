import FerryCore
import Postgres

/// Row of a schedule, with columns that clients do not see.
struct StoredSchedule: Sendable {
    let record: ScheduleRecord
    let sealedSecrets: [UInt8]?
    let payload: [UInt8]?
    let isHeld: Bool

    /// Reads the columns of read_schedule.sql. Throws if the definition cannot be read.
    init(_ rows: borrowing ResultSet, _ row: Int) throws(StoredJSONError) {
        var record = ScheduleRecord(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1), revision: rows.int32(row, 2),
            createdAt: rows.instant(row, 3), updatedAt: rows.instant(row, 4),
            spec: try ScheduleSpec(storedJSON: rows.bytes(row, 5)), template: StoredSpec(rows.bytes(row, 6)))
        record.nextScheduledAt = rows.instantOrNil(row, 7)
        record.nextRunAt = rows.instantOrNil(row, 8)
        record.lastScheduledAt = rows.instantOrNil(row, 9)
        record.lastRunAt = rows.instantOrNil(row, 10)
        record.lastJob = rows.identifierOrNil(row, 11)
        record.counts.runs = rows.int64(row, 12)
        record.counts.missed = rows.int64(row, 13)
        record.counts.skipped = rows.int64(row, 14)
        record.lastSkip = rows.instantOrNil(row, 18).map {
            ScheduleSkip(at: $0, reason: ScheduleSkip.Reason(rawValue: rows.text(row, 19)))
        }
        self.record = record
        sealedSecrets = rows.bytesOrNil(row, 15)
        payload = rows.bytesOrNil(row, 16)
        isHeld = rows.bool(row, 17)
    }

    /// Returns the job of one run; `nil` if the template cannot be read or its time zone is unknown on this
    /// node.
    func job(
        at occurrence: Timestamp, id: JobID, traceparent: String, _ zones: some TimeZoneSource,
        _ seal: SecretSeal
    ) -> NewJob? {
        guard let zone = zones.rules(named: record.spec.timeZone),
            // Reported by the caller.
            let template = record.template.whole(opening: seal),
            let request = JobRequest(template, payload: payload).instance(
                of: ScheduleOccurrence(schedule: record.id, scheduledAt: occurrence), zone)
        else { return nil }
        // The node that leases the job opens the secrets.
        return NewJob(
            id: id, tenant: record.tenant, request,
            specJSON: request.spec.encodeStored(seal), sealedSecrets: sealedSecrets, traceparent: traceparent,
            retryOf: nil)
    }
}

/// Returns a `traceparent` that begins a new trace (W3C Trace Context §3.2).
func newTraceparent() -> String {
    var random = SystemRandomNumberGenerator()
    let hex: (UInt64) -> String = { word in
        let digits = String(word, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
    let word = { hex(UInt64.random(in: 1...UInt64.max, using: &random)) }
    return "00-\(word())\(word())-\(word())-01"
}
