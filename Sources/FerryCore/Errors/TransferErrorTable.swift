/// The table of `docs/errors.md`: what holds for a code in all cases. A test compares the page with it, and
/// the OpenAPI document is made from it.
extension TransferError.Code {
    /// Class of the code.
    public var errorClass: TransferError.Class {
        switch self {
        case .hostNotFound, .couldNotConnect, .hostHeld, .connectionLost: .connectivity
        case .timedOut, .resourceTimeout, .deadlineExceeded: .timeout
        case .tlsFailed, .certificateInvalid, .clientCertificateRequired: .tls
        case .authenticationRequired: .authentication
        case .unacceptableStatus: .httpStatus
        case .incompleteBody, .sizeMismatch, .digestMismatch, .sourceChanged: .integrity
        case .destinationExists, .destinationInvalid, .sourceNotFound, .storageFull, .storageUnavailable,
            .storageFailed, .storageQuotaExceeded:
            .storage
        case .unacceptableContentType, .tooManyRedirects, .redirectInvalid, .responseInvalid,
            .responseTooLarge, .requestNotRepeatable:
            .request
        case .blockedAddress: .blocked
        case .dependencyFailed: .dependency
        case .cancelled: .cancelled
        case .nodeLost, .internalError: .internalError
        }
    }

    /// Phases in which the error can occur, in the order of an attempt. Errors of a proxy occur while
    /// connecting.
    public var phases: [TransferError.Phase] {
        switch self {
        case .hostNotFound: [.resolving, .connecting]
        case .couldNotConnect, .hostHeld: [.connecting]
        case .connectionLost, .timedOut: [.resolving, .connecting, .securing, .sending, .waiting, .receiving]
        case .resourceTimeout, .deadlineExceeded, .internalError: TransferError.Phase.allCases
        case .tlsFailed, .certificateInvalid: [.connecting, .securing]
        case .clientCertificateRequired: [.securing]
        case .authenticationRequired: [.connecting, .waiting]
        case .unacceptableStatus, .unacceptableContentType, .tooManyRedirects, .redirectInvalid,
            .dependencyFailed, .cancelled:
            [.waiting]
        case .responseInvalid: [.connecting, .sending, .waiting, .receiving]
        case .responseTooLarge: [.connecting, .waiting, .receiving]
        case .storageFull: [.receiving, .finishing]
        case .incompleteBody, .storageQuotaExceeded: [.receiving]
        case .sizeMismatch: [.sending, .waiting, .finishing]
        case .digestMismatch, .destinationExists, .destinationInvalid: [.finishing]
        case .sourceNotFound: [.sending]
        case .sourceChanged: [.sending, .receiving]
        case .storageUnavailable: [.sending, .finishing]
        case .storageFailed: [.sending, .finishing]
        case .blockedAddress: [.connecting, .waiting]
        case .requestNotRepeatable: [.connecting, .sending, .waiting, .receiving]
        case .nodeLost: [.waiting, .finishing]
        }
    }

    /// Values that `retryable` can have.
    public enum Repetition: String, Sendable, CaseIterable { case always, sometimes, never }

    /// Value that `retryable` has.
    public var repetition: Repetition {
        switch self {
        case .hostHeld, .storageUnavailable: .always
        case .hostNotFound, .sourceChanged, .storageFull, .nodeLost, .couldNotConnect, .connectionLost,
            .timedOut, .tlsFailed, .unacceptableStatus, .responseInvalid,
            .incompleteBody, .sizeMismatch, .digestMismatch, .storageFailed, .internalError:
            // Not after a request that is not idempotent and may have had its effect.
            .sometimes
        case .resourceTimeout, .deadlineExceeded, .certificateInvalid, .clientCertificateRequired,
            .authenticationRequired, .unacceptableContentType, .tooManyRedirects, .redirectInvalid,
            .responseTooLarge,
            .sourceNotFound, .destinationExists, .destinationInvalid, .storageQuotaExceeded, .blockedAddress,
            .requestNotRepeatable, .dependencyFailed, .cancelled:
            .never
        }
    }
}
