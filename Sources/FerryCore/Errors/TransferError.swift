/// Reason for which a job or an attempt did not succeed, as clients see it. Details for operators are stored
/// apart.
public struct TransferError: Error, Sendable, Equatable {
    /// Stable code that clients branch on, documented in `docs/errors.md`.
    public enum Code: String, ShownChoice {
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
        case storageQuotaExceeded = "storage_quota_exceeded"
        case blockedAddress = "blocked_address"
        case requestNotRepeatable = "request_not_repeatable"
        case dependencyFailed = "dependency_failed"
        case cancelled
        case nodeLost = "node_lost"
        case internalError = "internal_error"
    }
    /// Class of a code.
    public enum Class: String, ShownChoice {
        case connectivity, timeout, tls, authentication
        case httpStatus = "http_status"
        case integrity, storage, request, blocked, dependency, cancelled
        case internalError = "internal"
    }
    /// Phase of an attempt in which an error occurred.
    public enum Phase: String, ShownChoice {
        case resolving, connecting, securing, sending, waiting, receiving, finishing
    }

    /// Code of the error.
    public let code: Code
    /// One sentence for people, without secrets, resolved addresses or messages of libraries.
    public let message: String
    /// Phase in which it occurred.
    public let phase: Phase
    /// `true` if another attempt can succeed.
    public let isRetryable: Bool
    /// Code of errno(3) for operators, or 0 if no system call failed.
    public let osError: Int32
    /// `true` if the host itself refused before a request was sent, which proves that it can be reached.
    public let isRefusal: Bool

    /// Effect of a failed attempt on `retry.max_attempts` and on the delay.
    public enum Cost: Sendable, Equatable {
        /// It counts toward `retry.max_attempts`.
        case attempt
        /// It counts for nothing: the server was not ready, or the attempt has received few new bytes.
        case none
        /// It counts for nothing, and the delay begins anew: the attempt has received many new bytes.
        case reset
    }
    /// Set by the engine, and not stored.
    public var cost = Cost.attempt
    /// The host whose name did not resolve; `nil` for other errors. Set by the engine, and not stored.
    public var unresolvedHost: String?

    /// Creates an error. Phase and retryability must be among those of the code in `docs/errors.md`.
    public init(
        _ code: Code, _ message: String, phase: Phase, isRetryable: Bool, osError: Int32 = 0,
        isRefusal: Bool = false
    ) {
        self.code = code
        self.message = message
        self.phase = phase
        self.isRetryable = isRetryable
        self.osError = osError
        self.isRefusal = isRefusal
    }

    /// Error of an attempt whose node died; its progress is not known.
    public static let attemptLost = TransferError(
        .nodeLost, "The node that ran the attempt was lost.", phase: .waiting, isRetryable: true)

    /// Error of a request that is not idempotent and whose attempt was stopped or lost on the way.
    public static let outcomeUnknown = TransferError(
        .requestNotRepeatable, "The request may have reached the server, and its outcome is unknown.",
        phase: .waiting, isRetryable: false)

    /// Class of the code.
    public var errorClass: Class { code.errorClass }
}
