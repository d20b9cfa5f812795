import FerryCore
import FerryScheduler
import Postgres

extension JobTransition {
    /// An attempt that could not reach its host, or not another one to which it leads just now: it costs the
    /// job nothing, and the job waits.
    struct Wait: Sendable {
        let lease: Lease
        /// It tries again by itself, after a pause that grows with its waits, times this; nil: it is let go
        /// once the host can be reached.
        let pauseFactor: Double?
        let errorJSON: [UInt8]
        /// As in `Retry`.
        let ended: [UInt8]?
        let leavesBytes: Bool
        /// Somebody wants to be told, if it is the first time.
        let isWanted: Bool
        /// Another host than its own holds it up: `pauseFactor` is seconds.
        let isHeld: Bool

        /// Nil: the attempt ended for another reason, or the job does not wait. `isHostKnown`: somebody
        /// looks for its host already. `jitter`: from 0 to 1.
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
            pauseFactor = isHostKnown && !result.endedElsewhere ? nil : 0.8 + 0.4 * jitter
            errorJSON = error.json
            ended = result.packed(.failed, errorJSON, node: node, at: now, seal)
            isWanted = attempt.spec.webhook?.events.contains(.jobWaitingForConnectivity) ?? false
        }

        /// Seconds: each try asks the job's own host once more, so they become longer.
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
