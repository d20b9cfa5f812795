package import FerryCore

/// What was seen of one scope: by one node since it last told the others, or in a window of time. Additive.
package struct ScopeReport: Codable, Sendable, Equatable {
    /// The jobs that something happened to: whether they are at least two is all that matters.
    package enum Jobs: RawRepresentable, Codable, Sendable, Equatable {
        case none
        case one(JobID)
        case several

        package init(rawValue: String) {
            self = rawValue.isEmpty ? .none : JobID(rawValue).map { .one($0) } ?? .several
        }

        package var rawValue: String {
            switch self {
            case .none: ""
            case .one(let job): job.description
            case .several: "several"
            }
        }

        /// Adds the jobs that something else happened to.
        package mutating func add(_ other: Jobs) {
            if self == .none { self = other } else if other != .none, other != self { self = .several }
        }
    }

    package var answered = 0
    /// Durations of the attempts that were answered, and of those that were throttled or lost.
    package var answeredSeconds = 0.0
    package var failedSeconds = 0.0
    /// Of the attempts that ended, both directions together.
    package var bytes: Int64 = 0
    package var throttled = 0
    package var throttleStatus: Int?
    package var lost = 0
    /// The jobs that were throttled or lost.
    package var failedJobs = Jobs.none
    /// The shortest `Retry-After` since the last answer, in seconds, and the jobs that were told one.
    package var retryAfter: Double?
    package var retryAfterJobs = Jobs.none
    /// Attempts without an answer for seconds, since the last answer, and their jobs.
    package var silent = 0
    package var silentJobs = Jobs.none
    package var unreachable = 0
    package var unreachableCode: TransferError.Code?

    package init() {}

    package var isEmpty: Bool { self == ScopeReport() }
    /// Whether anything was throttled, lost, silent or not reached.
    package var isTrouble: Bool { failed + silent + unreachable > 0 }
    var failed: Int { throttled + lost }
    var ended: Int { answered + failed }
    /// The part of those that ended which failed, and failures for each answer.
    var failedShare: Double { ended == 0 ? 0 : Double(failed) / Double(ended) }
    var failureOdds: Double { answered == 0 ? .infinity : Double(failed) / Double(answered) }

    /// The same without what a node that is cut off cannot know: connections that failed, and silence.
    package var withoutMisses: ScopeReport {
        var report = self
        (report.unreachable, report.unreachableCode) = (0, nil)
        (report.silent, report.silentJobs) = (0, .none)
        return report
    }

    /// Adds the end of an attempt, or its silence. `seconds`: the duration of the attempt.
    package mutating func add(_ signal: HostSignal, job: JobID, seconds: Double = 0, bytes: Int64 = 0) {
        self.bytes += bytes
        switch signal {
        case .answered:
            answered += 1
            answeredSeconds += seconds
            forgetSilence()
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
        case .silent:
            silent += 1
            silentJobs.add(.one(job))
        case .unreachable(let code):
            unreachable += 1
            unreachableCode = code
        case .none: break
        }
    }

    /// Adds another report. Which of both came first is not known: an answer in one of them ends the silence
    /// and the `Retry-After` of the other.
    package mutating func add(_ other: ScopeReport) {
        if other.answered > 0 { forgetSilence() }
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

    private mutating func forgetSilence() {
        (retryAfter, retryAfterJobs) = (nil, .none)
        (silent, silentJobs) = (0, .none)
    }
}
