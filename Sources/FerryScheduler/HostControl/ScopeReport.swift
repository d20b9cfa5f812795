package import FerryCore

/// Observations of one scope: by one node since its last report, or in a window of time. Reports can be
/// added. The property names are keys of the stored JSON.
///
/// An attempt is *answered* if the host responded with any status but 408, 429, 502, 503 or 504; it is
/// *throttled* after 429 or 503, and *lost* after the others or without a complete response.
package struct ScopeReport: Codable, Sendable, Equatable {
    /// Jobs that something happened to; only the difference between one and several matters.
    package enum Jobs: RawRepresentable, Codable, Sendable, Equatable {
        case none
        case one(JobID)
        case several

        /// Reads `rawValue`.
        package init(rawValue: String) {
            self = rawValue.isEmpty ? .none : JobID(rawValue).map { .one($0) } ?? .several
        }

        /// Empty, the identifier of the job, or `several`.
        package var rawValue: String {
            switch self {
            case .none: ""
            case .one(let job): job.description
            case .several: "several"
            }
        }

        /// Adds jobs that the same happened to.
        package mutating func add(_ other: Jobs) {
            if self == .none { self = other } else if other != .none, other != self { self = .several }
        }
    }

    /// Attempts that were answered.
    package var answered = 0
    /// Sum of the durations of answered attempts, and of throttled or lost ones.
    package var answeredSeconds = 0.0
    package var failedSeconds = 0.0
    /// Bytes of the ended attempts, both directions together.
    package var bytes: Int64 = 0
    package var throttled = 0
    package var throttleStatus: Int?
    package var lost = 0
    /// Jobs of the throttled or lost attempts.
    package var failedJobs = Jobs.none
    /// Shortest `Retry-After` since the last answered attempt, in seconds, and the jobs that got one.
    package var retryAfter: Double?
    package var retryAfterJobs = Jobs.none
    /// Attempts without a response for some seconds, since the last answered attempt, and their jobs.
    package var silent = 0
    package var silentJobs = Jobs.none
    /// Attempts that could not connect, and the error code of the last one.
    package var unreachable = 0
    package var unreachableCode: TransferError.Code?

    /// Creates an empty report.
    package init() {}

    /// `true` if nothing was seen.
    package var isEmpty: Bool { self == ScopeReport() }
    /// `true` if an attempt was throttled, lost, silent or could not connect.
    package var isTrouble: Bool { failed + silent + unreachable > 0 }
    var failed: Int { throttled + lost }
    var ended: Int { answered + failed }
    /// Failed attempts as a share of the ended ones, and for each answered one.
    var failedShare: Double { ended == 0 ? 0 : Double(failed) / Double(ended) }
    var failureOdds: Double { answered == 0 ? .infinity : Double(failed) / Double(answered) }

    /// The report without what a node that is cut off cannot judge: failed connections and silence.
    package var withoutFailedConnections: ScopeReport {
        var report = self
        (report.unreachable, report.unreachableCode) = (0, nil)
        (report.silent, report.silentJobs) = (0, .none)
        return report
    }

    /// Adds the end of an attempt, or its silence. `seconds`: duration of the attempt.
    package mutating func add(_ signal: HostSignal, job: JobID, seconds: Double = 0, bytes: Int64 = 0) {
        self.bytes += bytes
        switch signal {
        case .answered:
            answered += 1
            answeredSeconds += seconds
            forgetUnanswered()
        case .throttled(let status, let asked):
            throttled += 1
            throttleStatus = status
            failedSeconds += seconds
            failedJobs.add(.one(job))
            guard let asked, asked > 0 else { return }
            retryAfter = min(asked, retryAfter ?? asked)
            retryAfterJobs.add(.one(job))
        case .lost:
            lost += 1
            failedSeconds += seconds
            failedJobs.add(.one(job))
        case .unanswered:
            silent += 1
            silentJobs.add(.one(job))
        case .unreachable(let code):
            unreachable += 1
            unreachableCode = code
        case .none: break
        }
    }

    /// Adds another report. Their order is not known: an answered attempt in one of them ends the silence and
    /// the `Retry-After` of the other.
    package mutating func add(_ other: ScopeReport) {
        if other.answered > 0 { forgetUnanswered() }
        if answered == 0 {
            retryAfter = [retryAfter, other.retryAfter].compactMap(\.self).min()
            retryAfterJobs.add(other.retryAfterJobs)
            silent += other.silent
            silentJobs.add(other.silentJobs)
        }
        answered += other.answered
        answeredSeconds += other.answeredSeconds
        failedSeconds += other.failedSeconds
        bytes += other.bytes
        throttled += other.throttled
        throttleStatus = other.throttleStatus ?? throttleStatus
        lost += other.lost
        failedJobs.add(other.failedJobs)
        unreachable += other.unreachable
        unreachableCode = other.unreachableCode ?? unreachableCode
    }

    private mutating func forgetUnanswered() {
        (retryAfter, retryAfterJobs) = (nil, .none)
        (silent, silentJobs) = (0, .none)
    }
}
