/// Header fields whose values never contain a credential in any message. An allow list: other fields may
/// be secret. The only home of this rule, for requests, responses and redirects.
public enum NonSecretFields {
    /// Returns `true` if every reader may see the value of the field. Names are case-insensitive (RFC 9110
    /// §5.1).
    public static func contains(_ name: String) -> Bool {
        let (length, ending) = (name.utf8.count, Ending(name))
        let isNamed =
            length < namesByLength.count
            && namesByLength[length].contains { $0.ending == ending && equalIgnoringCase($0.name, name) }
        return isNamed || prefixes.contains { name.lowercased().hasPrefix($0) }
    }

    /// The names, each in the list at its length.
    private static let namesByLength: [[(ending: Ending, name: String)]] = {
        let lengthMax = names.reduce(0) { max($0, $1.utf8.count) }
        return (0...lengthMax).map { length in
            names.filter { $0.utf8.count == length }.map { (Ending($0), $0) }
        }
    }()

    /// The last bytes of a name, at most eight, in lower case. Names with different endings are different.
    private struct Ending: Equatable {
        private let bytes: UInt64

        init(_ name: String) {
            let utf8 = name.utf8.span
            var word: UInt64 = 0
            if utf8.count >= 8 {
                word = unsafe utf8.bytes.unsafeLoadUnaligned(fromByteOffset: utf8.count - 8, as: UInt64.self)
            } else {
                for index in utf8.indices { word = word << 8 | UInt64(utf8[index]) }
            }
            // Other characters may become equal, too.
            bytes = word | 0x2020_2020_2020_2020
        }
    }

    private static let names = [
        // Content and its negotiation (RFC 9110).
        "accept", "accept-charset", "accept-encoding", "accept-language", "accept-patch", "accept-post",
        "accept-ranges", "allow", "content-disposition", "content-encoding", "content-language",
        "content-length", "content-range", "content-type", "date", "dnt", "expect",
        "max-forwards", "prefer", "preference-applied", "priority", "range", "retry-after", "save-data",
        "server", "upgrade-insecure-requests", "user-agent", "vary", "via",
        // Validators and caches (RFC 9110 §8.8 and §13, RFC 9111).
        "age", "cache-control", "cache-status", "cdn-cache-control", "etag", "expires", "if-match",
        "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "last-modified", "pragma",
        "warning", "x-cache", "x-cache-hits",
        // Connection and framing (RFC 9112).
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
        // Digests (RFC 9530, RFC 3230 and object stores).
        "content-digest", "content-md5", "digest", "repr-digest", "want-content-digest", "want-digest",
        "want-repr-digest", "x-checksum-md5", "x-checksum-sha1", "x-checksum-sha256", "x-goog-hash",
        "x-goog-stored-content-encoding", "x-goog-stored-content-length", "x-amz-mp-parts-count",
        // Rate limits.
        "ratelimit", "ratelimit-limit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset",
        "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
        // Policies for browsers.
        "cross-origin-embedder-policy", "cross-origin-opener-policy", "cross-origin-resource-policy",
        "origin-agent-cluster", "permissions-policy", "referrer-policy", "strict-transport-security",
        "x-content-type-options", "x-frame-options", "x-permitted-cross-domain-policies",
        "x-xss-protection",
        // Identifiers of requests, and durations.
        "server-timing", "traceparent", "tracestate", "x-correlation-id", "x-powered-by", "x-request-id",
        "x-response-time", "x-runtime", "x-amz-id-2", "x-amz-request-id", "x-amz-version-id", "cf-ray",
    ]
    private static let prefixes = ["access-control-", "x-amz-checksum-"]
}
