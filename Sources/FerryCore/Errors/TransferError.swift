/// Why a job or an attempt did not succeed. Client-visible; operators' details travel beside it.
package struct TransferError: Error, Sendable, Equatable {
    /// Stable, documented in `docs/errors.md`; the raw value is what clients switch on.
    package enum Code: String, Sendable, CaseIterable {
        case hostNotFound = "host_not_found"
        case couldNotConnect = "could_not_connect"
        case hostHeld = "host_held"
        case connectionLost = "connection_lost"
        case timedOut = "timed_out"
        case resourceTimeout = "resource_timeout"
        case deadlineExceeded = "deadline_exceeded"
        case tlsFailed = "tls_failed"
        case certificateInvalid = "certificate_invalid"
        case clientCertificateRequired = "client_certificate_required"
        case authenticationRequired = "authentication_required"
        case unacceptableStatus = "unacceptable_status"
        case unacceptableContentType = "unacceptable_content_type"
        case tooManyRedirects = "too_many_redirects"
        case redirectInvalid = "redirect_invalid"
        case responseInvalid = "response_invalid"
        case responseTooLarge = "response_too_large"
        case incompleteBody = "incomplete_body"
        case sizeMismatch = "size_mismatch"
        case digestMismatch = "digest_mismatch"
        case sourceNotFound = "source_not_found"
        case sourceChanged = "source_changed"
        case destinationExists = "destination_exists"
        case destinationInvalid = "destination_invalid"
        case storageFull = "storage_full"
        case storageUnavailable = "storage_unavailable"
        case storageFailed = "storage_failed"
        case blockedAddress = "blocked_address"
        case requestNotRepeatable = "request_not_repeatable"
        case dependencyFailed = "dependency_failed"
        case cancelled
        case nodeLost = "node_lost"
        case internalError = "internal_error"
    }
    package enum Class: String, Sendable, CaseIterable {
        case connectivity, timeout, tls, authentication
        case httpStatus = "http_status"
        case integrity, storage, request, blocked, dependency, cancelled
        case internalError = "internal"
    }
    package enum Phase: String, Sendable, CaseIterable {
        case resolving, connecting, securing, sending, waiting, receiving, finishing
    }

    package let code: Code
    /// One sentence for people; never a secret, a resolved address or the library's own words.
    package let message: String
    package let phase: Phase
    /// Whether another attempt can help.
    package let isRetryable: Bool
    /// What the operating system said, for operators only (errno(3)); 0: it was not asked.
    package let osError: Int32
    /// Whether it is the host's own refusal, before a request was sent: the host is there.
    package let isAnswer: Bool

    /// Phase and retryability are among those that the code's row in `docs/errors.md` has.
    package init(
        _ code: Code, _ message: String, phase: Phase, isRetryable: Bool, osError: Int32 = 0,
        isAnswer: Bool = false
    ) {
        self.code = code
        self.message = message
        self.phase = phase
        self.isRetryable = isRetryable
        self.osError = osError
        self.isAnswer = isAnswer
    }

    /// What an attempt ends as whose node died: nobody knows how far it came.
    package static let attemptLost = TransferError(
        .nodeLost, "The node that ran the attempt was lost.", phase: .waiting, isRetryable: true)

    /// What a request that is not idempotent ends as when its attempt was given up or lost under way.
    package static let outcomeUnknown = TransferError(
        .requestNotRepeatable, "The request may have reached the server, and its outcome is unknown.",
        phase: .waiting, isRetryable: false)

    package var errorClass: Class { code.errorClass }

    /// The `error` object of the contract.
    package var json: [UInt8] { json(heldBy: nil) }

    /// `heldBy`: what holds the job up, of `host_held` alone.
    func json(heldBy hold: WaitingReason.Code?) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 160)
        writer.beginObject()
        writer.member("code", code.rawValue)
        writer.member("message", message)
        writer.member("class", errorClass.rawValue)
        writer.member("phase", phase.rawValue)
        writer.member("retryable", isRetryable)
        if let hold { writer.member("held_by", hold.rawValue) }
        writer.endObject()
        return writer.bytes
    }
}
