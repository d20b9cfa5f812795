import FerryCore
import Postgres
import Synchronization

/// Estimated throughput of origins, for discretionary jobs that have to start in time for their deadline. May
/// be used from any thread.
final class ThroughputEstimates: Sendable {
    /// Bytes below which a transfer measures the round trip rather than the throughput.
    static let byteCountMin: Int64 = 1 << 20
    static let originCountMax = 4_096
    /// Weight of the newest transfer in the moving average.
    private static let weight = 0.3

    private struct State {
        /// Bytes per second as shared by all nodes.
        var rates: [String: Double] = [:]
        /// Bytes per second measured on this node and not shared yet.
        var fresh: [String: Double] = [:]

        func rate(_ origin: String) -> Double? { fresh[origin] ?? rates[origin] }
    }
    private let state = Mutex(State())

    /// Records the throughput of a transfer.
    func note(_ origin: String, byteCount: Int64, seconds: Double) {
        guard byteCount >= Self.byteCountMin, seconds > 0 else { return }
        let rate = Double(byteCount) / seconds
        state.withLock { state in
            // Beyond this number new origins wait until these are shared.
            guard state.fresh.count < Self.originCountMax || state.fresh[origin] != nil else { return }
            state.fresh[origin] = state.rate(origin).map { $0 + (rate - $0) * Self.weight } ?? rate
        }
    }

    /// Records the throughput of an attempt if it has succeeded, is the first of its job, and has enough
    /// bytes.
    func note(_ result: AttemptResult, at clock: DatabaseClock) {
        let byteCount = max(result.bytesReceived, result.bytesSent)
        guard byteCount >= Self.byteCountMin, case .succeeded = result.outcome, result.attempt.number == 1
        else { return }
        note(result.attempt.origin, byteCount: byteCount, seconds: clock.now() - result.attempt.startedAt)
    }

    /// Returns bytes per second; `nil` if the origin was not measured.
    func bytesPerSecond(_ origin: String) -> Double? { state.withLock { $0.rate(origin) } }

    /// Writes what was measured on this node, and reads the estimates of all nodes.
    func exchange(_ connection: inout Connection, now: Timestamp) throws(PostgresError) {
        let shared = state.withLock { $0.fresh }
        let fresh = shared.sorted { $0.key < $1.key }
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
            // Estimates measured meanwhile are shared next time.
            state.fresh = state.fresh.filter { shared[$0.key] != $0.value }
        }
    }
}
