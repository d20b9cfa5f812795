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
    /// Sealed `NextRequest`; not known of jobs in lists.
    private(set) var sealedNextRequest: [UInt8]?
    /// Sealed `JobSecrets`; `nil` if the job has none, or they were not read.
    package let sealedSecrets: [UInt8]?
    /// Inline request body; `nil` if the job has none, or it was not read.
    package let payload: [UInt8]?
    /// Scheme, host and port of the URL.
    package let origin: String
    /// W3C Trace Context of the submission.
    package let traceparent: String?

    /// Reads the shared columns of statements, and those of read_jobs.sql if `isWide`. `log`: gets the error
    /// of a damaged row. `nil` if only a later version knows the job's state.
    init?(_ rows: borrowing ResultSet, _ row: Int, isWide: Bool, _ log: DamagedRows) {
        let id: JobID = rows.identifier(row, .id)
        guard let state = JobState(rawValue: rows.text(row, .state)) else {
            log.report(id, StoredJSONError("state"))
            return nil
        }
        var record = JobRecord(
            id: id, tenant: rows.text(row, .tenant), state: state,
            waitingFor: rows.textOrNil(row, .waitingFor).flatMap(WaitingFor.init),
            revision: rows.int32(row, .revision),
            attempt: rows.int32(row, .attempt), failedAttemptCount: rows.int32(row, .failedAttempts),
            node: rows.identifierOrNil(row, .node), createdAt: rows.instant(row, .createdAt),
            startedAt: rows.instantOrNil(row, .startedAt),
            finishedAt: isWide ? rows.instantOrNil(row, .finishedAt) : nil,
            nextAttemptAt: rows.instantOrNil(row, .nextAttemptAt),
            retryOf: rows.identifierOrNil(row, .retryOf),
            storedSpec: StoredSpec(
                rows.bytes(row, .spec), of: id, log: log,
                endpointAcknowledgement: isWide ? rows.bytesOrNil(row, .endpointAcknowledgement) : nil))
        record.storedError = rows.bytesOrNil(row, .error).map { Stored(json: $0) }
        if isWide {
            record.storedResponse = rows.bytesOrNil(row, .response).map { Stored(json: $0) }
            record.storedResult = rows.bytesOrNil(row, .result).map { Stored(json: $0) }
            record.body = rows.bytesOrNil(row, .body)
            record.resumeData = rows.textOrNil(row, .resumeData)
            record.questionJSON = rows.bytesOrNil(row, .question)
            record.acknowledgedAt = rows.instantOrNil(row, .acknowledgedAt)
            record.retriedBy = rows.identifierOrNil(row, .retriedBy)
            record.group = rows.textOrNil(row, .jobGroup)
            record.specRevision = rows.int32OrNil(row, .specRevision)
            record.sessionConnectionCount = rows.int32OrNil(row, .sessionCount).map(Int.init)
            if let packed = rows.bytesOrNil(row, .kept) {
                record.partialDownload = AttemptRecord(packed: packed, node: nil)?.partialDownload
            }
        }
        if isWide, record.waitingFor == .dependency {
            record.readDependencies(rows.textArray(row, JobColumn.dependencies.rawValue))
        }
        if isWide, record.state == .queued, let node = rows.bytesOrNil(row, .homeNode) {
            record.home = NodeAffinity(json: node)
        }
        isHeld = record.state == .queued && record.node != nil
        if isHeld {
            record.node = nil
            record.attempt -= 1
        }
        self.record = record
        if isWide {
            hasBytes = rows.bool(row, JobColumn.hasBytes)
            home = rows.identifierOrNil(row, JobColumn.home)
            sealedNextRequest = rows.bytesOrNil(row, JobColumn.nextRequest)
        }
        expiresAt = rows.instantOrNil(row, .expiresAt)
        isCancelRequested = rows.bool(row, .cancelRequested)
        sealedSecrets = rows.bytesOrNil(row, .secrets)
        payload = rows.bytesOrNil(row, .payload)
        origin = rows.text(row, .origin)
        traceparent = rows.textOrNil(row, .traceparent)
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
        hasBytes = rows.bool(row, ClaimColumn.hasBytes)
        keepsBytes = rows.bool(row, .keepsBytes)
        home = rows.identifierOrNil(row, ClaimColumn.home)
        sealedNextRequest = rows.bytesOrNil(row, ClaimColumn.nextRequest)
    }

    /// Reads the columns of expired_jobs.sql.
    init?(overdue rows: borrowing ResultSet, _ row: Int, _ log: DamagedRows) {
        self.init(rows, row, isWide: false, log)
        hasBytes = rows.bool(row, JobColumn.sharedCount)
        sealedNextRequest = rows.bytesOrNil(row, JobColumn.sharedCount + 1)
    }

    /// Returns the upload that the next attempt continues; `nil` if there is none, or it cannot be read.
    func upload(opening seal: SecretSeal) -> ResumableUpload? {
        guard let sealedNextRequest,
            case .upload(let upload)? = try? NextRequest(sealed: sealedNextRequest, opening: seal)
        else { return nil }
        return upload
    }

    /// Reads the columns of due_questions.sql.
    init?(asked rows: borrowing ResultSet, _ row: Int, _ log: DamagedRows) {
        self.init(rows, row, isWide: false, log)
        record.questionJSON = rows.bytesOrNil(row, JobColumn.sharedCount)
    }
}

extension JobRecord {
    /// Reads the column `dependencies`: identifiers of jobs as `uuid`, and `group NAME`.
    fileprivate mutating func readDependencies(_ texts: [String?]) {
        let groupPrefix = "group "
        for text in texts.compactMap(\.self) {
            if text.hasPrefix(groupPrefix) {
                pendingGroups.append(String(text.dropFirst(groupPrefix.count)))
                continue
            }
            let uploadPrefix = "upload "
            let isUpload = text.hasPrefix(uploadPrefix)
            let digits = text.dropFirst(isUpload ? uploadPrefix.count : 0).filter { $0 != "-" }
            guard let high = UInt64(digits.prefix(16), radix: 16),
                let low = UInt64(digits.dropFirst(16), radix: 16)
            else { continue }
            if isUpload {
                pendingUploads.append(UploadID(high: high, low: low))
            } else {
                pendingDependencies.append(JobID(high: high, low: low))
            }
        }
    }
}
