import CCurl

/// Rule broken by a response head that libcurl rejects before the delegate gets the line. No other code
/// compares these texts of libcurl 7.88 and 8.
public enum HeadFault: Sendable, Equatable {
    /// The first line is no status line, or has an unknown version or status.
    case statusLine
    /// A line has no colon.
    case noColon
    /// A line contains NUL.
    case nul
    /// `Content-Length` is no number.
    case length
    /// The first field is a folded line.
    case foldedFirst

    /// Returns the fault that the error means, or `nil` if it means none. Call it only if a request was sent
    /// and the head of its response is incomplete.
    init?(_ code: CURLcode, _ text: String?) {
        let begins = { (words: String) in text?.hasPrefix(words) ?? false }
        switch Int(code.rawValue) {
        case CurlError.unsupportedProtocol: self = .statusLine
        // libcurl 7.88 gives this code no text of its own.
        case CurlError.badFunctionArgument: self = .foldedFirst
        case CurlError.weirdServerReply where begins("Header without colon"): self = .noColon
        case CurlError.weirdServerReply where begins("Nul byte in header"): self = .nul
        case CurlError.weirdServerReply where begins("Invalid Content-Length"): self = .length
        case CurlError.weirdServerReply where begins("Invalid response header"): self = .foldedFirst
        default: return nil
        }
    }
}
