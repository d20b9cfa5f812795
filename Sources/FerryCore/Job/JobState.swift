/// State of a job. A terminal state never changes.
package enum JobState: String, Sendable, CaseIterable {
    case waiting, queued, running, suspended
    case succeeded, failed, cancelled

    /// `true` if the state never changes again.
    package var isTerminal: Bool {
        switch self {
        case .succeeded, .failed, .cancelled: true
        case .waiting, .queued, .running, .suspended: false
        }
    }
}

/// What a `waiting` job waits for.
package enum WaitingFor: String, Sendable, CaseIterable {
    case beginDate = "begin_date"
    case discretionary, connectivity, retry, dependency, challenge, confirmation, redirect
}

/// Transitions between the states of a job: the only home of this rule. The SQL statements of the store make
/// them; a test runs every statement from every state and compares the results with this table.
package struct JobStateMachine: Sendable, Equatable {
    /// Cause of a transition.
    package enum Input: Sendable, Equatable, CaseIterable {
        /// What the job waited for has happened: its time, a good moment, its host, other jobs, or an answer.
        case becomeDue
        /// The job has to wait after all: its host cannot be reached, or a client has set a later begin date.
        case putOff
        /// A node has leased the job; a new attempt begins.
        case lease
        /// The attempt ended and the next one must wait for its time, for the host, or for an answer about
        /// credentials or a redirect.
        case wait
        /// The node has returned the lease, or is dead.
        case release
        case succeed
        case fail
        case cancel
        case suspend
        case resume
        /// A client has resumed the job, but its begin date, a good moment or other jobs are still to come.
        case resumeLater
    }

    /// The current state.
    package private(set) var state: JobState

    /// Creates a state machine in a state.
    package init(_ state: JobState) { self.state = state }

    /// Makes a transition. Returns `false` and changes nothing if it is not allowed.
    package mutating func handle(_ input: Input) -> Bool {
        guard let next = Self.next(state, input) else { return false }
        state = next
        return true
    }

    /// Returns the state after an input, or `nil` if the input is not allowed.
    package static func next(_ state: JobState, _ input: Input) -> JobState? {
        switch (state, input) {
        case (.waiting, .becomeDue): .queued
        case (.queued, .putOff): .waiting
        case (.queued, .lease): .running
        case (.running, .wait): .waiting
        case (.running, .release): .queued
        case (.running, .succeed): .succeeded
        case (.waiting, .suspend), (.queued, .suspend), (.running, .suspend): .suspended
        case (.suspended, .resume): .queued
        case (.suspended, .resumeLater): .waiting
        case (.running, .fail), (.queued, .fail), (.waiting, .fail), (.suspended, .fail): .failed
        case (.waiting, .cancel), (.queued, .cancel), (.running, .cancel), (.suspended, .cancel): .cancelled
        case (.waiting, _), (.queued, _), (.running, _), (.suspended, _): nil
        case (.succeeded, _), (.failed, _), (.cancelled, _): nil
        }
    }
}
