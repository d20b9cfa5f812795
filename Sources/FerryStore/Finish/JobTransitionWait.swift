import FerryCore
import FerryScheduler
import Postgres

extension JobTransition {
    /// The wait of a job after an attempt that could not reach its origin, or whose redirect leads to an
    /// origin that is limited just now. No attempt is used up.
    struct Wait: Sendable {
        let lease: Lease
        /// Factor of the pause before the next attempt, which grows with each wait. `nil` if the job waits
        /// until its origin can be reached.
        let pauseFactor: Double?
        let errorJSON: [UInt8]
        /// As in `Retry`.
        let ended: [UInt8]?
        let leavesBytes: Bool
        /// `true` if the job's webhook wants the event of its first wait.
        let isWanted: Bool
        /// `true` if another origin than its own holds it up. `pauseFactor` then is in seconds.
        let isHeld: Bool

        /// `nil` if the attempt ended for another reason, or the job does not wait for connectivity.
        /// `isHostKnown`: its origin is known as unreachable, and is probed. `jitter` is from 0 to 1.
        init?(
            _ result: AttemptResult, isHostKnown: Bool, node: NodeID, now: Timestamp, jitter: Double,
            _ seal: SecretSeal
        ) {
            let attempt = result.attempt
            lease = Lease(job: attempt.job, attempt: attempt.number, revision: attempt.revision)
            leavesBytes = result.leavesBytes
            if case .putOff(let hold) = result.outcome {
                isHeld = true
                isWanted = false
                pauseFactor = Self.holdPause(attempt) * (0.8 + 0.4 * jitter)
                errorJSON = hold.errorJSON
                ended = result.packed(.failed, errorJSON, node: node, at: now, seal)
                return
            }
            isHeld = false
            guard case .failed(let error, _) = result.outcome, attempt.spec.schedule.waitsForConnectivity,
                HostSignal.isUnreachable(error)
            else { return nil }
            pauseFactor = isHostKnown && !result.endedAtOtherHost ? nil : 0.8 + 0.4 * jitter
            errorJSON = error.json
            ended = result.packed(.failed, errorJSON, node: node, at: now, seal)
            isWanted = attempt.spec.webhook?.events.contains(.jobWaitingForConnectivity) ?? false
        }

        /// Pause in seconds. It grows, because each attempt sends a request to the job's own origin.
        private static func holdPause(_ attempt: Attempt) -> Double {
            Double(1 << min(max(0, attempt.number - attempt.failedAttemptCount - 1), 5))
        }
    }
}

extension Parameters {
    /// The parameters of await_connectivity.sql.
    static func waits(_ waits: [JobTransition.Wait]) -> Parameters {
        var parameters = Parameters(capacity: waits.count * 256)
        parameters.append(waits.map(\.lease))
        parameters.appendArray(.float64, waits) { $0.append(float64: $1.pauseFactor) }
        parameters.appendArray(.text, waits) { $0.append(text: $1.errorJSON) }
        parameters.appendArray(.bytea, waits) { $0.append(bytea: $1.ended) }
        parameters.appendArray(.bool, waits) { $0.append(bool: $1.leavesBytes) }
        parameters.appendArray(.bool, waits) { $0.append(bool: $1.isHeld) }
        return parameters
    }
}
