package import FerryCore
import Postgres

/// Row of a job, with columns that clients do not see.
package struct StoredJob: Sendable {
    /// The columns that clients may see.
    package private(set) var record: JobRecord
    /// `true` if a node has leased the job as it was inserted and holds it in memory, as far as the row says.
    /// `record` then shows a queued job without a node and without that attempt.
    package let isHeld: Bool
    /// `true` if a node runs or holds the job.
    package var isLeased: Bool { record.state == .running || isHeld }
    /// Expiry of an unfinished job.
    package let expiresAt: Timestamp?
    /// `true` if a client has requested the cancellation of a running job.
    package let isCancelRequested: Bool
    /// `true` if the last attempt has left bytes to resume from.
    package private(set) var hasBytes = false
    /// `true` if a client cancelled the job and wants to keep its bytes; known of claimed jobs only.
    package private(set) var keepsBytes = false
    /// The only node that can run the job; not known of overdue jobs.
    package private(set) var home: NodeID?
    /// Sealed `DelayedRedirect`; known of claimed jobs only.
    private(set) var sealedRedirect: [UInt8]?
    /// Sealed `JobSecrets`; `nil` if the job has none, or they were not read.
    package let sealedSecrets: [UInt8]?
    /// Inline request body; `nil` if the job has none, or it was not read.
    package let payload: [UInt8]?
    /// Scheme, host and port of the URL.
    package let origin: String
    /// W3C Trace Context of the submission.
    package let traceparent: String?

    /// Reads columns 0 to 19 of claim_jobs.sql, and those of read_jobs.sql if `isWide`. `log`: gets the error
    /// of a damaged row. `nil` if only a later version knows the job's state.
    init?(_ rows: borrowing ResultSet, _ row: Int, isWide: Bool, _ log: DamagedRows) {
        let id: JobID = rows.identifier(row, 0)
        guard let state = JobState(rawValue: rows.text(row, 2)) else {
            log.report(id, StoredJSONError("state"))
            return nil
        }
        var record = JobRecord(
            id: id, tenant: rows.text(row, 1), state: state,
            waitingFor: rows.textOrNil(row, 3).flatMap(WaitingFor.init), revision: rows.int32(row, 4),
            attempt: rows.int32(row, 5), failedAttemptCount: rows.int32(row, 6),
            node: rows.identifierOrNil(row, 7), createdAt: rows.instant(row, 8),
            startedAt: rows.instantOrNil(row, 9), finishedAt: isWide ? rows.instantOrNil(row, 20) : nil,
            nextAttemptAt: rows.instantOrNil(row, 10), retryOf: rows.identifierOrNil(row, 13),
            storedSpec: StoredSpec(
                rows.bytes(row, 14), of: id, log: log,
                endpointAcknowledgement: isWide ? rows.bytesOrNil(row, 34) : nil))
        record.storedError = rows.bytesOrNil(row, 17).map { Stored(json: $0) }
        if isWide {
            record.storedResponse = rows.bytesOrNil(row, 21).map { Stored(json: $0) }
            record.storedResult = rows.bytesOrNil(row, 22).map { Stored(json: $0) }
            record.body = rows.bytesOrNil(row, 23)
            record.resumeData = rows.textOrNil(row, 24)
            record.questionJSON = rows.bytesOrNil(row, 27)
            record.acknowledgedAt = rows.instantOrNil(row, 28)
            record.specRevision = rows.isNull(row, 32) ? nil : rows.int32(row, 32)
            record.sessionConnectionCount = rows.isNull(row, 33) ? nil : Int(rows.int32(row, 33))
            if let packed = rows.bytesOrNil(row, 29) {
                record.partialDownload = AttemptRecord(packed: packed, node: nil)?.partialDownload
            }
        }
        if isWide, record.waitingFor == .dependency {
            record.pendingDependencies = rows.uuidArray(row, 26).compactMap { id in
                id.map { JobID(high: $0.high, low: $0.low) }
            }
        }
        if isWide, record.state == .queued, let node = rows.bytesOrNil(row, 31) {
            record.home = NodeAffinity(json: node)
        }
        isHeld = record.state == .queued && record.node != nil
        if isHeld {
            record.node = nil
            record.attempt -= 1
        }
        self.record = record
        if isWide {
            hasBytes = rows.bool(row, 25)
            home = rows.identifierOrNil(row, 30)
        }
        expiresAt = rows.instantOrNil(row, 11)
        isCancelRequested = rows.bool(row, 12)
        sealedSecrets = rows.bytesOrNil(row, 15)
        payload = rows.bytesOrNil(row, 16)
        origin = rows.text(row, 18)
        traceparent = rows.textOrNil(row, 19)
    }

    /// Adds the fields that the job had at an earlier revision.
    mutating func add(earlierSpec: StoredSpec, at revision: Int32) {
        record.earlierSpecs[revision] = earlierSpec
    }

    /// Reads the columns of claim_jobs.sql.
    init?(claimed rows: borrowing ResultSet, _ row: Int, _ log: DamagedRows) {
        self.init(rows, row, isWide: false, log)
        // Only attempts after the first, and cancelled jobs, can have these values.
        guard isCancelRequested || record.attempt > 1 else { return }
        hasBytes = rows.bool(row, 22)
        keepsBytes = rows.bool(row, 23)
        home = rows.identifierOrNil(row, 24)
        sealedRedirect = rows.bytesOrNil(row, 25)
    }

    /// Reads the columns of expired_jobs.sql.
    init?(overdue rows: borrowing ResultSet, _ row: Int, _ log: DamagedRows) {
        self.init(rows, row, isWide: false, log)
        hasBytes = rows.bool(row, 20)
    }

    /// Reads the columns of due_questions.sql.
    init?(asked rows: borrowing ResultSet, _ row: Int, _ log: DamagedRows) {
        self.init(rows, row, isWide: false, log)
        record.questionJSON = rows.bytesOrNil(row, 20)
    }
}
