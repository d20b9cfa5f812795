/// A cause that changes a job.
public enum JobInput: Sendable, Equatable, CaseIterable {
    // Submission.
    /// A request, a schedule or a retry creates the job. It may begin now.
    case submit
    /// Like `submit`; the job must wait for its begin date.
    case submitLater
    /// Like `submit`; the service chooses when the job begins.
    case submitDiscretionary
    /// Like `submit`; the job must wait for other jobs.
    case submitDependent
    /// Like `submit`; a client must resume the job before it may begin.
    case submitSuspended
    /// Like `submit`; the accepting node has a free slot and begins at once.
    case submitLeased
    /// Like `submit`; the accepting node holds the job in its memory until it has a free slot. The API shows
    /// it as queued.
    case submitHeld

    // Attempts.
    /// A node has leased the job; a new attempt begins.
    case claim
    /// The attempt of a job that was held since its submission has begun.
    case begin
    case succeed
    /// The attempt has failed for good, or the job's time is over.
    case fail
    /// The job ends because a client has cancelled it.
    case cancel
    /// The attempt has failed; the next one comes after a pause.
    case retry
    /// The attempt could not reach its origin.
    case missOrigin
    /// A redirect of the attempt leads to an origin that allows no further request just now.
    case yieldToOrigin
    /// The server wants credentials, about which the client is to be asked.
    case askCredentials
    /// The server redirects to another place, about which the client is to be asked.
    case askRedirect
    /// The URL or the credential is outdated, and the client is to be asked for another one.
    case askURL
    /// The node returns the lease: it drains, stops, has no slot, or has stopped the attempt for a
    /// suspension.
    case giveBack
    /// The node that ran the job is dead or has been restarted.
    case loseNode

    // Time and other jobs.
    /// The begin date, the end of a pause or the latest start has come.
    case becomeDue
    /// A discretionary job starts before its latest start.
    case startDiscretionary
    /// The job is discretionary: the service chooses its start.
    case deferStart
    /// The job is due, and a client is asked before it begins.
    case askBegin
    /// Like `askBegin`, in the transaction that submits the job.
    case askBeginOnSubmission
    /// The dependencies have ended.
    case endDependencies
    /// Like `endDependencies`; the begin date is still to come.
    case endDependenciesLater
    /// The origin can be reached again.
    case reachOrigin
    /// Other attempts have found the origin unreachable before this job was leased.
    case loseOrigin

    // Clients.
    /// An answer lets the job go on.
    case answer
    /// An answer leads to another question about credentials.
    case answerWithQuestion
    case suspend
    /// Suspension of a running job: its node is asked.
    case requestSuspension
    case resume
    /// Like `resume`; the begin date or the latest start is still to come.
    case resumeLater
    /// Like `resume`; the service chooses when the job begins.
    case resumeDiscretionary
    /// Like `resume`; the dependencies are still to come.
    case resumeDependent
    /// A requested suspension is withdrawn before the node has carried it out.
    case withdrawSuspension
    /// Cancellation of a running job: its node is asked.
    case requestCancellation
    /// Like `requestCancellation`; the bytes of a download are kept.
    case requestCancellationKeepingBytes
    /// An edit that does not change when the job begins.
    case edit
    /// An edit after which the job may begin now.
    case editToBegin
    /// An edit after which the job begins later.
    case editToBeginLater

    // Finished jobs.
    case acknowledge
    /// A reminder that the acknowledgement is missing.
    case remind
    /// The time for the acknowledgement is over.
    case giveUpAcknowledgement
    /// A client or the end of the retention deletes the job.
    case delete
}

/// Changes that a `JobTransition` makes besides the state.
public struct JobEffects: OptionSet, Sendable, Hashable {
    public let rawValue: Int32
    public init(rawValue: Int32) { self.rawValue = rawValue }

    /// The revision grows by 1.
    public static let revises = JobEffects(rawValue: 1)
    /// The attempt number grows by 1.
    public static let beginsAttempt = JobEffects(rawValue: 2)
    /// The node's lease ends.
    public static let endsAttempt = JobEffects(rawValue: 4)
    /// The attempt was lost with its node: what it did is unknown.
    public static let losesAttempt = JobEffects(rawValue: 8)
    /// A wait for connectivity is counted. Only the first one has an event.
    public static let countsWait = JobEffects(rawValue: 16)
    /// The state stays as it is, and what the job waits for.
    public static let keepsState = JobEffects(rawValue: 4_096)
    /// The begin of a held job's attempt is noted.
    public static let recordsBegin = JobEffects(rawValue: 8_192)
    /// The due time stays as it is.
    public static let keepsDueTime = JobEffects(rawValue: 32)
    public static let requestsSuspension = JobEffects(rawValue: 64)
    public static let withdrawsSuspension = JobEffects(rawValue: 128)
    public static let requestsCancellation = JobEffects(rawValue: 256)
    public static let keepsBytes = JobEffects(rawValue: 512)
    /// Jobs that depend on this one are released or failed.
    public static let endsJob = JobEffects(rawValue: 1_024)
    /// The job's row is removed.
    public static let removesJob = JobEffects(rawValue: 2_048)
}

/// The transition table of jobs: what an input does to a job in a state. Pure.
///
/// Statements of the store carry transitions out; a test runs them from every state and compares.
public struct JobTransition: Sendable, Equatable {
    /// The state afterwards, or `nil` if the job is removed.
    public let state: JobState?
    /// Condition for which a waiting job waits; `nil` in other states.
    public let waitingFor: WaitingFor?
    /// The event, or `nil`. `beginsAttempt`: only the first attempt has it.
    public let event: EventType?
    /// Changes besides the state.
    public let effects: JobEffects

    private init(
        _ state: JobState?, for waitingFor: WaitingFor? = nil, _ event: EventType? = nil,
        _ effects: JobEffects = []
    ) {
        (self.state, self.waitingFor, self.event, self.effects) = (state, waitingFor, event, effects)
    }

    /// Returns the transition, or `nil` if the input is not allowed in this state. `before`: `nil` if the job
    /// does not exist yet.
    public init?(_ input: JobInput, from before: JobState?) {
        guard Self.origins(of: input).contains(before), let transition = Self.table(input, before) else {
            return nil
        }
        self = transition
    }

    /// States from which an input is allowed. A job that a node holds since its submission counts as running.
    public static func origins(of input: JobInput) -> [JobState?] {
        switch input {
        case .submit, .submitLater, .submitDiscretionary, .submitDependent, .submitSuspended, .submitLeased,
            .submitHeld:
            [nil]
        case .claim, .loseOrigin: [.queued]
        case .begin, .succeed, .retry, .missOrigin, .yieldToOrigin, .askCredentials, .askRedirect, .askURL,
            .giveBack, .loseNode, .requestSuspension, .withdrawSuspension, .requestCancellation,
            .requestCancellationKeepingBytes:
            [.running]
        case .fail, .cancel, .edit: [.waiting, .queued, .running, .suspended]
        case .becomeDue, .startDiscretionary, .deferStart, .askBeginOnSubmission, .endDependencies,
            .endDependenciesLater, .reachOrigin, .answer, .answerWithQuestion:
            [.waiting]
        case .askBegin: [.waiting, .queued, .suspended]
        case .suspend, .editToBegin, .editToBeginLater: [.waiting, .queued]
        case .resume, .resumeLater, .resumeDiscretionary, .resumeDependent: [.suspended]
        case .acknowledge, .remind, .giveUpAcknowledgement, .delete: [.succeeded, .failed, .cancelled]
        }
    }

    private static func table(_ input: JobInput, _ before: JobState?) -> JobTransition? {
        let ended: JobEffects = before == .running ? [.revises, .endsAttempt] : .revises
        return switch input {
        case .submit: .init(.queued, .jobCreated)
        case .submitLater: .init(.waiting, for: .beginDate, .jobCreated)
        case .submitDiscretionary: .init(.waiting, for: .discretionary, .jobCreated)
        case .submitDependent: .init(.waiting, for: .dependency, .jobCreated)
        case .submitSuspended: .init(.suspended, .jobCreated)
        case .submitLeased: .init(.running, .jobCreated, .beginsAttempt)
        case .submitHeld: .init(.queued, .jobCreated, .beginsAttempt)

        case .claim: .init(.running, .jobStarted, [.revises, .beginsAttempt])
        case .begin: .init(.running, .jobStarted, [.revises, .recordsBegin])
        case .succeed: .init(.succeeded, .jobSucceeded, [ended, .endsJob])
        case .fail: .init(.failed, .jobFailed, [ended, .endsJob])
        case .cancel: .init(.cancelled, .jobCancelled, [ended, .endsJob])
        case .retry: .init(.waiting, for: .retry, .jobAttemptFailed, ended)
        case .missOrigin:
            .init(.waiting, for: .connectivity, .jobWaitingForConnectivity, [ended, .countsWait])
        case .yieldToOrigin: .init(.waiting, for: .retry, nil, ended)
        case .askCredentials: .init(.waiting, for: .challenge, .jobChallenge, ended)
        case .askRedirect: .init(.waiting, for: .redirect, .jobRedirect, ended)
        case .askURL: .init(.waiting, for: .urlExpired, .jobURLExpired, ended)
        case .giveBack: .init(.queued, nil, ended)
        case .loseNode: .init(.queued, .jobAttemptFailed, [ended, .losesAttempt])

        case .becomeDue, .startDiscretionary, .endDependencies, .reachOrigin, .answer, .resume:
            .init(.queued, nil, .revises)
        case .deferStart: .init(.waiting, for: .discretionary, nil, .keepsDueTime)
        case .askBegin: .init(.waiting, for: .confirmation, .jobWillBegin, .revises)
        case .askBeginOnSubmission: .init(.waiting, for: .confirmation, .jobWillBegin)
        case .endDependenciesLater, .resumeLater: .init(.waiting, for: .beginDate, nil, .revises)
        case .loseOrigin:
            .init(.waiting, for: .connectivity, .jobWaitingForConnectivity, [.revises, .countsWait])
        case .answerWithQuestion: .init(.waiting, for: .challenge, .jobChallenge, .revises)
        case .suspend: .init(.suspended, nil, .revises)
        case .resumeDiscretionary: .init(.waiting, for: .discretionary, nil, .revises)
        case .resumeDependent: .init(.waiting, for: .dependency, nil, .revises)
        case .requestSuspension: .init(.running, nil, [.keepsState, .requestsSuspension])
        case .withdrawSuspension: .init(.running, nil, [.keepsState, .withdrawsSuspension])
        case .requestCancellation: .init(.running, nil, [.keepsState, .requestsCancellation])
        case .requestCancellationKeepingBytes:
            .init(.running, nil, [.keepsState, .requestsCancellation, .keepsBytes])
        case .edit: .init(before, nil, [.keepsState, .revises])
        case .editToBegin: .init(.queued, nil, .revises)
        case .editToBeginLater: .init(.waiting, for: .beginDate, nil, .revises)

        case .acknowledge: .init(before, .jobAcknowledged, [.keepsState, .revises])
        case .remind: .init(before, .jobUnacknowledged, .keepsState)
        case .giveUpAcknowledgement: .init(before, .jobAcknowledgementExpired, [.keepsState, .revises])
        case .delete: .init(nil, nil, .removesJob)
        }
    }

    /// Returns the transition of a job whose client requested something while it ran. A job to be cancelled
    /// is queued, and the node that claims it ends it; one to be suspended is suspended. The end of an
    /// attempt has its event all the same; a wait or a question that does not happen has none.
    public func after(cancellationRequested: Bool, suspensionRequested: Bool) -> JobTransition {
        guard cancellationRequested || suspensionRequested,
            state == .waiting || state == .queued
                || state == .suspended, !effects.contains(.keepsState)
        else { return self }
        return JobTransition(
            cancellationRequested ? .queued : .suspended, event == .jobAttemptFailed ? event : nil,
            effects.subtracting(.countsWait))
    }
}
