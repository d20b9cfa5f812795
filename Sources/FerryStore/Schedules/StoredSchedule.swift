import FerryCore
import Postgres

/// Row of a schedule, with columns that clients do not see.
struct StoredSchedule: Sendable {
    let record: ScheduleRecord
    /// Encrypted secrets and payload of each job; empty in lists of schedules.
    private let sealedSecrets: [[UInt8]?]
    private let payloads: [[UInt8]?]
    let isHeld: Bool

    /// Reads the columns of read_schedule.sql. Throws if the definition cannot be read.
    init(_ rows: borrowing ResultSet, _ row: Int) throws(StoredJSONError) {
        // A list of jobs is left out of lists of schedules.
        let specs = rows.isNull(row, 6) ? [] : rows.bytesArray(row, 6)
        let list =
            rows.isNull(row, 21)
            ? nil : ScheduleJobs.List(group: rows.textOrNil(row, 20), closesGroup: rows.bool(row, 21))
        var record = ScheduleRecord(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1), revision: rows.int32(row, 2),
            createdAt: rows.instant(row, 3), updatedAt: rows.instant(row, 4),
            spec: try ScheduleSpec(storedJSON: rows.bytes(row, 5)),
            templates: specs.map { StoredSpec($0 ?? []) }, list: list)
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
        sealedSecrets = rows.isNull(row, 15) ? [] : rows.bytesArray(row, 15)
        payloads = rows.isNull(row, 16) ? [] : rows.bytesArray(row, 16)
        isHeld = rows.bool(row, 17)
    }
}

/// Jobs of one occurrence of a schedule, which are accepted or skipped together.
struct ScheduledRun: Sendable {
    /// The jobs, in the order of the schedule's list.
    private(set) var jobs: [NewJob] = []
    /// Name of the group that is closed with them, or `nil`.
    let closedGroup: String?

    /// Makes the jobs of an occurrence; `nil` if a template cannot be read or its time zone is unknown on
    /// this node. `ids`: identifier of each job.
    init?(
        of schedule: StoredSchedule, at occurrence: Timestamp, ids: some Collection<JobID>,
        traceparent: String, _ zones: some TimeZoneSource, _ seal: SecretSeal
    ) {
        let record = schedule.record
        guard let zone = zones.rules(named: record.spec.timeZone), ids.count == record.templates.count,
            !ids.isEmpty
        else { return nil }
        closedGroup = record.list?.closedGroup(at: occurrence, zone)
        var places: [JobID: JobID] = [:]
        for (place, id) in ids.enumerated() {
            guard
                var request = schedule.request(
                    place,
                    of: ScheduleOccurrence(
                        schedule: record.id, scheduledAt: occurrence,
                        place: record.list == nil ? nil : place), zone, seal)
            else { return nil }
            _ = request.spec.replaceReferences(places)
            places[JobID(placeInList: place)] = id
            // The node that leases the job opens the secrets.
            jobs.append(
                NewJob(
                    id: id, tenant: record.tenant, request, specJSON: request.spec.encodeStored(seal),
                    sealedSecrets: schedule.sealedSecrets(of: place), traceparent: traceparent, retryOf: nil))
        }
    }

    /// The uploads that the jobs send.
    var sourceUploads: [UploadReference] { jobs.flatMap { $0.spec.sourceUploads.map(\.upload) } }

    /// Replaces the references to uploads by identifiers. Throws `uploadMissing` or `uploadIncomplete` if a
    /// job cannot send an upload.
    mutating func nameUploads(_ known: NamedUploads, _ seal: SecretSeal) throws(StoreError) {
        for (place, job) in jobs.enumerated() {
            let uploads = job.spec.sourceUploads
            guard !uploads.isEmpty else { continue }
            guard uploads.allSatisfy({ known[$0.upload] != nil }) else { throw .uploadMissing }
            var request = job.request
            do throws(InvalidFields) {
                try request.spec.nameUploads(known, at: "#")
            } catch {
                throw .uploadIncomplete
            }
            jobs[place] = NewJob(
                id: job.id, tenant: job.tenant, request, specJSON: request.spec.encodeStored(seal),
                sealedSecrets: job.sealedSecrets, traceparent: job.traceparent, retryOf: nil)
        }
    }

    /// Returns the submission of the jobs.
    func submission(_ idempotency: Submission.Idempotency? = nil) -> Submission {
        Submission(jobs: jobs, idempotency: idempotency, closedGroup: closedGroup) { _ in }
    }
}

extension StoredSchedule {
    /// Returns a job of one run without its secrets; `nil` if its template cannot be read.
    fileprivate func request(
        _ place: Int, of occurrence: ScheduleOccurrence, _ zone: TimeZoneRules, _ seal: SecretSeal
    ) -> JobRequest? {
        // Reported by the caller.
        guard let template = record.templates[place].whole(opening: seal) else { return nil }
        let payload = payloads.indices.contains(place) ? payloads[place] : nil
        return JobRequest(template, payload: payload).instance(of: occurrence, zone)
    }

    /// Returns the encrypted secrets of a job, or `nil` if it has none.
    fileprivate func sealedSecrets(of place: Int) -> [UInt8]? {
        sealedSecrets.indices.contains(place) ? sealedSecrets[place] : nil
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
