import FerryCore

/// Cookies that the redirects of a chain have set. They are sent within the chain, and forgotten with it. A
/// pure value.
struct RedirectCookies: Sendable, Equatable {
    private(set) var cookies: [Cookie] = []

    init() {}

    /// Takes the cookies that an earlier attempt has left.
    init(_ cookies: [Cookie]) { self.cookies = cookies }

    /// Takes the cookies that a redirect sets.
    mutating func take(_ head: ResponseHead, from url: WebURL, now: Timestamp) {
        let fields = head.octets("set-cookie")
        guard !fields.isEmpty else { return }
        var jar = jar(now)
        for field in fields { jar.take(setCookie: field.bytes, CookieContext(url: url, now: now)) }
        cookies = jar.cookies(now: now)
    }

    var isEmpty: Bool { cookies.isEmpty }

    /// Returns the value of `Cookie` for a request; `nil` if it has none. `own`: values of the job's own
    /// fields, whose cookies of the same name are replaced.
    func field(for url: WebURL, with own: [String], now: Timestamp) -> FieldOctets? {
        guard !isEmpty else { return nil }
        var jar = jar(now)
        let sent = jar.field(CookieContext(url: url, now: now))
        let names = Set(Self.pairs(sent ?? []).map(Self.name))
        let kept = own.flatMap { Self.pairs(FieldOctets($0).bytes) }.filter { !names.contains(Self.name($0)) }
        let values = kept + (sent.map { [$0[...]] } ?? [])
        return values.isEmpty ? nil : FieldOctets(Array(values.joined(separator: Array("; ".utf8))))
    }

    /// The pairs of a `Cookie` field, without the spaces around them.
    private static func pairs(_ field: [UInt8]) -> [ArraySlice<UInt8>] {
        field.split(separator: UInt8(ascii: ";")).map { trim($0) }.filter { !$0.isEmpty }
    }

    private static func name(_ pair: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        pair.prefix { $0 != UInt8(ascii: "=") }
    }

    private func jar(_ now: Timestamp) -> CookieJar {
        var jar = CookieJar(limits: EngineLimits.cookies, recordsChanges: false)
        jar.apply(stored: cookies, removesOthers: false, now: now)
        return jar
    }
}
