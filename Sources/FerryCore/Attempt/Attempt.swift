/// One try of a job, as the engine receives it: everything it needs, nothing it must look up.
package final class Attempt: Sendable {
    package let job: JobID
    /// The fencing token: every state change names it. Grows with each lease.
    package let number: Int32
    /// Attempts that have failed before this one; what `retry.max_attempts` counts.
    package let failedAttemptCount: Int32
    package let revision: Int32
    package let tenant: String
    package let createdAt: Timestamp
    package let startedAt: Timestamp
    package let spec: JobSpec
    package let specJSON: [UInt8]
    package let secrets: JobSecrets
    package let payload: [UInt8]?
    package let origin: String
    /// `RequestScope.path` of its request.
    package let scopePath: String
    package let traceparent: String?
    package let retryOf: JobID?
    /// Somebody asked for its cancellation while no node ran it.
    package let isCancelRequested: Bool
    /// The only node that can do it, as an earlier attempt has found; nil: none has. Another node than this
    /// one: that one is not alive.
    package let home: NodeID?

    package init(
        job: JobID, number: Int32, failedAttemptCount: Int32, revision: Int32, tenant: String,
        createdAt: Timestamp,
        startedAt: Timestamp, spec: JobSpec, specJSON: [UInt8], secrets: JobSecrets, payload: [UInt8]?,
        origin: String, scopePath: String,
        traceparent: String?, retryOf: JobID?, isCancelRequested: Bool, home: NodeID? = nil
    ) {
        self.job = job
        self.number = number
        self.failedAttemptCount = failedAttemptCount
        self.revision = revision
        self.tenant = tenant
        self.createdAt = createdAt
        self.startedAt = startedAt
        self.spec = spec
        self.specJSON = specJSON
        self.secrets = secrets
        self.payload = payload
        self.origin = origin
        self.scopePath = scopePath
        self.traceparent = traceparent
        self.retryOf = retryOf
        self.isCancelRequested = isCancelRequested
        self.home = home
    }

    /// The scope of its own request.
    package var scope: RequestScope { RequestScope(tenant: tenant, origin: origin, path: scopePath) }

    /// The scope of a request that it sends to `url`: a part, a mirror, a redirect.
    package func scope(of url: WebURL) -> RequestScope {
        RequestScope(
            tenant: tenant, origin: url.origin,
            path: RequestScope.path(ofURL: url.string, credentials: RequestScope.credentials(in: scopePath)))
    }

    /// When the job must have ended.
    package var expiry: Timestamp { spec.schedule.expiry(createdAt: createdAt) }

    /// What it ends as when it has not.
    package func overdue(_ phase: TransferError.Phase) -> TransferError {
        spec.schedule.overdue(createdAt: createdAt, phase: phase)
    }
}

/// What the server said, of the last hop.
package struct TransferResponse: Sendable, Equatable {
    package var status: Int
    /// The final URL, without user information or fragment.
    package var url: String
    /// As received, in order; bounded by `Limits`.
    package var headers: [JobSpec.Pair]
    package var mimeType: String?
    package var suggestedFilename: String?
    package var expectedContentLength: Int64?
    /// The beginning of a text that nobody keeps: what an upload is answered, or why something was refused.
    package var bodyExcerpt: String?

    package init(
        status: Int, url: String, headers: [JobSpec.Pair], mimeType: String?, suggestedFilename: String?,
        expectedContentLength: Int64?
    ) {
        self.status = status
        self.url = url
        self.headers = headers
        self.mimeType = mimeType
        self.suggestedFilename = suggestedFilename
        self.expectedContentLength = expectedContentLength
    }
}

/// What a host has answered, as far as it says something about the host.
package struct HostResponse: Sendable, Equatable {
    package let job: JobID
    /// Of the request that was answered; after a redirect not the scope of the job's own request.
    package let scope: RequestScope
    package let status: Int
    /// `Retry-After` in seconds, if the response had one.
    package let retryAfter: Double?

    package init(job: JobID, scope: RequestScope, status: Int, retryAfter: Double?) {
        self.job = job
        self.scope = scope
        self.status = status
        self.retryAfter = retryAfter
    }
}

/// What a successful attempt left behind.
package struct TransferResult: Sendable, Equatable {
    /// Where the file is, relative to the tenant's storage root; nil when the service keeps it or there is
    /// none.
    package var path: String?
    /// Bytes of the file or body that was received (downloads, data) or sent (uploads).
    package var size: Int64
    /// Lower-case hexadecimal, of the same bytes.
    package var sha256: String
    /// Data jobs: the body, when it is short enough for the database.
    package var body: [UInt8]?
    /// The service keeps the bytes in a file of its own (`results/`).
    package var isKept: Bool
    /// How the length is known: `length`, `digest` or `none` (delimited by the end of the connection).
    package var verified: Verification

    /// As in `TransferProgress`.
    package var resumedAtOffset: Int64?

    /// Of a `multipart/x-mixed-replace` body, whose last whole part is the result.
    package struct Parts: Sendable, Equatable {
        package let count: Int64
        /// The last one's.
        package let mimeType: String?
        package init(count: Int64, mimeType: String?) {
            self.count = count
            self.mimeType = mimeType
        }
    }
    package var parts: Parts?
    /// The file at `path` as it was when it got its name.
    package var file: FileIdentity?

    package enum Verification: String, Sendable { case digest, length, none }

    package init(
        path: String?, size: Int64, sha256: String, body: [UInt8]?, isKept: Bool, verified: Verification
    ) {
        self.path = path
        self.size = size
        self.sha256 = sha256
        self.body = body
        self.isKept = isKept
        self.verified = verified
    }
}

/// How an attempt ended.
package struct AttemptResult: Sendable {
    package enum Outcome: Sendable {
        case succeeded(TransferResult)
        /// `retryAfter`: seconds the server asked for, if it did.
        case failed(TransferError, retryAfter: Double?)
        case cancelled
        case suspended
        /// Somebody has to say how it goes on.
        case asked(JobQuestion)
        /// The node drains, or another one has to do it: the lease goes back, no attempt is used up.
        case released
        /// It goes on at a host that may not be used now: it waits, and no attempt is used up.
        case putOff(HostHold)
    }
    package private(set) var attempt: Attempt
    package let outcome: Outcome
    package let response: TransferResponse?
    package let bytesReceived: Int64
    package let bytesSent: Int64
    /// Nil: it ended before it began.
    package let trace: AttemptTrace?
    /// The bytes of a download were left for another attempt.
    package let leavesBytes: Bool
    /// How many; nil: there are none, or nobody has looked.
    package let kept: PartialDownload?
    /// The last answer or failure was not that of the job's own host: a redirect's, a mirror's, its proxy's.
    package let endedElsewhere: Bool
    /// The last one of a server; nil: there was none, it has been told already (`ResultSink.answered`), or a
    /// proxy of the job's own may have made it up.
    package let answer: HostResponse?
    /// Of an attempt that was given back: the only node that can do it.
    package let home: NodeID?
    /// For which others had its slot.
    package var lentSeconds = 0.0

    package init(
        attempt: Attempt, outcome: Outcome, response: TransferResponse?, bytesReceived: Int64,
        bytesSent: Int64, trace: AttemptTrace? = nil, leavesBytes: Bool = false, kept: PartialDownload? = nil,
        endedElsewhere: Bool = false, answer: HostResponse? = nil, home: NodeID? = nil
    ) {
        self.home = home
        self.answer = answer
        self.leavesBytes = leavesBytes || kept != nil
        self.kept = kept
        self.endedElsewhere = endedElsewhere
        self.attempt = attempt
        self.outcome = outcome
        self.response = response
        self.bytesReceived = bytesReceived
        self.bytesSent = bytesSent
        self.trace = trace
    }

    /// The same of a job that was changed meanwhile.
    package func edited(spec: JobSpec, specJSON: [UInt8], revision: Int32) -> AttemptResult {
        var result = self
        result.attempt = Attempt(
            job: attempt.job, number: attempt.number, failedAttemptCount: attempt.failedAttemptCount,
            revision: revision, tenant: attempt.tenant, createdAt: attempt.createdAt,
            startedAt: attempt.startedAt, spec: spec, specJSON: specJSON, secrets: attempt.secrets,
            payload: attempt.payload, origin: attempt.origin, scopePath: attempt.scopePath,
            traceparent: attempt.traceparent, retryOf: attempt.retryOf,
            isCancelRequested: attempt.isCancelRequested, home: attempt.home)
        return result
    }

    /// The same with its true outcome and end.
    package func with(_ outcome: Outcome, at instant: Timestamp) -> AttemptResult {
        var trace = trace
        trace?.finishedAt = instant
        var result = AttemptResult(
            attempt: attempt, outcome: outcome, response: response, bytesReceived: bytesReceived,
            bytesSent: bytesSent, trace: trace, endedElsewhere: endedElsewhere, answer: answer)
        result.lentSeconds = lentSeconds
        return result
    }

    /// The scope that its end says something about, if it does.
    package var scope: RequestScope { answer?.scope ?? attempt.scope }
}

/// How far a running attempt is.
package struct TransferProgress: Sendable, Equatable {
    package var bytesReceived: Int64
    package var bytesExpectedToReceive: Int64?
    package var bytesSent: Int64
    package var bytesExpectedToSend: Int64?
    /// Over the last seconds.
    package var bytesPerSecond: Double
    /// Where a download went on from the bytes of an earlier attempt; 0: they were of no use; nil: there were
    /// none.
    package var resumedAtOffset: Int64?
    package init(
        bytesReceived: Int64 = 0, bytesExpectedToReceive: Int64? = nil, bytesSent: Int64 = 0,
        bytesExpectedToSend: Int64? = nil, bytesPerSecond: Double = 0, resumedAtOffset: Int64? = nil
    ) {
        self.resumedAtOffset = resumedAtOffset
        self.bytesReceived = bytesReceived
        self.bytesExpectedToReceive = bytesExpectedToReceive
        self.bytesSent = bytesSent
        self.bytesExpectedToSend = bytesExpectedToSend
        self.bytesPerSecond = bytesPerSecond
    }
}

/// A job that runs on this node, and how far it is.
package struct RunningTransfer: Sendable, Equatable {
    package let job: JobID
    package let tenant: String
    package let session: String
    package let progress: TransferProgress
    package init(job: JobID, tenant: String, session: String, progress: TransferProgress) {
        self.job = job
        self.tenant = tenant
        self.session = session
        self.progress = progress
    }
}
