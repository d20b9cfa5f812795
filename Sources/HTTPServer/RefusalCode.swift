/// Reason for which the server itself refuses a request. Clients compare the raw values: do not change them.
public enum RefusalCode: String, Sendable, CaseIterable {
    case malformedRequest = "malformed_request"
    case invalidMethod = "invalid_method"
    case invalidTarget = "invalid_target"
    case invalidHost = "invalid_host"
    case invalidHeaderName = "invalid_header_name"
    case invalidHeaderValue = "invalid_header_value"
    case foldedHeader = "folded_header"
    case invalidContentLength = "invalid_content_length"
    case ambiguousLength = "ambiguous_length"
    case invalidTransferEncoding = "invalid_transfer_encoding"
    case bodyTooLarge = "body_too_large"
    case uriTooLong = "uri_too_long"
    case hostMismatch = "host_mismatch"
    case tooManyHeaders = "too_many_headers"
    case headersTooLarge = "headers_too_large"
    case unknownTransferEncoding = "unknown_transfer_encoding"
    case shuttingDown = "shutting_down"
    case responseDeadline = "response_deadline"

    /// Status code of the response.
    public var status: Int {
        switch self {
        case .malformedRequest, .invalidMethod, .invalidTarget, .invalidHost, .invalidHeaderName,
            .invalidHeaderValue, .foldedHeader, .invalidContentLength, .ambiguousLength,
            .invalidTransferEncoding:
            400
        case .bodyTooLarge: 413
        case .uriTooLong: 414
        case .hostMismatch: 421
        case .tooManyHeaders, .headersTooLarge: 431
        case .unknownTransferEncoding: 501
        case .shuttingDown, .responseDeadline: 503
        }
    }
}
