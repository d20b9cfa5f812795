import FerryCore

/// Finds out whether a connection is slower than its job allows: as in curl, the average of five seconds
/// counts. Loop thread only.
struct LowSpeedWatch {
    private static let averagedCount = 5

    private let bound: (bytesPerSecond: Int64, seconds: Double)?
    /// Bytes and seconds of the last turns.
    private var turns: [(byteCount: Int64, seconds: Double)] = []
    private var byteCount: Int64 = 0
    private var slowSeconds = 0.0
    /// Whether Ferry itself has held the connection back since the last turn.
    private var isExcused = false

    /// The job's rule, or that of the operator.
    init(_ job: LowSpeed, _ operators: LowSpeed) { bound = job.bound ?? operators.bound }

    /// A request begins.
    mutating func restart() {
        guard bound != nil else { return }
        (turns, byteCount, slowSeconds, isExcused) = ([], 0, 0, false)
    }

    /// Bytes were received or sent.
    mutating func moved(_ count: Int) { byteCount += Int64(count) }

    /// Ferry has paused the transfer.
    mutating func excuse() { isExcused = true }

    /// Called about once a second while a request runs. Returns the error once the connection has been too
    /// slow for too long.
    mutating func secondPassed(_ seconds: Double, isPaused: Bool, _ phase: TransferError.Phase)
        -> TransferError?
    {
        guard let bound else { return nil }
        defer { (byteCount, isExcused) = (0, false) }
        guard !isPaused, !isExcused else {
            (turns, slowSeconds) = ([], 0)
            return nil
        }
        turns.append((byteCount, seconds))
        if turns.count > Self.averagedCount { turns.removeFirst() }
        let time = turns.reduce(0) { $0 + $1.seconds }
        let speed = Double(turns.reduce(0) { $0 + $1.byteCount }) / max(time, 0.001)
        slowSeconds = speed < Double(bound.bytesPerSecond) ? slowSeconds + seconds : 0
        guard slowSeconds >= bound.seconds else { return nil }
        return TransferError(
            .timedOut,
            "Fewer than \(bound.bytesPerSecond) bytes a second moved for "
                + "\(decimalText(bound.seconds)) seconds.",
            phase: phase, isRetryable: true)
    }
}
