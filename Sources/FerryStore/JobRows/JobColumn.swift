import FerryCore
import Postgres

/// Columns of read_jobs.sql and list_jobs.sql, in their order. Statements that claim, lock or end jobs have
/// those up to `traceparent`, then their own.
enum JobColumn: Int, CaseIterable {
    case id, tenant, state, waitingFor, revision, attempt, failedAttempts, node, createdAt, startedAt,
        nextAttemptAt, expiresAt, cancelRequested, retryOf, spec, secrets, payload, error, origin, traceparent
    case finishedAt, response, result, body, resumeData, hasBytes, dependencies, question, acknowledgedAt,
        kept, home, homeNode, specRevision, sessionCount, endpointAcknowledgement,
        retriedBy, jobGroup, nextRequest

    /// Number of the columns that all these statements have.
    static let sharedCount = traceparent.rawValue + 1
}

/// Columns of claim_jobs.sql and claim_limited_jobs.sql after the shared ones.
enum ClaimColumn: Int, CaseIterable {
    case queue = 20
    case urgency, hasBytes, keepsBytes, home, nextRequest, sessionEpoch
}

extension ResultSet {
    func identifier<Kind>(_ row: Int, _ column: JobColumn) -> Identifier<Kind> {
        identifier(row, column.rawValue)
    }
    func identifierOrNil<Kind>(_ row: Int, _ column: JobColumn) -> Identifier<Kind>? {
        identifierOrNil(row, column.rawValue)
    }
    func text(_ row: Int, _ column: JobColumn) -> String { text(row, column.rawValue) }
    func textOrNil(_ row: Int, _ column: JobColumn) -> String? { textOrNil(row, column.rawValue) }
    func bytes(_ row: Int, _ column: JobColumn) -> [UInt8] { bytes(row, column.rawValue) }
    func bytesOrNil(_ row: Int, _ column: JobColumn) -> [UInt8]? { bytesOrNil(row, column.rawValue) }
    func instant(_ row: Int, _ column: JobColumn) -> Timestamp { instant(row, column.rawValue) }
    func instantOrNil(_ row: Int, _ column: JobColumn) -> Timestamp? { instantOrNil(row, column.rawValue) }
    func bool(_ row: Int, _ column: JobColumn) -> Bool { bool(row, column.rawValue) }
    func int32(_ row: Int, _ column: JobColumn) -> Int32 { int32(row, column.rawValue) }
    func int32OrNil(_ row: Int, _ column: JobColumn) -> Int32? {
        isNull(row, column.rawValue) ? nil : int32(row, column.rawValue)
    }

    func bool(_ row: Int, _ column: ClaimColumn) -> Bool { bool(row, column.rawValue) }
    func bytesOrNil(_ row: Int, _ column: ClaimColumn) -> [UInt8]? { bytesOrNil(row, column.rawValue) }
    func identifierOrNil<Kind>(_ row: Int, _ column: ClaimColumn) -> Identifier<Kind>? {
        identifierOrNil(row, column.rawValue)
    }
}
