import CCurl

/// The bounds that libcurl itself sets to the head of a response, and how its versions say that one was
/// exceeded. The only place that reads these words; all others see `CurlError.tooLarge`.
///
/// | What | Bound of 7.88 | Code and words |
/// |---|---|---|
/// | one line of a head, interim responses and redirects included | 100 KiB | 27, none |
/// | the heads of one request together, interim ones included | 300 KiB | 56 `Too large response headers` |
/// | one line of a trailer section | 4 KiB | 56 `Out of memory in chunked-encoding` |
/// | one line of a proxy's response to CONNECT | 16 KiB | 56 `CONNECT response too large` |
/// | all of a proxy's response to CONNECT | 300 KiB | 56 `Too large response headers` |
///
/// Since 8.6.0 the first, and the number of header fields, are CURLE_TOO_LARGE. Chunk extensions have no
/// bound; libcurl skips them, and no byte of them reaches a delegate.
enum HeadBounds {
    private static let words = [
        "Too large response headers", "CONNECT response too large", "Out of memory in chunked-encoding",
    ]

    /// `isHeadAwaited`: a request was sent and the head of its response is not whole. All that libcurl
    /// allocates in that state is the line that it reads.
    static func isExceeded(_ code: CURLcode, _ text: String?, isHeadAwaited: Bool) -> Bool {
        switch Int(code.rawValue) {
        case CurlError.tooLarge: true
        case CurlError.outOfMemory: isHeadAwaited
        case CurlError.receiveError: words.contains { text?.hasPrefix($0) ?? false }
        default: false
        }
    }

    /// What operators are told: libcurl's words, where it has some.
    static func text(_ code: CURLcode, _ text: String?) -> String {
        if let text, Int(code.rawValue) != CurlError.outOfMemory { return text }
        return "a line of the response's head is longer than libcurl takes"
    }
}
