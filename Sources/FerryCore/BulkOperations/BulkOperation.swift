/// Change that a bulk operation makes to each of its jobs.
public enum BulkCommand: String, ShownChoice, Sendable, CaseIterable {
    case suspend, resume, cancel, retry
}

/// State of a bulk operation.
public enum BulkOperationState: String, ShownChoice, Sendable, CaseIterable {
    /// A node works on it, or will.
    case running
    /// All jobs were looked at, and none has failed.
    case succeeded
    /// All jobs were looked at, or the operation cannot go on; `failed` counts the jobs with an error.
    case failed
    /// A client has cancelled it: the other jobs stay as they are.
    case cancelled
}

/// Reason for which a job that a bulk operation covers was not changed.
public enum BulkReason: String, Sendable, CaseIterable {
    // Skipped.
    /// The job's state does not allow the command.
    case invalidState = "invalid_state"
    /// The job runs, and its request must not be sent again; or its bytes are not kept.
    case notRepeatable = "not_repeatable"
    /// Another job has retried it.
    case alreadyRetried = "already_retried"
    /// The egress policy forbids its URL or that of its proxy.
    case blockedAddress = "blocked_address"
    /// A job whose file it sends does not exist any more.
    case sourceMissing = "source_missing"
    /// Its session accepts no more jobs.
    case sessionInvalidated = "session_invalidated"
    /// Another job has its unique key.
    case uniqueKeyTaken = "unique_key_taken"
    // Failed.
    /// The job changed again and again while the operation was about to change it.
    case busy
    /// The stored job cannot be read, or the database refused the change. The log has details.
    case internalError = "internal_error"

    /// `true` if the job counts as failed, else it counts as skipped.
    public var isFailure: Bool {
        switch self {
        case .busy, .internalError: true
        default: false
        }
    }
}

/// Counts of the jobs that a bulk operation has handled so far.
public struct BulkCounts: Sendable, Equatable {
    /// Jobs and identifiers that were looked at.
    public var examined: Int64 = 0
    /// Jobs that were changed, submitted again, or whose nodes were asked to stop them.
    public var changed: Int64 = 0
    /// Jobs that were not changed, by reason.
    public var reasons: [BulkReason: Int64] = [:]

    /// Creates counts of 0.
    public init() {}

    /// Adds a job that was not changed.
    public mutating func add(_ reason: BulkReason, count: Int64 = 1) {
        guard count > 0 else { return }
        reasons[reason, default: 0] += count
    }

    /// Jobs that the filter or the identifiers name: the sum of the other counts.
    public var matched: Int64 { changed + skipped + failed }
    /// Jobs that do not allow the command.
    public var skipped: Int64 { sum { !$0.isFailure } }
    /// Jobs with an error.
    public var failed: Int64 { sum(where: \.isFailure) }

    private func sum(where isIncluded: (BulkReason) -> Bool) -> Int64 {
        reasons.reduce(0) { isIncluded($1.key) ? $0 + $1.value : $0 }
    }

    /// Returns the reasons in the stored form, a JSON object.
    public func encodeReasons() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 64)
        ReasonCounts(counts: reasons).show(into: &writer, isRedacted: false)
        return writer.bytes
    }

    /// Reads what `encodeReasons` returned. Reasons of a later version are left out.
    public mutating func restore(reasons json: [UInt8]) throws(StoredJSONError) {
        for member in try StoredObject(json).json.members ?? [] {
            guard let reason = BulkReason(rawValue: member.name) else { continue }
            reasons[reason] = member.value.integer
        }
    }
}

/// Numbers of jobs by reason.
private struct ReasonCounts: ShownValue {
    let counts: [BulkReason: Int64]

    func show(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        for reason in BulkReason.allCases {
            if let count = counts[reason] { writer.member(reason.rawValue, count) }
        }
        writer.endObject()
    }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        let count = JSON.object([JSON.Member("type", "integer"), .minimum(1)])
        return [
            JSON.Member("type", "object"),
            JSON.Member(
                "properties", .object(BulkReason.allCases.map { JSON.Member($0.rawValue, count) })),
        ]
    }
}

/// Jobs that a bulk operation covers, of those that were created before it.
public enum BulkSelection: Sendable, Equatable {
    /// These jobs, each once. Those that do not exist are not counted as matched.
    case jobs([JobID])
    /// The jobs that match.
    case filter(JobFilter)
}

/// A bulk operation that is about to be stored.
public struct NewBulkOperation: Sendable {
    /// Identifier of the operation.
    public let id: BulkOperationID
    /// Tenant.
    public let tenant: String
    /// Change that is made to each job.
    public let command: BulkCommand
    /// `true` for a cancellation that keeps the bytes of downloads for other jobs.
    public let keepsBytes: Bool
    /// Jobs that the operation covers.
    public let selection: BulkSelection
    /// Trace context of the request (`TraceContext`), for jobs that the operation submits.
    public let traceparent: String

    /// Creates an operation.
    public init(
        id: BulkOperationID, tenant: String, command: BulkCommand, keepsBytes: Bool,
        selection: BulkSelection, traceparent: String
    ) {
        self.id = id
        self.tenant = tenant
        self.command = command
        self.keepsBytes = keepsBytes
        self.selection = selection
        self.traceparent = traceparent
    }
}

/// A bulk operation as stored.
public struct BulkOperation: Sendable, Equatable {
    /// Identifier of the operation.
    public let id: BulkOperationID
    /// Tenant.
    public let tenant: String
    /// Change that is made to each job.
    public let command: BulkCommand
    /// State.
    public var state: BulkOperationState
    /// The filter, or `nil` if the request named identifiers.
    public let filter: JobFilter?
    /// Number of different identifiers in the request, or `nil` if it had a filter.
    public let identifierCount: Int?
    /// Counts of the jobs handled so far.
    public var counts: BulkCounts
    /// Time of the request.
    public let createdAt: Timestamp
    /// Time of the end, or `nil`.
    public var finishedAt: Timestamp?

    /// Creates a record.
    public init(
        id: BulkOperationID, tenant: String, command: BulkCommand, state: BulkOperationState,
        filter: JobFilter?, identifierCount: Int?, counts: BulkCounts, createdAt: Timestamp,
        finishedAt: Timestamp?
    ) {
        self.id = id
        self.tenant = tenant
        self.command = command
        self.state = state
        self.filter = filter
        self.identifierCount = identifierCount
        self.counts = counts
        self.createdAt = createdAt
        self.finishedAt = finishedAt
    }
}

extension BulkOperation: ShownObject {
    public static let summary =
        "An operation on many jobs. It covers jobs that were created before created_at."
    public static let schemaName = "BulkOperation"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the operation.")
        list.member("tenant", \.tenant, "Owner of the operation.")
        list.member("kind", \.command, "What is done with each job.")
        list.member(
            "state", \.state,
            "running; succeeded; failed if jobs had an error; cancelled if a client has stopped it.")
        list.member("filter", \.filter, "The filter of the request; null if it named jobs.")
        list.member(
            "id_count", \.identifierCount, "Number of jobs that the request named; null if it had a filter.")
        list.member("examined", \.counts.examined, "Jobs looked at so far, matching or not.", [.minimum(0)])
        list.member(
            "matched", \.counts.matched,
            "Jobs found so far that the filter or ids name: the sum of changed, skipped and failed.",
            [.minimum(0)])
        list.member(
            "changed", \.counts.changed,
            "Jobs that were changed or submitted again, or whose nodes were asked to stop them.",
            [.minimum(0)])
        list.member("skipped", \.counts.skipped, "Jobs that do not allow the command.", [.minimum(0)])
        list.member("failed", \.counts.failed, "Jobs with an error.", [.minimum(0)])
        list.member(
            "reasons", { ReasonCounts(counts: $0.counts.reasons) },
            "Numbers of skipped and failed jobs by the code of the reason.")
        list.member("created_at", \.createdAt, "Time of the request.")
        list.member("finished_at", \.finishedAt, "Time of the end; null while the operation runs.")
    }
}
