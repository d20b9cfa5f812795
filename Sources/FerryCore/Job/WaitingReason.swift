/// Reason for which a job does not run, and the event after which it starts.
public struct WaitingReason: ShownObject, Equatable {
    public static let summary = "Why a job does not run."
    public static let schemaName = "WaitingReason"

    /// Reason as a stable code.
    public typealias Code = WaitingReasonCode

    /// Reason as a code.
    public let code: Code
    /// Reason as one sentence for people.
    public let detail: String
    /// Time at which the reason is checked again at the latest, or `nil` if an event ends it.
    public let nextCheckAt: Timestamp?
    /// For `dependency`: the jobs that have not ended yet.
    public private(set) var jobs: [JobID] = []
    /// For `dependency`: the groups that are not finished yet.
    public private(set) var groups: [String] = []
    /// For `dependency`: the uploads that are not complete yet.
    public private(set) var uploads: [UploadID] = []

    /// Creates a reason.
    public init(_ code: Code, _ detail: String, nextCheckAt: Timestamp? = nil) {
        self.code = code
        self.detail = detail
        self.nextCheckAt = nextCheckAt
    }

    /// Returns the reason for a job, or `nil` if it runs or is terminal. `queue`: evaluated only for a job
    /// that waits for Ferry or its host.
    public init?(_ job: JobRecord, queue: @autoclosure () -> QueueConditions) {
        switch job.state {
        case .running, .succeeded, .failed, .cancelled: return nil
        case .suspended: self.init(.suspended, "It was suspended and starts after it is resumed.")
        case .queued: self.init(queued: job, queue())
        case .waiting:
            switch job.waitingFor ?? .beginDate {
            case .discretionary: self.init(discretionary: job, queue())
            case .connectivity: self.init(unreachableHostOf: job, queue())
            case let waitingFor: self.init(job, waitingFor)
            }
        }
    }

    /// Reasons that hold back all jobs precede those of this job.
    private init(queued job: JobRecord, _ conditions: QueueConditions) {
        if conditions.isPaused {
            self.init(.paused, "The service is paused; it starts after an operator resumes it.")
        } else if conditions.workerCount == 0 {
            self.init(
                .noWorker,
                conditions.hasDrainedWorker
                    ? "Every node that transfers is drained; it starts after an operator has resumed one."
                    : "No node that transfers is alive; it starts as soon as one is.")
        } else if let until = conditions.tenantWaitsUntil(job.tenant) {
            self.init(
                .tenantQuota,
                "Its tenant has used up its bytes of today; it starts after midnight (UTC), or when an "
                    + "operator has raised the limit.", nextCheckAt: until)
        } else if let hold = conditions.downloadHold, job.spec?.kind == .download {
            self.init(hold, isElsewherePossible: conditions.workerCount != 1)
        } else if conditions.awaitsHost(job) {
            self.init(unreachableHostOf: job, conditions)
        } else {
            let reason = conditions.reason(for: job)
            if reason == .noFreeSlot, let home = job.home, let until = conditions.aliveUntil(home) {
                self.init(home, until: until)
            } else {
                self.init(reason)
            }
        }
    }

    private init(_ hold: DownloadAdmission.Hold, isElsewherePossible: Bool) {
        let disk = isElsewherePossible ? "The disk of this node" : "The disk for downloads"
        let elsewhere = isElsewherePossible ? ", or elsewhere" : ""
        switch hold {
        case .noSpace:
            self.init(.storageLow, "\(disk) is nearly full; it starts once there is room\(elsewhere).")
        case .unwritable:
            self.init(
                .storageUnavailable,
                "\(disk) cannot be written to; it starts once that is over\(elsewhere).")
        }
    }

    /// `until`: time from which other nodes may take the job, unless the home node shows that it is alive.
    private init(_ home: NodeAffinity, until: Timestamp) {
        let when =
            home.isDrained
            ? "it is drained, and the job starts after an operator has resumed it"
            : "it starts there as soon as a slot is free"
        self.init(
            .homeNode,
            "Only the node \(home.name) has the file that is sent: \(when). Should that node be silent until "
                + "next_check_at, another one takes the job.", nextCheckAt: until)
    }

    /// One probe looks for the host on behalf of all its jobs, except for a job that has a time of its own.
    private init(unreachableHostOf job: JobRecord, _ conditions: QueueConditions) {
        guard !conditions.isHeld else {
            self.init(
                .connectivity,
                "Its host cannot be reached, and the service is paused: no node probes the host until an "
                    + "operator resumes the service.", nextCheckAt: job.nextAttemptAt)
            return
        }
        let probe = job.origin.flatMap { conditions.unreachableHost($0)?.nextProbeAt }
        self.init(
            .connectivity, "Its host cannot be reached; it starts once it answers.",
            nextCheckAt: job.nextAttemptAt ?? probe)
    }

    /// A discretionary job starts at its latest start in any case.
    private init(discretionary job: JobRecord, _ conditions: QueueConditions) {
        let (what, until) = conditions.discretionaryHold(of: job)
        self.init(
            .discretionary, "\(what), and at next_attempt_at at the latest.",
            nextCheckAt: [until, job.nextAttemptAt].compactMap(\.self).min())
    }

    private init(_ reason: QueueReason) {
        switch reason {
        case .noFreeSlot: self.init(.noFreeSlot, "It starts as soon as a node has a free slot.")
        case .sessionLimit(let count):
            self.init(
                .sessionLimit,
                "Its session may have \(count) transfers to one host; it starts when another one ends.")
        case .hostLimit(let count, let scope):
            self.init(
                .hostLimit,
                "Its host gets \(count) requests\(scope.ofWhom) at once; it starts when another one ends.")
        case .hostRate(let rate, let scope):
            self.init(
                .hostRate,
                "Its host gets \(decimalText(rate)) requests per second\(scope.ofWhom); it starts when its "
                    + "turn comes.")
        case .hostBackoff(let until, let scope):
            self.init(
                .hostBackoff, "Its host is backed off\(scope.forWhom); it starts after next_check_at.",
                nextCheckAt: until)
        case .hostPaused:
            self.init(.hostPaused, "Its host is paused; it starts after an operator lets the host go on.")
        }
    }

    private static func disk(_ job: JobRecord) -> (Code, String)? {
        switch job.error?.code.choice {
        case .storageFull: (.storageLow, "has no room")
        case .storageUnavailable: (.storageUnavailable, "cannot be used")
        default: nil
        }
    }

    private init(_ job: JobRecord, _ waitingFor: WaitingFor) {
        if waitingFor == .retry, let (code, problem) = Self.disk(job) {
            self.init(
                code,
                "The storage of its file \(problem); it looks again at next_attempt_at, and uses up "
                    + "no attempt.", nextCheckAt: job.nextAttemptAt)
            return
        }
        if waitingFor == .retry, let hold = job.hold {
            let next =
                hold.code == .redirectDelay
                ? "The request to the new URL is sent at next_attempt_at; the wait uses up no attempt."
                : "It is looked at again at next_attempt_at, and uses up no attempt."
            self.init(hold.code, "\(hold.sentence) \(next)", nextCheckAt: job.nextAttemptAt)
            return
        }
        let (code, detail): (Code, String) =
            switch waitingFor {
            case .beginDate: (.beginDate, "It was asked not to begin before next_attempt_at.")
            case .retry: (.retryBackoff, job.retryDetail)
            case .dependency:
                (.dependency, "It starts after the jobs, groups and uploads that it depends on have ended.")
            case .confirmation: (.confirmation, "It starts after somebody has confirmed it.")
            case .challenge: (.challenge, "The server asks for credentials; a client has to answer.")
            case .redirect:
                (.redirect, "The server redirects to another URL; a client has to decide whether to follow.")
            case .urlExpired:
                (
                    .urlExpired,
                    "The server says that the URL or the credential is outdated; a client has to give "
                        + "another one."
                )
            case .connectivity: (.connectivity, "Its host cannot be reached; it starts once it answers.")
            case .discretionary: (.discretionary, "It starts when the service has time for it.")
            }
        self.init(code, detail, nextCheckAt: job.nextAttemptAt)
        if code == .dependency {
            (jobs, groups) = (job.pendingDependencies, job.pendingGroups)
            uploads = job.pendingUploads
        }
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("code", \.code, "Stable code of the reason.")
        list.member("detail", \.detail, "What has to happen before the job starts, as a sentence.")
        list.member(
            "next_check_at", \.nextCheckAt,
            "Time at which the reason is checked again at the latest, or null if an event ends it.")
        list.optional(
            "jobs", { $0.code == .dependency ? $0.jobs : nil },
            "Only with the code dependency: the jobs that have not ended yet.")
        list.optional(
            "groups", { $0.code == .dependency ? $0.groups : nil },
            "Only with the code dependency: the groups that are not finished yet.")
        list.optional(
            "uploads", { $0.uploads.isEmpty ? nil : $0.uploads },
            "Only with the code dependency: the uploads that are not complete yet, if there are any.")
    }
}

/// Conditions of a queued job, as far as this node knows them.
public struct QueueConditions: Sendable {
    /// `true` if an operator has paused Ferry.
    public var isPaused = false
    /// `true` if the pause also holds probes of hosts.
    public var isHeld = false
    /// Number of nodes that are alive, run transfers and do not drain; `nil` if not known.
    public var workerCount: Int?
    /// `true` if at least one such node drains.
    public var hasDrainedWorker = false

    /// Limits of origins, or `nil` if not known.
    public var hosts: HostLimits?
    /// Returns the connections per host of a tenant's session, or `nil` if there is no limit.
    public var sessionLimit: @Sendable (_ tenant: String, _ session: String) -> Int? = { _, _ in nil }
    /// Current time, or `nil` if limits are not to be checked.
    public var now: Timestamp?
    /// Seconds after which a node without heartbeat counts as dead.
    public var leaseSeconds = Limits.leaseSeconds
    /// Returns the time until which the jobs of a tenant wait because its bytes of the day are used up, or
    /// `nil` if they need not wait.
    public var tenantWaitsUntil: @Sendable (_ tenant: String) -> Timestamp? = { _ in nil }
    /// Reason for which no download begins on this node; `nil` if downloads may begin.
    public var downloadHold: DownloadAdmission.Hold?
    /// Returns the state of an origin that cannot be reached, or `nil` if it can be, as far as is known.
    public var unreachableHost: @Sendable (_ origin: String) -> HostUnreachable? = { _ in nil }
    /// Conditions for discretionary jobs, or `nil` if not known.
    public var outlook: DiscretionaryOutlook?

    /// Returns `true` if the job would wait for connectivity when it is claimed, because its host cannot be
    /// reached.
    fileprivate func awaitsHost(_ job: JobRecord) -> Bool {
        guard let origin = job.origin, unreachableHost(origin) != nil else { return false }
        return job.spec?.awaitsHost == true && job.error?.code.choice != .nodeLost
    }

    /// Returns the time until which the home node counts as alive, or `nil` if it counts as dead.
    fileprivate func aliveUntil(_ home: NodeAffinity) -> Timestamp? {
        let until = home.heartbeatAt + leaseSeconds
        return now.map { until > $0 } ?? true ? until : nil
    }

    /// Returns what limits this job, as far as is known.
    fileprivate func reason(for job: JobRecord) -> QueueReason {
        guard let hosts, let now, let spec = job.spec else { return .noFreeSlot }
        let limit = sessionLimit(job.tenant, spec.session)
        guard !hosts.isEmpty || limit != nil, let scope = job.scope(hosts) else { return .noFreeSlot }
        // The limit of a session is the reason only if its connections are known to be in use.
        return hosts.reason(
            for: scope, sessionLimit: limit, sessionCount: job.sessionConnectionCount ?? 0, at: now)
    }

    /// Returns what has to happen before the job starts earlier than its latest start, and when, if known.
    fileprivate func discretionaryHold(of job: JobRecord) -> (String, until: Timestamp?) {
        guard let now, let outlook, let spec = job.spec else {
            return ("It starts when the service has time for it", nil)
        }
        if let begin = spec.schedule.earliestBeginAt, begin > now {
            return ("It starts in a good moment after earliest_begin_at", begin)
        }
        switch outlook.hold(byteCount: spec.expectedByteCount, at: now) {
        case .window(let until): return ("It starts when an off-peak window opens", until)
        case .budget(let until):
            return ("The budget of the off-peak window has no room for it; it starts in the next one", until)
        case .capacity: break
        }
        if isPaused { return ("The service is paused; it starts in a good moment after that", nil) }
        if spec.awaitsHost, let host = job.origin.flatMap({ unreachableHost($0) }) {
            return ("Its host cannot be reached; it starts in a good moment after that", host.nextProbeAt)
        }
        switch hosts.flatMap({ hosts in
            job.scope(hosts).map { hosts.reason(for: $0, sessionLimit: nil, at: now) }
        }) {
        case .hostPaused?: return ("Its host is paused; it starts in a good moment after that", nil)
        case .hostBackoff(let until, _)?:
            return ("Its host is backed off; it starts in a good moment after that", until)
        case .hostLimit?, .hostRate?, .sessionLimit?, .noFreeSlot?, nil:
            return ("It starts once less than half of a node's slots are busy", nil)
        }
    }

    /// Creates conditions; everything else is unknown.
    public init(isPaused: Bool = false, workerCount: Int? = nil) {
        self.isPaused = isPaused
        self.workerCount = workerCount
    }
}

extension JobSpec {
    /// `true` if the job waits together with all jobs of its host until the host can be reached. A job with a
    /// proxy has its own route to the host, and one with mirrors has other hosts.
    public var awaitsHost: Bool {
        schedule.waitsForConnectivity && mirrors.isEmpty && request.connection?.proxy == nil
    }
}

/// State of a host that cannot be reached.
public struct HostUnreachable: Sendable, Equatable {
    /// Time of the next probe, or `nil` if not known.
    public let nextProbeAt: Timestamp?
    /// Creates a state.
    public init(nextProbeAt: Timestamp?) { self.nextProbeAt = nextProbeAt }
}

extension JobRecord {
    fileprivate var origin: String? { url?.origin }

    private var url: WebURL? { spec?.request.webURL }

    /// Returns the scope of the job's request. A record has no credentials: if requests to its path are
    /// limited with some credentials only, the job is taken to use those.
    fileprivate func scope(_ hosts: HostLimits) -> RequestScope? {
        guard let url else { return nil }
        let path = RequestScope.path(of: url, credentials: nil)
        let scope = RequestScope(tenant: tenant, origin: url.origin, path: path)
        return hosts.limitedScope(like: scope) ?? scope
    }

    /// Detail with the code of the last attempt's error, ` (timed_out)`.
    fileprivate var retryDetail: String {
        let failure = error.map { " (\($0.code.name))" } ?? ""
        return "Attempt \(attempt) failed\(failure); the next one starts at next_attempt_at."
    }

    /// The hold at another host than the job's own (`HostHold`), or the delay that a redirect has asked for;
    /// `nil` if the job waits for neither.
    fileprivate var hold: (code: WaitingReason.Code, sentence: String)? {
        guard let error, let code = error.hold?.choice else { return nil }
        return (code, error.message)
    }
}
