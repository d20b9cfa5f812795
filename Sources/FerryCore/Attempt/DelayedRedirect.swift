/// The request that follows a redirect whose `Retry-After` (RFC 9110 §10.2.3) a job waits for in `retry`. It
/// is stored, sealed, while the job waits, and the next attempt begins with it. If that attempt never sends
/// it, the job begins with its own request again.
public struct DelayedRedirect: Sendable, Equatable {
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
        for cookie in cookies { writer.value(Base64.encode(cookie.stored)) }
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
        for text in stored.strings("cookies") {
            // `nil` stands for any damage.
            let cookie = Base64.decode(text).flatMap { try? Cookie(stored: $0) }
            cookies.append(try stored.need(cookie, "cookies"))
        }
        self.cookies = cookies
    }
}
