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
    /// Sentence for files without an accepted job.
    private let advice: String

    /// `canContinue`: `true` if a later run of the command can read the files again.
    init(fileCount: Int, canContinue: Bool) {
        state = Mutex(State(unsentCount: fileCount))
        advice =
            canContinue ? "To continue, run the same command again." : "Standard input was not sent."
        state.withLock { arm($0) }
    }

    /// The service has accepted the job of a file. `isAwaited`: `true` if the command waits for its end.
    func noteAccepted(_ job: String, isAwaited: Bool) {
        state.withLock { state in
            state.unsentCount -= 1
            if isAwaited { state.jobs.append(job) }
            arm(state)
        }
    }

    func noteEnded(_ job: String) {
        state.withLock { state in
            state.jobs.removeAll { $0 == job }
            arm(state)
        }
    }

    private func arm(_ state: State) {
        if state.jobs.isEmpty {
            Interruption.arm("Interrupted. \(advice)")
        } else if state.unsentCount == 0 {
            Interruption.arm(JobWatch.detached(state.jobs))
        } else {
            Interruption.arm("Interrupted. \(advice) \(JobWatch.detached(state.jobs))")
        }
    }
}
