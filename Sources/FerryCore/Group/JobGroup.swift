/// State of a group.
public enum JobGroupState: String, ShownChoice, Sendable, CaseIterable {
    /// The group takes jobs.
    case open
    /// Only retries of its jobs join the group.
    case closed
    /// The group was closed and all its jobs have ended.
    case finished
}

/// Numbers of the jobs of a group by state. Those of terminal states include jobs that were removed since.
public struct JobGroupCounts: ShownObject, Equatable {
    public static let summary =
        "Numbers of jobs by state, exact. Those of terminal states include jobs that were removed since."
    public static let schemaName = "JobGroupCounts"

    public var waiting: Int64 = 0
    public var queued: Int64 = 0
    public var running: Int64 = 0
    public var suspended: Int64 = 0
    public var succeeded: Int64 = 0
    public var failed: Int64 = 0
    public var cancelled: Int64 = 0

    /// Creates counts of 0.
    public init() {}

    /// Jobs that have not ended.
    public var unfinished: Int64 { waiting + queued + running + suspended }
    /// Jobs that have ended.
    public var ended: Int64 { succeeded + failed + cancelled }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("waiting", \.waiting, "Jobs that wait for something.", [.minimum(0)])
        list.member("queued", \.queued, "Jobs that wait for a free slot.", [.minimum(0)])
        list.member("running", \.running, "Running jobs.", [.minimum(0)])
        list.member("suspended", \.suspended, "Suspended jobs.", [.minimum(0)])
        list.member("succeeded", \.succeeded, "Jobs that have succeeded.", [.minimum(0)])
        list.member("failed", \.failed, "Jobs that have failed, also if they were retried.", [.minimum(0)])
        list.member("cancelled", \.cancelled, "Cancelled jobs.", [.minimum(0)])
    }
}

/// A group of jobs of a tenant, as stored and shown.
public struct JobGroup: Sendable, Equatable {
    /// Identifier of the group; never shown.
    public let id: JobGroupID
    /// Tenant.
    public let tenant: String
    /// The fields of the client.
    public let draft: GroupDraft
    /// Secrets of the webhook (`JobSecrets`), encrypted, or `nil`.
    public var sealedSecrets: [UInt8]?
    /// 1, and one more with each retry that joined the group after its end.
    public var round: Int32 = 1
    /// Jobs by state.
    public var counts = JobGroupCounts()
    /// Failed jobs that were not retried.
    public var openFailureCount: Int64 = 0
    /// Bytes of the files and bodies of succeeded jobs.
    public var bytesReceived: Int64 = 0
    public var bytesSent: Int64 = 0
    /// Rates of the last minute: jobs that ended, and their bytes.
    public var jobsPerSecond = 0.0
    public var bytesPerSecond = 0.0
    /// Bytes of the unfinished jobs, or `nil` if they were not read.
    public var unfinishedBytes: UnfinishedBytes?
    /// Time of the creation.
    public let createdAt: Timestamp
    /// Time since which the group takes only retries, or `nil`.
    public var closedAt: Timestamp?
    /// Time at which the last job of the round had ended, or `nil`.
    public var finishedAt: Timestamp?

    /// Creates an open group without jobs.
    public init(id: JobGroupID, tenant: String, _ draft: GroupDraft, createdAt: Timestamp) {
        self.id = id
        self.tenant = tenant
        self.draft = draft
        self.createdAt = createdAt
    }

    /// State of the group.
    public var state: JobGroupState {
        finishedAt != nil ? .finished : closedAt != nil ? .closed : .open
    }
}

extension JobGroup: ShownObject {
    public static let summary = "A group of jobs."
    public static let schemaName = "JobGroup"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.fields(\.draft)
        list.member(
            "state", \.state,
            "open: the group takes jobs. closed: only retries of its jobs join it. finished: it was closed, "
                + "and all its jobs have ended.")
        list.member(
            "round", \.round, "1, and one more with each retry that joined the group after its end.",
            [.minimum(1)])
        list.member("counts", \.counts, "Jobs of all rounds by state.")
        list.member("open_failures", \.openFailureCount, "Failed jobs that were not retried.", [.minimum(0)])
        list.member("progress", { JobGroupProgress($0) }, "Bytes, rate and estimated end.")
        list.member("created_at", \.createdAt, "Time of the creation.")
        list.member("closed_at", \.closedAt, "Time since which the group takes only retries.")
        list.member("finished_at", \.finishedAt, "Time at which the last job of the round had ended.")
    }
}
