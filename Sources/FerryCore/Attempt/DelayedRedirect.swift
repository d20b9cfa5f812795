/// The request that follows a redirect whose `Retry-After` (RFC 9110 §10.2.3) a job waits for in `retry`. It
/// is stored, sealed, while the job waits, and the next attempt begins with it. If that attempt never sends
/// it, the job begins with its own request again.
public struct DelayedRedirect: Sendable, Equatable {
    /// A cookie that a redirect has set (RFC 6265 §5.3).
    public struct Cookie: Sendable, Equatable {
        /// Name and value: each character is one octet (ISO 8859-1).
        public let name: String
        public let value: String
        /// Host in lower case, or the parent domain of all hosts that get the cookie.
        public let domain: String
        public let isHostOnly: Bool
        public let path: String
        public let isSecure: Bool

        /// Creates a cookie.
        public init(
            name: String, value: String, domain: String, isHostOnly: Bool, path: String, isSecure: Bool
        ) {
            self.name = name
            self.value = value
            self.domain = domain
            self.isHostOnly = isHostOnly
            self.path = path
            self.isSecure = isSecure
        }
    }

    /// The request.
    public let hop: JobQuestion.Hop
    /// Origin of the redirect: the job's own URL (0), or a mirror by its position, from 1.
    public let place: Int
    /// Cookies of the redirects so far.
    public let cookies: [Cookie]
    /// Number of the attempt that begins with the request.
    public let attempt: Int32

    /// Creates a redirect.
    public init(_ hop: JobQuestion.Hop, at place: Int = 0, cookies: [Cookie], attempt: Int32) {
        self.hop = hop
        self.place = place
        self.cookies = cookies
        self.attempt = attempt
    }
}

// MARK: Encoding

extension DelayedRedirect {
    /// Returns the encrypted form.
    public func encode(_ seal: SecretSeal) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("attempt", attempt)
        writer.member("place", Int64(place))
        writer.name("request")
        ShownHop(hop: hop, isStored: true).show(into: &writer, isRedacted: false)
        writer.name("cookies")
        writer.beginArray()
        for cookie in cookies { cookie.write(into: &writer) }
        writer.endArray()
        writer.endObject()
        return seal.seal(writer.bytes)
    }

    /// Reads what `encode` encrypted.
    init(_ stored: StoredObject) throws(StoredJSONError) {
        attempt = Int32(clamping: try stored.need(stored.integer("attempt"), "attempt"))
        place = Int(clamping: stored.integer("place") ?? 0)
        hop = try JobQuestion.Hop(try stored.need(stored.object("request"), "request"))
        var cookies: [Cookie] = []
        for cookie in stored.array("cookies") { cookies.append(try Cookie(StoredObject(cookie))) }
        self.cookies = cookies
    }
}

extension DelayedRedirect.Cookie {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("name", name)
        writer.member("value", value)
        writer.member("domain", domain)
        writer.member("host_only", isHostOnly)
        writer.member("path", path)
        writer.member("secure", isSecure)
        writer.endObject()
    }

    fileprivate init(_ stored: StoredObject) throws(StoredJSONError) {
        self.init(
            name: try stored.need(stored.string("name"), "name"),
            value: try stored.need(stored.string("value"), "value"),
            domain: try stored.need(stored.string("domain"), "domain"), isHostOnly: stored.bool("host_only"),
            path: try stored.need(stored.string("path"), "path"), isSecure: stored.bool("secure"))
    }
}
