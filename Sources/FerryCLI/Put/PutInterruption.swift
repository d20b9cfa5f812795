import Synchronization

/// The message of a signal while files are sent and their jobs are awaited. Any thread.
final class PutInterruption: Sendable {
    private struct State {
        /// Files without an accepted job.
        var unsentCount: Int
        /// Accepted jobs that have not ended.
        var jobs: [String] = []
    }

    private let state: Mutex<State>

    init(fileCount: Int) {
        state = Mutex(State(unsentCount: fileCount))
        state.withLock { Self.arm($0) }
    }

    /// The service has accepted the job of a file. `isAwaited`: `true` if the command waits for its end.
    func noteAccepted(_ job: String, isAwaited: Bool) {
        state.withLock { state in
            state.unsentCount -= 1
            if isAwaited { state.jobs.append(job) }
            Self.arm(state)
        }
    }

    func noteEnded(_ job: String) {
        state.withLock { state in
            state.jobs.removeAll { $0 == job }
            Self.arm(state)
        }
    }

    private static func arm(_ state: State) {
        let again = "To continue, run the same command again."
        if state.jobs.isEmpty {
            Interruption.arm("Interrupted. \(again)")
        } else if state.unsentCount == 0 {
            Interruption.arm(JobWatch.detached(state.jobs))
        } else {
            Interruption.arm("Interrupted. \(again) \(JobWatch.detached(state.jobs))")
        }
    }
}
