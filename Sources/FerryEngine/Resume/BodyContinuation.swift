import Curl
import FerryCore

/// Continuation of a body that stops too early: the fields of the next request, the time at which it is sent,
/// and its cost for the attempt in the end. Loop thread only.
struct BodyContinuation {
    private enum Fields { case conditional, unconditional, none }

    private let rules: JobSpec.RetryRules
    /// Beginning of the file.
    private enum Start {
        case nothing
        case response(FirstResponse)
        case record(PartialRecord)
    }

    private var start = Start.nothing
    private var fields = Fields.conditional
    /// The most bytes that the attempt has had.
    private var mostByteCount: Int64 = 0
    /// Continued bodies in a row that brought few bytes.
    private var smallStepCount = 0
    private var waitCount = 0
    /// Whether bytes of several responses are in the file.
    private var isJoined = false
    private var hasFetchedAgain = false
    /// Whether the next request continues a body.
    private(set) var isProgressing = false
    /// Seconds until the next request.
    private(set) var delay = 0.0

    init(_ spec: JobSpec) {
        rules = spec.retry
    }

    /// Record of the file; `nil` if no later request can continue it. Made when it is first asked for: most
    /// bodies come whole, and fit in memory.
    var record: PartialRecord? {
        mutating get {
            if case .response(let first) = start { start = first.record.map(Start.record) ?? .nothing }
            guard case .record(let record) = start else { return nil }
            return record
        }
    }

    /// Takes the bytes of an earlier attempt.
    mutating func resume(_ earlier: EarlierBytes) {
        start = .record(earlier.record)
        mostByteCount = earlier.offset
        isJoined = true
    }

    /// The file begins with a response. `nil`: no later request can continue it.
    mutating func begin(_ first: FirstResponse?) {
        start = first.map(Start.response) ?? .nothing
        isJoined = false
    }

    /// Notes the length of the file, if it was not known.
    mutating func learn(total: Int64?) {
        guard var record, record.total == nil else { return }
        record.total = total
        start = .record(record)
    }

    /// No bytes are there any more.
    mutating func forget() {
        start = .nothing
        isJoined = false
    }

    // MARK: The next request

    var hasIfRange: Bool { mutating get { fields == .conditional && record?.validator != nil } }

    /// Returns the first byte to request if so many are there; `nil` for the whole file.
    mutating func offset(after count: Int64) -> Int64? {
        guard fields != .none, let offset = record?.offset(after: count), offset > 0 else { return nil }
        return offset
    }

    /// Returns the fields `Range` and, if there is a validator, `If-Range` (RFC 9110 §13.1.5, §14.2).
    mutating func fields(from offset: Int64?) -> [TransferRequest.Header] {
        guard let offset else { return [] }
        let range = TransferRequest.Header("Range", "bytes=\(offset)-")
        guard hasIfRange, let validator = record?.validator else { return [range] }
        return [range, .init("If-Range", validator.value)]
    }

    /// Sends no `If-Range` any more.
    mutating func leaveOutIfRange() { fields = .unconditional }

    /// Sends no `Range` any more. The bytes stay until a response brings the whole file.
    mutating func leaveOutRange() { fields = .none }

    // MARK: Progress

    /// Returns whether another request of this attempt continues a body that has stopped after so many bytes:
    /// some are new, and a response can prove that it belongs to them. Determines the delay before it.
    mutating func goesOn(at byteCount: Int64, jitter: Double) -> Bool {
        guard record != nil, byteCount > mostByteCount else { return false }
        smallStepCount =
            byteCount - mostByteCount >= EngineLimits.progressByteCountMin ? 0 : smallStepCount + 1
        mostByteCount = byteCount
        delay = smallStepCount == 0 ? 0 : RetryPolicy.delay(rules, after: smallStepCount, jitter: jitter)
        guard delay <= EngineLimits.slotPauseMax else { return false }
        isJoined = true
        isProgressing = true
        return true
    }

    /// Determines the delay before the next request, in seconds.
    mutating func wait(_ seconds: Double) {
        isProgressing = false
        delay = seconds
    }

    /// Returns whether the current request is sent again in this attempt, however long that waits: no other
    /// attempt could send it. `retryAfter`: seconds that the server asks to wait; `nil` if it does not say.
    mutating func mayWait(_ retryAfter: Double?) -> Bool {
        waitCount += 1
        wait(retryAfter ?? RetryPolicy.delay(rules, after: waitCount, jitter: 0.5))
        return waitCount < rules.attemptCountMax
    }

    /// Returns whether the file is fetched again, once, because bytes of several responses are wrong
    /// together.
    mutating func fetchesAgain(after error: TransferError) -> Bool {
        guard [.digestMismatch, .sizeMismatch].contains(error.code), isJoined, !hasFetchedAgain else {
            return false
        }
        hasFetchedAgain = true
        fields = .none
        return true
    }
}

extension AttemptResult.Outcome {
    /// Returns the outcome with its cost: an attempt that leaves more bytes than it found is no failure.
    func weighed(gained: Int64?) -> Self {
        guard case .failed(var error, let retryAfter) = self, error.isRetryable, error.cost == .attempt,
            let gained, gained > 0
        else { return self }
        error.cost = gained >= EngineLimits.progressByteCountMin ? .reset : .none
        return .failed(error, retryAfter: retryAfter)
    }
}

extension TransferError {
    /// Whether a body that ended with this error may be continued by another request.
    var mayContinue: Bool {
        isRetryable && [.incompleteBody, .connectionLost, .timedOut, .tlsFailed].contains(code)
    }

    static let shortBody = TransferError(
        .incompleteBody, "The server sent less than was left of the file.", phase: .receiving,
        isRetryable: true)
}
