/// Result of an attempt. Immutable, made once and passed by reference to all who look at it.
public final class AttemptResult: Sendable {
    /// Outcome of an attempt.
    public enum Outcome: Sendable {
        case succeeded(TransferResult)
        /// `retryAfter`: seconds of `Retry-After`, or `nil` if the response had none.
        case failed(TransferError, retryAfter: Double?)
        case cancelled
        case suspended
        /// A client must answer a question before the job continues.
        case asked(JobQuestion)
        /// The lease was returned because the node drains or another node must do the job. Uses no attempt.
        case released
        /// The next request is to a host that may not be used now: the job waits. Uses no attempt.
        case putOff(HostHold)
    }
    /// The attempt that ended.
    public let attempt: Attempt
    /// The outcome.
    public let outcome: Outcome
    /// The last response, or `nil` if there was none.
    public let response: TransferResponse?
    /// Bytes of bodies received and sent.
    public let bytesReceived: Int64
    public let bytesSent: Int64
    /// Measurements, or `nil` if the attempt ended before it began.
    public let trace: AttemptTrace?
    /// `true` if the bytes of a download, or an upload at its server, are left for a later attempt.
    public let leavesBytes: Bool
    /// Size of the bytes that are left, or `nil` if there are none or it is not known.
    public let partialDownload: PartialDownload?
    /// The upload that a later attempt or another job can continue, or `nil`.
    public let upload: ResumableUpload?
    /// `true` if the last response or failure was that of another host: of a redirect, a mirror, or the job's
    /// proxy.
    public let endedAtOtherHost: Bool
    /// Last response as evidence, or `nil` if there was none, it was reported already
    /// (`ResultSink.answered`), or a proxy of the job may have produced it.
    public let hostResponse: HostResponse?
    /// The only node that can do a released job, or `nil` if every node can.
    public let home: NodeID?
    /// Seconds for which another job used the slot of the attempt.
    public let lentSeconds: Double
    /// The request with which the next attempt begins, or `nil`: the job's own.
    public let delayedRedirect: DelayedRedirect?
    /// Body of the response that has rejected an upload, described by `response.content`; `nil` if there is
    /// none, or it is in a managed file.
    public let rejectedBody: [UInt8]?

    /// Creates a result. `leavesBytes` is implied by `partialDownload` and `upload`. `rejected`: the stored
    /// body of the response that has rejected an upload, or `nil`.
    public convenience init(
        attempt: Attempt, outcome: Outcome, response: TransferResponse?, bytesReceived: Int64,
        bytesSent: Int64, trace: AttemptTrace? = nil, leavesBytes: Bool = false,
        partialDownload: PartialDownload? = nil, endedAtOtherHost: Bool = false,
        hostResponse: HostResponse? = nil, home: NodeID? = nil, lentSeconds: Double = 0,
        delayedRedirect: DelayedRedirect? = nil, rejected: TransferResult? = nil,
        upload: ResumableUpload? = nil
    ) {
        self.init(
            attempt, outcome, response, (received: bytesReceived, sent: bytesSent), trace,
            leavesBytes: leavesBytes || partialDownload != nil || upload != nil, partialDownload, upload,
            endedAtOtherHost: endedAtOtherHost, hostResponse, home: home, lentSeconds: lentSeconds,
            delayedRedirect, rejected: rejected, rejectedBody: nil)
    }

    private init(
        _ attempt: Attempt, _ outcome: Outcome, _ response: TransferResponse?,
        _ byteCounts: (received: Int64, sent: Int64), _ trace: AttemptTrace?, leavesBytes: Bool,
        _ partialDownload: PartialDownload?, _ upload: ResumableUpload?, endedAtOtherHost: Bool,
        _ hostResponse: HostResponse?,
        home: NodeID?, lentSeconds: Double, _ delayedRedirect: DelayedRedirect?, rejected: TransferResult?,
        rejectedBody: [UInt8]?
    ) {
        self.attempt = attempt
        self.outcome = outcome
        (bytesReceived, bytesSent) = byteCounts
        self.trace = trace
        self.leavesBytes = leavesBytes
        self.partialDownload = partialDownload
        self.upload = upload
        self.endedAtOtherHost = endedAtOtherHost
        self.hostResponse = hostResponse
        self.home = home
        self.lentSeconds = lentSeconds
        self.delayedRedirect = delayedRedirect
        if let rejected, rejected.size > 0 {
            var response = response
            response?.content = .init(size: rejected.size, sha256: rejected.sha256)
            if case .object? = rejected.location { response?.contentLocation = rejected.location }
            (self.response, self.rejectedBody) = (response, rejected.body)
        } else {
            (self.response, self.rejectedBody) = (response, rejectedBody)
        }
    }

    /// Returns the result for a job whose fields have changed since the lease. A question about a request
    /// that the job no longer sends is not asked: the job is tried again, by any node.
    public func edited(by edit: AttemptEdit) -> AttemptResult {
        let changesRequest = edit.changesRequest(of: attempt)
        var isOutdated = false
        if case .asked = outcome { isOutdated = changesRequest }
        return AttemptResult(
            attempt.edited(by: edit), isOutdated ? .released : outcome, response, (bytesReceived, bytesSent),
            trace, leavesBytes: leavesBytes, partialDownload,
            edit.dropsNextRequest(of: attempt) ? nil : upload, endedAtOtherHost: endedAtOtherHost,
            hostResponse, home: isOutdated ? nil : home,
            lentSeconds: lentSeconds,
            changesRequest ? nil : delayedRedirect, rejected: nil, rejectedBody: rejectedBody)
    }

    /// Returns the result with another outcome.
    public func with(_ outcome: Outcome, keepsExcerpt: Bool = true) -> AttemptResult {
        var response = response
        if !keepsExcerpt { response?.bodyExcerpt = nil }
        return AttemptResult(
            attempt, outcome, response, (bytesReceived, bytesSent), trace, leavesBytes: leavesBytes,
            partialDownload, upload, endedAtOtherHost: endedAtOtherHost, hostResponse, home: home,
            lentSeconds: lentSeconds, delayedRedirect, rejected: nil, rejectedBody: rejectedBody)
    }

    /// Returns the result after the bytes were stored: with the outcome and end time of that, and without
    /// bytes that are left. `rejected`: what was stored is the body of a response that rejected an upload.
    public func stored(_ outcome: Outcome, rejected: TransferResult?, at instant: Timestamp) -> AttemptResult
    {
        var trace = trace
        trace?.finishedAt = instant
        return AttemptResult(
            attempt, outcome, response, (bytesReceived, bytesSent), trace, leavesBytes: false, nil, nil,
            endedAtOtherHost: endedAtOtherHost, hostResponse, home: nil, lentSeconds: lentSeconds, nil,
            rejected: rejected, rejectedBody: rejectedBody)
    }

    /// The scope that the result is evidence about.
    public var scope: RequestScope { hostResponse?.scope ?? attempt.scope }
}
