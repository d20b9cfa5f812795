/// Where a job stands. A terminal job never changes again.
package enum JobState: String, Sendable, CaseIterable {
    case waiting, queued, running, suspended
    case succeeded, failed, cancelled

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

/// The life of a job: every legal move, and nothing else.
package struct JobStateMachine: Sendable, Equatable {
    package enum Input: Sendable, Equatable, CaseIterable {
        /// What it waited for has come.
        case becomeDue
        /// A node took it; a new attempt begins.
        case lease
        /// The attempt failed and another one is allowed.
        case retryLater
        /// The node gives it back, or is dead.
        case release
        case succeed
        case fail
        case cancel
        case suspend
        case resume
    }

    package private(set) var state: JobState

    package init(_ state: JobState) { self.state = state }

    /// Makes the move, or returns false and changes nothing when it is not legal from here.
    package mutating func handle(_ input: Input) -> Bool {
        guard let next = Self.next(state, input) else { return false }
        state = next
        return true
    }

    package static func next(_ state: JobState, _ input: Input) -> JobState? {
        switch (state, input) {
        case (.waiting, .becomeDue): .queued
        case (.queued, .lease): .running
        case (.running, .retryLater): .waiting
        case (.running, .release): .queued
        case (.running, .succeed): .succeeded
        case (.waiting, .suspend), (.queued, .suspend), (.running, .suspend): .suspended
        case (.suspended, .resume): .queued
        case (.running, .fail), (.queued, .fail), (.waiting, .fail), (.suspended, .fail): .failed
        case (.waiting, .cancel), (.queued, .cancel), (.running, .cancel), (.suspended, .cancel): .cancelled
        case (.waiting, _), (.queued, _), (.running, _), (.suspended, _): nil
        case (.succeeded, _), (.failed, _), (.cancelled, _): nil
        }
    }
}
