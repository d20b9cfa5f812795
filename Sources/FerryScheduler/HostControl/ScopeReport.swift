package import FerryCore

/// What one node has seen of one scope since it last told the others. Additive.
package struct ScopeReport: Sendable, Equatable {
    /// The jobs that something happened to: whether they are at least two is all that matters.
    package enum Jobs: Sendable, Equatable {
        case none
        case one(JobID)
        case several

        package mutating func add(_ job: JobID) { add(.one(job)) }

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
    package var failed: Int { throttled + lost }
    /// Whether anything was throttled, lost, silent or not reached.
    package var isTrouble: Bool { failed + silent + unreachable > 0 }

    /// The same without what a node that is cut off cannot know: connections that failed, and silence.
    package var withoutMisses: ScopeReport {
        var report = self
        report.unreachable = 0
        report.unreachableCode = nil
        report.silent = 0
        report.silentJobs = .none
        return report
    }

    /// Adds the end of an attempt, or its silence. `seconds`: the duration of the attempt.
    package mutating func add(
        _ signal: HostSignal, job: JobID, seconds: Double = 0, bytes: Int64 = 0
    ) {
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
            failedJobs.add(job)
            guard let asked, asked > 0 else { return }
            retryAfter = min(asked, retryAfter ?? asked)
            retryAfterJobs.add(job)
        case .lost:
            lost += 1
            failedSeconds += seconds
            failedJobs.add(job)
        case .silent:
            silent += 1
            silentJobs.add(job)
        case .unreachable(let code):
            unreachable += 1
            unreachableCode = code
        case .none: break
        }
    }

    /// Adds another report of the same scope. Which of both came first is not known: if either has an answer,
    /// the silence and `Retry-After` of both are dropped unless they are of the one with the answer.
    package mutating func add(_ other: ScopeReport) {
        if other.answered > 0, answered == 0 { forgetSilence() }
        if other.answered == 0 || answered == 0 {
            if answered == 0 || other.answered > 0 {
                retryAfter = [retryAfter, other.retryAfter].compactMap(\.self).min()
                retryAfterJobs.add(other.retryAfterJobs)
                silent += other.silent
                silentJobs.add(other.silentJobs)
            }
        } else {
            forgetSilence()
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
        retryAfter = nil
        retryAfterJobs = .none
        silent = 0
        silentJobs = .none
    }
}
