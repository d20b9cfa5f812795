import Curl
package import FerryCore
import Synchronization

/// Counts since the start of the process, for `/metrics`.
package struct EngineSnapshot: Sendable {
    /// Attempts that have begun.
    package var attemptsBegun: Int64 = 0
    /// Attempts that have succeeded.
    package var attemptsSucceeded: Int64 = 0
    /// Attempts that were cancelled.
    package var attemptsCancelled: Int64 = 0
    /// Attempts that ended without success or failure: released, suspended, put off, or with a question.
    package var attemptsReleased: Int64 = 0
    /// By `TransferError.Class`.
    package var attemptsFailed: [TransferError.Class: Int64] = [:]
    /// Body bytes of ended attempts and of the running ones.
    package var bytesReceived: Int64 = 0
    /// Body bytes sent, of ended and running attempts.
    package var bytesSent: Int64 = 0
    /// Connections that were made.
    package var connectionsOpened: Int64 = 0
    /// Requests on kept connections.
    package var connectionsReused: Int64 = 0
    /// Responses by HTTP version.
    package var responses: [(version: String, count: Int64)] = []
    /// Attempts that have begun and not ended.
    package var live = 0
    /// Seconds since the last turn of the loop that is furthest behind; more than two mean that something
    /// blocks it.
    package var loopAgeSeconds: Double = 0
    /// Longest time, in seconds, that a file thread has been at the same work.
    package var fileWorkSeconds: Double = 0
}

/// The counters behind `EngineSnapshot`. Any thread.
final class EngineMetrics: Sendable {
    private let begun = Atomic<Int64>(0)
    private let received = Atomic<Int64>(0)
    private let sent = Atomic<Int64>(0)
    private let opened = Atomic<Int64>(0)
    private let reused = Atomic<Int64>(0)
    private let succeeded = Atomic<Int64>(0)
    private let cancelled = Atomic<Int64>(0)
    private let released = Atomic<Int64>(0)
    private let http1 = Atomic<Int64>(0)
    private let http2 = Atomic<Int64>(0)
    private let http3 = Atomic<Int64>(0)
    private let failed = Mutex<[TransferError.Class: Int64]>([:])

    func began(_ count: Int) { begun.wrappingAdd(Int64(count), ordering: .relaxed) }
    func received(_ count: Int) { received.wrappingAdd(Int64(count), ordering: .relaxed) }
    func sent(_ count: Int) { sent.wrappingAdd(Int64(count), ordering: .relaxed) }

    func connected(_ info: TransferInfo) {
        if info.newConnections > 0 {
            opened.wrappingAdd(Int64(info.newConnections), ordering: .relaxed)
        } else if info.timings.preTransfer > 0 {
            reused.wrappingAdd(1, ordering: .relaxed)
        }
        switch info.httpVersion {
        case "": break
        case "2": http2.wrappingAdd(1, ordering: .relaxed)
        case "3": http3.wrappingAdd(1, ordering: .relaxed)
        default: http1.wrappingAdd(1, ordering: .relaxed)
        }
    }

    func ended(_ outcome: AttemptResult.Outcome) {
        switch outcome {
        case .succeeded: succeeded.wrappingAdd(1, ordering: .relaxed)
        case .failed(let error, _): failed.withLock { $0[error.errorClass, default: 0] += 1 }
        case .cancelled: cancelled.wrappingAdd(1, ordering: .relaxed)
        case .released, .suspended, .asked, .putOff: released.wrappingAdd(1, ordering: .relaxed)
        }
    }

    var snapshot: EngineSnapshot {
        var snapshot = EngineSnapshot()
        snapshot.attemptsBegun = begun.load(ordering: .relaxed)
        snapshot.attemptsSucceeded = succeeded.load(ordering: .relaxed)
        snapshot.attemptsCancelled = cancelled.load(ordering: .relaxed)
        snapshot.attemptsReleased = released.load(ordering: .relaxed)
        snapshot.attemptsFailed = failed.withLock { $0 }
        snapshot.bytesReceived = received.load(ordering: .relaxed)
        snapshot.bytesSent = sent.load(ordering: .relaxed)
        snapshot.connectionsOpened = opened.load(ordering: .relaxed)
        snapshot.connectionsReused = reused.load(ordering: .relaxed)
        snapshot.responses = [
            ("1.1", http1.load(ordering: .relaxed)), ("2", http2.load(ordering: .relaxed)),
            ("3", http3.load(ordering: .relaxed)),
        ]
        return snapshot
    }
}
