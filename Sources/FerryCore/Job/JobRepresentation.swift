/// A job as all endpoints and webhooks show it: its state, its accepted fields and its result.
public final class ShownJob: ShownObject {
    public static let summary =
        "The accepted fields with their effective values, and the progress of the job. Every member is "
        + "present."
    public static let schemaName = "Job"

    private let record: JobRecord
    private let reason: WaitingReason?
    private let question: ShownQuestion?
    /// The accepted fields; those of an empty job if `isReadable` is `false`.
    private let spec: JobSpec
    /// `false` if the stored fields are damaged.
    private let isReadable: Bool
    private let progress: ShownProgress
    private let response: ShownResponse?
    private let result: ShownResult?
    private let error: ShownError?
    /// `true` to hide what may be secret.
    private let isRedacted: Bool

    init(
        _ record: JobRecord, _ progress: TransferProgress?, _ unavailable: NodeUnavailable?,
        _ queue: () -> QueueConditions, _ disclosure: Disclosure
    ) {
        self.record = record
        reason = WaitingReason(record, queue: queue())
        // With a wrong key the question is shown without secrets.
        question = (disclosure.seal.flatMap { record.question(opening: $0) } ?? record.question(opening: nil))
            .map { ShownQuestion($0) }
        let spec = record.storedSpec.shown(for: disclosure)
        isReadable = spec != nil
        self.spec = spec?.withStandardStatus ?? JobSpec()
        let result = record.result
        let known =
            record.finalProgress(result, isUpload: spec?.kind == .upload) ?? progress
            ?? record.partialDownload?.progress ?? TransferProgress()
        self.progress = ShownProgress(
            progress: known, isSucceeded: record.state == .succeeded, unavailable: unavailable)
        response = record.shownResponse(for: disclosure)
        self.result = result.map { ShownResult(result: $0, job: record.id, body: record.body) }
        error = record.error.map { ShownError($0) }
        isRedacted = disclosure.isRedacted
    }

    public static func members(_ list: inout some MemberVisitor<ShownJob>) {
        list.member("id", \.record.id, "Identifier of the job.")
        list.member("tenant", \.record.tenant, "Owner of the job.")
        list.member("state", \.record.state, "State of the job.")
        list.member("waiting_for", \.record.waitingFor, "What a job in state waiting waits for.")
        list.member("revision", \.record.revision, "Grows with each change of the job.", [.minimum(0)])
        list.member(
            "waiting_reason", \.reason, "Why the job does not run; null for running and terminal jobs.")
        list.member("created_at", \.record.createdAt, "Time of the submission.")
        list.member("started_at", \.record.startedAt, "Start of the first attempt.")
        list.member("finished_at", \.record.finishedAt, "Time of the terminal state.")
        list.member("acknowledged_at", \.record.acknowledgedAt, "Time of the acknowledgement.")
        list.member("next_attempt_at", \.record.nextAttemptAt, "Time at which a waiting job continues.")
        list.member(
            "attempt", \.record.attempt, "Number of the last attempt, 0 before the first.", [.minimum(0)])
        list.member("node", \.record.node, "Node of the last attempt.")
        list.member("link", { _ in "default" }, "Network link of the job.")
        list.member("retry_of", \.record.retryOf, "The job that this one retries.")
        list.member(
            "retried_by", \.record.retriedBy,
            "The first job that retries this one. It stays when that job is deleted, and is null in events.")
        list.member("question", \.question, "The open question about the job.")
        list.members(if: \.isReadable) { list in
            list.member(
                "expires_at", { $0.spec.schedule.resourceExpiry(createdAt: $0.record.createdAt) },
                "End of timeout_for_resource, which counts from the later of created_at and "
                    + "earliest_begin_at.")
            list.member("answered_by", \.spec.answers?.last, "The last answer about the job.")
            list.member(
                "schedule_id", \.spec.occurrence?.schedule, "The schedule that submitted the job.")
            list.member("scheduled_at", \.spec.occurrence?.scheduledAt, "The schedule's occurrence.")
            list.fields(\.spec)
        }
        // Of damaged fields, what is there.
        list.rawMembers { $0.isReadable || $0.isRedacted ? nil : $0.record.storedSpec.json }
        list.member("progress", \.progress, "Progress of the job.")
        list.member("response", \.response, "The last response of the server.")
        list.member("result", \.result, "What a successful job has received or sent.")
        list.member("error", \.error, "Why the job or its last attempt has failed.")
        list.member(
            "resume_data", \.record.resumeData,
            "Text with which another job resumes from the bytes of this one, for a day.")
    }
}

extension JobRecord {
    /// Writes the job as all endpoints and webhooks show it. `progress`: of the running attempt, or `nil` if
    /// not known. `unavailable`: why the node that runs the job did not tell its progress. `queue`: evaluated
    /// only for a job that waits for Ferry or its host. `disclosure`: what the reader may see.
    public func write(
        into writer: inout JSONWriter, progress: TransferProgress?, unavailable: NodeUnavailable? = nil,
        queue: @autoclosure () -> QueueConditions = QueueConditions(), for disclosure: Disclosure = .redacted
    ) {
        ShownJob(self, progress, unavailable, queue, disclosure)
            .show(into: &writer, isRedacted: disclosure.isRedacted)
    }

    /// Progress of a finished job from its result, or from the bytes that it has left.
    fileprivate func finalProgress(_ result: TransferResult?, isUpload: Bool) -> TransferProgress? {
        guard state.isTerminal else { return nil }
        guard let result else { return partialDownload?.progress ?? TransferProgress() }
        // Most requests have no body.
        let sent = result.bytesSent > 0 ? result.bytesSent : nil
        if isUpload {
            return TransferProgress(
                bytesSent: sent ?? result.size, bytesExpectedToSend: sent ?? result.size,
                resumedAtOffset: result.resumedAtOffset)
        }
        return TransferProgress(
            bytesReceived: result.size, bytesExpectedToReceive: result.size, bytesSent: sent ?? 0,
            bytesExpectedToSend: sent, resumedAtOffset: result.resumedAtOffset)
    }
}

extension JobRecord {
    /// Progress of a job that has succeeded; `nil` for any other job.
    public var succeededProgress: TransferProgress? {
        state == .succeeded ? finalProgress(result, isUpload: spec?.kind == .upload) : nil
    }
}

extension TransferProgress {
    /// Bytes done and expected of the direction that carries the file: sending if there is something to send.
    /// An estimate counts while no length is known, until more bytes than estimated have moved.
    private var leading: (done: Int64, expected: Int64)? {
        if let expected = bytesExpectedToSend, expected > 0 { return (bytesSent, expected) }
        if let expected = bytesExpectedToReceive, expected > 0 { return (bytesReceived, expected) }
        switch estimate {
        case .toSend(let expected)? where bytesExpectedToSend == nil && bytesSent < expected:
            return (bytesSent, expected)
        case .toReceive(let expected)? where bytesExpectedToReceive == nil && bytesReceived < expected:
            return (bytesReceived, expected)
        default: return nil
        }
    }

    fileprivate var fractionCompleted: Double? {
        leading.map { min(1, max(0, Double($0.done) / Double($0.expected))) }
    }

    fileprivate var secondsRemaining: Double? {
        guard bytesPerSecond > 0, let leading else { return nil }
        return max(0, Double(leading.expected - leading.done)) / bytesPerSecond
    }
}

/// The `progress` object of the API.
public struct ShownProgress: ShownObject {
    public static let summary =
        "Progress of the running attempt. Without a running attempt: of the result, or of the bytes that are "
        + "kept for a later attempt."
    public static let schemaName = "Progress"

    private let progress: TransferProgress
    private let isSucceeded: Bool
    /// Reason for which the progress is not known, or `nil`.
    private let unavailable: NodeUnavailable?

    /// Creates the progress of a job.
    public init(
        progress: TransferProgress, isSucceeded: Bool = false, unavailable: NodeUnavailable? = nil
    ) {
        self.progress = progress
        self.isSucceeded = isSucceeded
        self.unavailable = unavailable
    }

    /// Progress of a job that has not begun, encoded once.
    private static let none: [UInt8] = {
        var writer = JSONWriter()
        ShownProgress(progress: TransferProgress()).showAnew(into: &writer)
        return writer.bytes
    }()

    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        if !isSucceeded, unavailable == nil, progress == TransferProgress() {
            writer.raw(Self.none)
        } else {
            showAnew(into: &writer)
        }
    }

    private func showAnew(into writer: inout JSONWriter) {
        writer.beginObject()
        showMembers(into: &writer, isRedacted: true)
        writer.endObject()
    }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("bytes_received", \.progress.bytesReceived, "Bytes of the response body received so far.")
        list.member(
            "bytes_expected_to_receive", \.progress.bytesExpectedToReceive,
            "Bytes of the whole response body, or null if not known.")
        list.member("bytes_sent", \.progress.bytesSent, "Bytes of the request body sent so far.")
        list.member(
            "bytes_expected_to_send", \.progress.bytesExpectedToSend,
            "Bytes of the whole request body, or null if not known.")
        list.member(
            "fraction_completed", { $0.isSucceeded ? 1 : $0.progress.fractionCompleted },
            "Completed part of the transfer, from 0 to 1. If the total is not known, of the job's expected "
                + "bytes; null if it has none, or more bytes have moved.")
        list.member(
            "bytes_per_second", \.progress.bytesPerSecond,
            "Transfer rate of the last seconds, in bytes per second.")
        list.member(
            "seconds_remaining", { $0.isSucceeded ? 0 : $0.progress.secondsRemaining },
            "Estimated seconds until the end, from the same total, or null if not known.")
        list.member(
            "resumed_at_offset", \.progress.resumedAtOffset,
            "Byte at which the transfer resumed; 0 if it restarted because the kept bytes could not be used; "
                + "null if no bytes were kept.")
        list.optional(
            "unavailable", \.unavailable,
            "Why the progress is not known: the job runs on another node, which does not answer. Absent "
                + "otherwise.")
    }
}
