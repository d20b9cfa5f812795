import FerryCore
import FerryScheduler

extension AttemptEnding {
    /// The wait of a job after an attempt that could not reach its origin, or whose redirect leads to an
    /// origin that is limited just now. No attempt is used up.
    ///
    /// `nil` if the attempt ended for another reason, or the job does not wait for connectivity.
    /// `isHostKnown`: its origin is known as unreachable, and is probed. `jitter` is from 0 to 1.
    init?(
        waitingAfter result: AttemptResult, isHostKnown: Bool, node: NodeID, now: Timestamp, jitter: Double,
        _ seal: SecretSeal
    ) {
        let attempt = result.attempt
        var wait: Change
        let stored: Stored<ErrorRecord>
        if case .putOff(let hold) = result.outcome {
            wait = Change(.yieldToOrigin, Lease(attempt))
            wait.change.dueAt = now + Self.holdPause(attempt) * (0.8 + 0.4 * jitter)
            stored = hold.error
        } else {
            guard case .failed(let error, _) = result.outcome, attempt.spec.schedule.waitsForConnectivity,
                HostSignal.isUnreachable(error)
            else { return nil }
            wait = Change(.missOrigin, Lease(attempt))
            wait.change.pause = isHostKnown && !result.endedAtOtherHost ? nil : 0.8 + 0.4 * jitter
            wait.isWanted = attempt.spec.webhook?.events.contains(.jobWaitingForConnectivity) ?? false
            stored = Stored(error)
        }
        wait.change.error = stored
        wait.change.ended = result.packed(.failed, stored, node: node, at: now, seal)
        // Bytes of earlier attempts are still there.
        wait.change.hasBytes = result.leavesBytes ? true : nil
        self = .change(wait)
    }

    /// Pause in seconds. It grows, because each attempt sends a request to the job's own origin.
    private static func holdPause(_ attempt: Attempt) -> Double {
        Double(1 << min(max(0, attempt.number - attempt.failedAttemptCount - 1), 5))
    }
}
