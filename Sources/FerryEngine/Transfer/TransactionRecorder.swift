import Curl
import FerryCore
import Sys

/// Measures the transactions of a connection that sends one request at a time. Loop thread only.
struct TransactionRecorder {
    /// The request that is measured, as `/attempts` shows it.
    struct Request {
        let hop: Hop
        /// Whether it is the job's own as the attempt began, which needs no URL.
        let isOwn: Bool
        /// Whether the address stays hidden: it is the service's proxy.
        let hidesRemote: Bool
    }

    private var meter: TransactionMeter?

    /// A request is about to be given to libcurl. `attemptStart`: monotonic nanoseconds.
    mutating func begin(_ request: TransferRequest, attemptStart: Int64) {
        meter = TransactionMeter(request, attemptStart: attemptStart)
    }

    /// libcurl has not taken the request.
    mutating func abandon() { meter = nil }

    /// libcurl is about to connect.
    mutating func willConnect(
        _ transfer: Transfer?, _ request: @autoclosure () -> Request, in trace: inout AttemptTraceBuilder
    ) {
        followed(meter?.willConnect(transfer), request, &trace)
    }

    /// libcurl is about to send a request.
    mutating func willSend(
        _ transfer: Transfer?, _ request: @autoclosure () -> Request, in trace: inout AttemptTraceBuilder
    ) {
        followed(meter?.willSend(transfer), request, &trace)
    }

    /// After a response, or on a dead kept connection, libcurl sends another request by itself.
    private mutating func followed(
        _ followed: TransactionMeter.Followed?, _ request: () -> Request, _ trace: inout AttemptTraceBuilder
    ) {
        guard let followed else { return }
        // Without a response, a kept connection was dead.
        end(followed.info, request(), isWhole: followed.info.status >= 200, in: &trace)
        meter = followed.next
    }

    mutating func requestEnded() { meter?.requestEnded() }
    mutating func responseStarted() { meter?.responseStarted() }
    mutating func received(_ byteCount: Int) { meter?.received(byteCount) }

    /// One request is over or stopped. Does nothing if none runs. `isBlocked`: its address was refused.
    mutating func end(
        _ info: TransferInfo, _ request: Request, isWhole: Bool, isBlocked: Bool = false,
        in trace: inout AttemptTraceBuilder
    ) {
        guard let meter else { return }
        trace.append(meter.metrics(info, request, isWhole: isWhole, isBlocked: isBlocked))
        self.meter = nil
    }

    /// Measurements of the running request; `nil` if none runs.
    func running(_ transfer: Transfer?, _ request: @autoclosure () -> Request) -> TransactionMetrics? {
        guard let meter, let info = transfer?.info else { return nil }
        return meter.metrics(info, request(), isWhole: false, isRunning: true)
    }
}

/// Record of an attempt for `/attempts`: its transactions, and the failure of the last one. Loop thread only.
struct AttemptTraceBuilder {
    private let startedAt: Timestamp
    /// Monotonic nanoseconds.
    let start = monotonicNanoseconds()
    private var transactions: TransactionLog
    private(set) var diagnostics: AttemptRecord.Diagnostics?

    /// `own`: the job's own request.
    init(startedAt: Timestamp, own: TransactionLog.OwnRequest) {
        self.startedAt = startedAt
        transactions = TransactionLog(own: own)
    }

    mutating func append(_ metrics: TransactionMetrics) { transactions.append(metrics) }
    mutating func followedRedirect() { transactions.redirectCount += 1 }

    /// Notes what operators are told of a failure.
    mutating func note(_ diagnostics: AttemptRecord.Diagnostics) { self.diagnostics = diagnostics }

    func trace(finishedAt: Timestamp) -> AttemptTrace {
        AttemptTrace(
            startedAt: startedAt, finishedAt: finishedAt, transactions: transactions,
            diagnostics: diagnostics)
    }

    /// The attempt so far. `running`: the requests that run.
    func snapshot(_ number: Int32, running: [TransactionMetrics]) -> AttemptSnapshot {
        var transactions = transactions
        for metrics in running { transactions.append(metrics) }
        return AttemptSnapshot(number: number, startedAt: startedAt, transactions: transactions)
    }
}
