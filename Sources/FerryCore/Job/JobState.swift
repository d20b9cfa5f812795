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

/// The life of a job: every legal move, and nothing else. The statements of the store make them; a test runs
/// all of those from every state and holds what happens against this table.
package struct JobStateMachine: Sendable, Equatable {
    package enum Input: Sendable, Equatable, CaseIterable {
        /// What it waited for has come: a time, a good moment, its host, the end of others, an answer.
        case becomeDue
        /// It is not its turn yet: its host is away, or a client has given it a later begin date.
        case putOff
        /// A node took it; a new attempt begins.
        case lease
        /// The attempt ended, and another one has to wait: for its time, for the host, or for an answer about
        /// credentials or a redirect.
        case wait
        /// The node gives it back, or is dead.
        case release
        case succeed
        case fail
        case cancel
        case suspend
        case resume
        /// A client lets it go on, but its begin date, its good moment or the end of others is still to come.
        case resumeLater
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
