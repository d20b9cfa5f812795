import CCurl

/// The limits that libcurl has for a response head, and how its versions report a head above them. No other
/// code compares these texts; all other code sees `CurlError.tooLarge`.
///
/// | Part | Limit of 7.88 | Code and text |
/// |---|---|---|
/// | one line of a head, interim responses and redirects included | 100 KiB | 27, none |
/// | the heads of one request together, interim ones included | 300 KiB | 56 `Too large response headers` |
/// | one line of a trailer section | 4 KiB | 56 `Out of memory in chunked-encoding` |
/// | one line of a proxy's response to CONNECT | 16 KiB | 56 `CONNECT response too large` |
/// | all of a proxy's response to CONNECT | 300 KiB | 56 `Too large response headers` |
///
/// Since 8.6.0 the first limit, and one on the number of fields, are reported as CURLE_TOO_LARGE. Chunk
/// extensions have no limit; libcurl skips them without passing them to a delegate.
enum HeadBounds {
    private static let words = [
        "Too large response headers", "CONNECT response too large", "Out of memory in chunked-encoding",
    ]

    /// Returns `true` if the code means that the head is too large. `isHeadAwaited`: a request was sent and
    /// the head of its response is incomplete. In that state libcurl allocates only the line it reads.
    static func isExceeded(_ code: CURLcode, _ text: String?, isHeadAwaited: Bool) -> Bool {
        switch Int(code.rawValue) {
        case CurlError.tooLarge: true
        case CurlError.outOfMemory: isHeadAwaited
        case CurlError.receiveError: words.contains { text?.hasPrefix($0) ?? false }
        default: false
        }
    }

    /// Returns libcurl's text for the operator, or one of our own if libcurl has none.
    static func text(_ code: CURLcode, _ text: String?) -> String {
        if let text, Int(code.rawValue) != CurlError.outOfMemory { return text }
        return "a line of the response head is longer than libcurl accepts"
    }
}
