import FerryCore
import Postgres
import Synchronization

/// How fast origins were, for those who have to start in time. Any thread.
final class ThroughputEstimates: Sendable {
    /// Transfers with fewer bytes say more of the round trip than of the rate.
    static let byteCountMin: Int64 = 1 << 20
    static let originCountMax = 4_096
    /// Of the newest transfer in the mean.
    private static let weight = 0.3

    private struct State {
        /// As all nodes have it.
        var rates: [String: Double] = [:]
        /// Those that were measured here and are not shared yet.
        var fresh: [String: Double] = [:]

        func rate(_ origin: String) -> Double? { fresh[origin] ?? rates[origin] }
    }
    private let state = Mutex(State())

    /// A transfer of so many bytes took so many seconds.
    func note(_ origin: String, byteCount: Int64, seconds: Double) {
        guard byteCount >= Self.byteCountMin, seconds > 0 else { return }
        let rate = Double(byteCount) / seconds
        state.withLock { state in
            // Beyond that new ones have to wait until these are shared.
            guard state.fresh.count < Self.originCountMax || state.fresh[origin] != nil else { return }
            state.fresh[origin] = state.rate(origin).map { $0 + (rate - $0) * Self.weight } ?? rate
        }
    }

    /// Of an attempt that has ended well, the first of its job, with enough bytes.
    func note(_ result: AttemptResult, at clock: DatabaseClock) {
        let byteCount = max(result.bytesReceived, result.bytesSent)
        guard byteCount >= Self.byteCountMin, case .succeeded = result.outcome, result.attempt.number == 1
        else { return }
        note(result.attempt.origin, byteCount: byteCount, seconds: clock.now() - result.attempt.startedAt)
    }

    /// Bytes a second; nil: nobody has measured it.
    func bytesPerSecond(_ origin: String) -> Double? { state.withLock { $0.rate(origin) } }

    /// Shares what was measured here with the other nodes, and takes over what they have.
    func exchange(_ connection: inout Connection, now: Timestamp) throws(PostgresError) {
        let told = state.withLock { $0.fresh }
        let fresh = told.sorted { $0.key < $1.key }
        if !fresh.isEmpty {
            var parameters = Parameters(capacity: fresh.count * 64)
            parameters.appendArray(.text, fresh) { $0.append(text: $1.key) }
            parameters.appendArray(.float64, fresh) { $0.append(float64: $1.value) }
            parameters.append(now)
            _ = try connection.execute(Statements.putThroughputs, parameters)
        }
        var old = Parameters()
        old.append(now)
        old.append(int32: Int32(Self.originCountMax))
        _ = try connection.execute(Statements.removeOldThroughputs, old)
        let rows = try connection.execute(Statements.readThroughputs, .int32(Int32(Self.originCountMax)))
        var rates: [String: Double] = [:]
        for row in 0..<rows.rowCount { rates[rows.text(row, 0)] = rows.float64(row, 1) }
        state.withLock { state in
            state.rates = rates
            // What was measured meanwhile is shared next time.
            state.fresh = state.fresh.filter { told[$0.key] != $0.value }
        }
    }
}
