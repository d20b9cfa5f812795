/// Why a job does not run, and what would have to happen for it to start.
package struct WaitingReason: Sendable, Equatable {
    /// Stable; the table of `docs/scheduling.md`.
    package enum Code: String, Sendable, CaseIterable {
        case beginDate = "begin_date"
        case retryBackoff = "retry_backoff"
        case dependency, confirmation, challenge, redirect, connectivity, discretionary
        case hostBackoff = "host_backoff"
        case hostPaused = "host_paused"
        case hostLimit = "host_limit"
        case hostRate = "host_rate"
        case sessionLimit = "session_limit"
        case storageLow = "storage_low"
        case storageUnavailable = "storage_unavailable"
        case noFreeSlot = "no_free_slot"
        case paused, suspended
        case noWorker = "no_worker"
        case homeNode = "home_node"
    }

    package let code: Code
    /// One sentence for people.
    package let detail: String
    /// When it is looked at again at the latest; nil: when what it waits for happens.
    package let nextCheckAt: Timestamp?
    /// Of `dependency`: the jobs that have not ended yet.
    package private(set) var jobs: [JobID] = []

    package init(_ code: Code, _ detail: String, nextCheckAt: Timestamp? = nil) {
        self.code = code
        self.detail = detail
        self.nextCheckAt = nextCheckAt
    }

    /// Nil for a job that runs or is terminal. `queue`: asked only for one that waits for the service or for
    /// its host.
    package init?(_ job: JobRecord, queue: @autoclosure () -> QueueConditions) {
        switch job.state {
        case .running, .succeeded, .failed, .cancelled: return nil
        case .suspended: self.init(.suspended, "It was suspended and starts after it is resumed.")
        case .queued: self.init(queued: job, queue())
        case .waiting:
            switch job.waitingFor ?? .beginDate {
            case .discretionary: self.init(discretionary: job, queue())
            case .connectivity: self.init(away: job, queue())
            case let waitingFor: self.init(job, waitingFor)
            }
        }
    }

    /// What holds back every job comes before what holds back this one.
    private init(queued job: JobRecord, _ conditions: QueueConditions) {
        if conditions.isPaused {
            self.init(.paused, "The service is paused; it starts after an operator resumes it.")
        } else if conditions.workerCount == 0 {
            self.init(
                .noWorker,
                conditions.hasDrainedWorker
                    ? "Every node that transfers is drained; it starts after an operator has resumed one."
                    : "No node that transfers is alive; it starts as soon as one is.")
        } else if let hold = conditions.downloadHold, job.knownSpec?.kind == .download {
            self.init(hold, isElsewherePossible: conditions.workerCount != 1)
        } else if conditions.awaitsHost(job) {
            self.init(away: job, conditions)
        } else {
            let reason = conditions.reason(for: job)
            if reason == .noFreeSlot, let home = job.home, let until = conditions.isThere(home) {
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
        case .noRoom:
            self.init(.storageLow, "\(disk) is nearly full; it starts once there is room\(elsewhere).")
        case .unwritable:
            self.init(
                .storageUnavailable,
                "\(disk) cannot be written to; it starts once that is over\(elsewhere).")
        }
    }

    /// `until`: others may take it from then on, unless the node shows that it is alive.
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

    /// A probe looks for all jobs of a host, unless the job looks by itself.
    private init(away job: JobRecord, _ conditions: QueueConditions) {
        let probe = job.origin.flatMap { conditions.hostAway($0)?.nextProbeAt }
        self.init(
            .connectivity, "Its host cannot be reached; it starts once it answers.",
            nextCheckAt: job.nextAttemptAt ?? probe)
    }

    /// It starts at its latest start in any case.
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
        switch job.lastErrorCode.flatMap(TransferError.Code.init) {
        case .storageFull: (.storageLow, "has no room")
        case .storageUnavailable: (.storageUnavailable, "cannot be written to")
        default: nil
        }
    }

    private init(_ job: JobRecord, _ waitingFor: WaitingFor) {
        if waitingFor == .retry, let (code, trouble) = Self.disk(job) {
            self.init(
                code,
                "The disk that its file goes to \(trouble); it looks again at next_attempt_at, and uses up "
                    + "no attempt.", nextCheckAt: job.nextAttemptAt)
            return
        }
        if waitingFor == .retry, let hold = job.hold {
            self.init(
                hold.code,
                "\(hold.sentence) It is looked at again at next_attempt_at, and uses up no attempt.",
                nextCheckAt: job.nextAttemptAt)
            return
        }
        let (code, detail): (Code, String) =
            switch waitingFor {
            case .beginDate: (.beginDate, "It was asked not to begin before next_attempt_at.")
            case .retry: (.retryBackoff, job.retryDetail)
            case .dependency: (.dependency, "It starts after the jobs that it depends on have ended.")
            case .confirmation: (.confirmation, "It starts after somebody has confirmed it.")
            case .challenge: (.challenge, "The server asks for credentials; somebody has to answer.")
            case .redirect:
                (.redirect, "The server redirects elsewhere; somebody has to say whether to follow.")
            case .connectivity: (.connectivity, "Its host cannot be reached; it starts once it answers.")
            case .discretionary: (.discretionary, "It starts when the service has time for it.")
            }
        self.init(code, detail, nextCheckAt: job.nextAttemptAt)
        if code == .dependency { jobs = job.pendingDependencies }
    }

    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("code", code.rawValue)
        writer.member("detail", detail)
        writer.memberOrNull("next_check_at", nextCheckAt)
        if code == .dependency {
            writer.name("jobs")
            writer.beginArray()
            for job in jobs { writer.value(job.description) }
            writer.endArray()
        }
        writer.endObject()
    }
}

/// What is known here of the service around a queued job.
package struct QueueConditions: Sendable {
    package var isPaused = false
    /// Nodes that are alive, transfer and do not drain; nil: not known.
    package var workerCount: Int?
    /// Of those that drain there is one at least.
    package var hasDrainedWorker = false

    /// What limits origins; nil: not known.
    package var hosts: HostLimits?
    /// Connections per host of a tenant's session; nil: no limit.
    package var sessionLimit: @Sendable (_ tenant: String, _ session: String) -> Int? = { _, _ in nil }
    package var now: Timestamp?
    /// After which a silent node counts as gone.
    package var leaseSeconds = Limits.leaseSeconds
    /// Why no download begins here; nil: they may.
    package var downloadHold: DownloadAdmission.Hold?
    /// Whether nobody reaches an origin, as far as is known.
    package var hostAway: @Sendable (_ origin: String) -> HostUnreachable? = { _ in nil }
    /// What holds back those that may wait for a good moment; nil: not known.
    package var outlook: DiscretionaryOutlook?

    /// Whether it waits as soon as it is its turn, because nobody reaches its host.
    fileprivate func awaitsHost(_ job: JobRecord) -> Bool {
        guard let origin = job.origin, hostAway(origin) != nil else { return false }
        return job.knownSpec?.awaitsHost == true && job.lastErrorCode != TransferError.Code.nodeLost.rawValue
    }

    /// Nil: the node is gone. Else until when it has time to show that it is alive.
    fileprivate func isThere(_ home: NodeAffinity) -> Timestamp? {
        let until = home.heartbeatAt + leaseSeconds
        return now.map { until > $0 } ?? true ? until : nil
    }

    /// What limits this job, as far as is known here.
    fileprivate func reason(for job: JobRecord) -> QueueReason {
        guard let hosts, let now, let spec = job.knownSpec else { return .noFreeSlot }
        let limit = sessionLimit(job.tenant, spec.session)
        guard !hosts.isEmpty || limit != nil, let scope = job.scope(hosts) else { return .noFreeSlot }
        return hosts.reason(for: scope, sessionLimit: limit, at: now)
    }

    /// What has to happen for it to start before its latest start, and when that is to be, where known.
    fileprivate func discretionaryHold(of job: JobRecord) -> (String, until: Timestamp?) {
        guard let now, let outlook, let spec = job.knownSpec else {
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
        if spec.awaitsHost, let away = job.origin.flatMap({ hostAway($0) }) {
            return ("Its host cannot be reached; it starts in a good moment after that", away.nextProbeAt)
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

    package init(isPaused: Bool = false, workerCount: Int? = nil) {
        self.isPaused = isPaused
        self.workerCount = workerCount
    }
}

extension JobSpec {
    /// Whether it waits with all jobs of its host until that can be reached: with a proxy of its own it has
    /// its own way there, and with mirrors other places to go to.
    package var awaitsHost: Bool {
        schedule.waitsForConnectivity && mirrors.isEmpty && request.connection?.proxy == nil
    }
}

/// A host that nobody reaches.
package struct HostUnreachable: Sendable, Equatable {
    /// When somebody looks for it again; nil: not known.
    package let nextProbeAt: Timestamp?
    package init(nextProbeAt: Timestamp?) { self.nextProbeAt = nextProbeAt }
}

extension JobRecord {
    /// Nil: it cannot be read.
    fileprivate var knownSpec: JobSpec? { spec ?? (try? JobSpec(storedJSON: specJSON)) }

    fileprivate var origin: String? {
        knownSpec.flatMap { try? WebURL.parse($0.request.url) }?.origin
    }

    /// The scope of its request. A record does not know its credentials: if requests to its path are limited
    /// with some credentials only, those are taken to be its own.
    fileprivate func scope(_ hosts: HostLimits) -> RequestScope? {
        guard let url = knownSpec.flatMap({ try? WebURL.parse($0.request.url) }) else { return nil }
        let path = RequestScope.path(ofURL: url.string, credentials: nil)
        let scope = RequestScope(tenant: tenant, origin: url.origin, path: path)
        return hosts.limitedScope(like: scope) ?? scope
    }

    /// Names the last attempt's error, ` (timed_out)`.
    fileprivate var retryDetail: String {
        let failure = lastErrorCode.map { " (\($0))" } ?? ""
        return "Attempt \(attempt) failed\(failure); the next one starts at next_attempt_at."
    }

    /// What holds it up elsewhere than at its own host (`HostHold`).
    fileprivate var hold: (code: WaitingReason.Code, sentence: String)? {
        guard let error = lastError, let sentence = error["message"]?.string,
            let code = error["held_by"]?.string.flatMap(WaitingReason.Code.init)
        else { return nil }
        return (code, sentence)
    }

    fileprivate var lastErrorCode: String? { lastError?["code"]?.string }
    private var lastError: JSON? { errorJSON.flatMap { try? JSON.parse($0) } }
}
