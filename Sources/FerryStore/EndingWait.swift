import FerryCore
import FerryScheduler
import Postgres

extension Ending {
    /// An attempt that could not reach its host: it costs the job nothing, and the job waits.
    struct Wait: Sendable {
        let lease: Lease
        /// When it tries again by itself; nil: it is let go once the host can be reached.
        let instant: Timestamp?
        let errorJSON: [UInt8]
        /// As in `Retry`.
        let ended: [UInt8]?
        let leavesBytes: Bool
        /// Somebody wants to be told, if it is the first time.
        let isWanted: Bool

        /// Seconds between tries of a job whose host nobody looks for: at first, and at most.
        static let delayMin = 1.0
        static let delayMax = 300.0

        /// Nil: the attempt ended for another reason, or the job does not wait. `isHostKnown`: somebody
        /// looks for its host already. `jitter`: from 0 to 1.
        init?(_ result: AttemptResult, isHostKnown: Bool, node: NodeID, now: Timestamp, jitter: Double) {
            let attempt = result.attempt
            guard case .failed(let error, _) = result.outcome, attempt.spec.schedule.waitsForConnectivity,
                HostSignal.isUnreachable(error)
            else { return nil }
            lease = Lease(job: attempt.job, attempt: attempt.number, revision: attempt.revision)
            if isHostKnown && !result.endedElsewhere {
                instant = nil
            } else {
                // Attempts that have not failed are those that have waited.
                let earlier = max(0, Int(attempt.number) - Int(attempt.failedAttemptCount) - 1)
                var delay = Self.delayMin
                for _ in 0..<min(earlier, 10) { delay *= 2 }
                instant = now + min(delay, Self.delayMax) * (0.8 + 0.4 * jitter)
            }
            errorJSON = error.json
            ended = result.packed(.failed, errorJSON, node: node, at: now)
            leavesBytes = result.leavesBytes
            isWanted = attempt.spec.webhook?.events.contains(.jobWaitingForConnectivity) ?? false
        }
    }
}

extension JobSpec {
    /// Whether it waits with all jobs of its host until that can be reached: with a proxy of its own it has
    /// its own way there, and with mirrors other places to go to.
    var awaitsHost: Bool {
        schedule.waitsForConnectivity && mirrors.isEmpty && request.connection?.proxy == nil
    }
}

extension Parameters {
    /// The parameters of await_connectivity.sql.
    static func waits(_ waits: [Ending.Wait]) -> Parameters {
        var parameters = Parameters(capacity: waits.count * 256)
        parameters.append(waits.map(\.lease))
        parameters.appendArray(.timestamp, waits) { $0.append($1.instant) }
        parameters.appendArray(.text, waits) { $0.append(text: $1.errorJSON) }
        parameters.appendArray(.bytea, waits) { $0.append(bytea: $1.ended) }
        parameters.appendArray(.bool, waits) { $0.append(bool: $1.leavesBytes) }
        return parameters
    }
}
