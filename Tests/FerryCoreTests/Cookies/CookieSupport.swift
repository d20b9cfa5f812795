import FerryCore

/// Time of the tests: 2026-11-30T12:00:00Z.
let cookieTime = Timestamp(microseconds: 1_796_040_000_000_000)

/// A list of a few names, and every name without a dot.
struct FewSuffixes: PublicSuffixes {
    private static let names: Set<String> = ["co.example", "shared.example"]

    func isPublicSuffix(_ domain: String) -> Bool { !domain.contains(".") || Self.names.contains(domain) }

    func registrableDomain(_ host: String) -> String? {
        var labels = host.split(separator: ".")[...]
        guard !isPublicSuffix(host) else { return nil }
        while !isPublicSuffix(labels.dropFirst().joined(separator: ".")) { labels.removeFirst() }
        return labels.joined(separator: ".")
    }
}

extension CookieContext {
    /// A request at `cookieTime`, or some seconds later.
    init(
        _ url: String, main: String? = nil, policy: CookieAcceptPolicy = .always, after seconds: Double = 0
    ) throws {
        self.init(
            url: try .parse(url), mainDocument: try main.map { try .parse($0) }, acceptPolicy: policy,
            now: cookieTime + seconds)
    }
}

extension CookieJar {
    /// An empty jar of the tests.
    static func empty(_ limits: CookieLimits = .standard) -> CookieJar {
        CookieJar(limits: limits, publicSuffixes: FewSuffixes())
    }

    /// Takes fields of an answer.
    mutating func take(
        _ fields: [String], from url: String, main: String? = nil, policy: CookieAcceptPolicy = .always,
        after seconds: Double = 0
    ) throws {
        let context = try CookieContext(url, main: main, policy: policy, after: seconds)
        for field in fields { take(setCookie: Array(field.utf8), context) }
    }

    /// Returns the `Cookie` field of a request as text. Notes no access.
    func sent(to url: String, main: String? = nil, after seconds: Double = 0) throws -> String? {
        var jar = self
        let field = jar.field(try CookieContext(url, main: main, after: seconds))
        return field.map { String(decoding: $0, as: UTF8.self) }
    }

    /// Notes the access of a request.
    mutating func visit(_ url: String, after seconds: Double) throws {
        _ = field(try CookieContext(url, after: seconds))
    }

    /// Returns what an answer's fields lead to in a later request.
    static func answer(
        _ fields: [String], from url: String = "https://www.a.example/x/y",
        to target: String = "https://www.a.example/x/z"
    ) throws -> String? {
        var jar = empty()
        try jar.take(fields, from: url)
        return try jar.sent(to: target)
    }
}

extension Cookie {
    /// A cookie of the tests.
    static func test(
        _ name: String = "a", _ value: String = "1", domain: String = "a.example", isHostOnly: Bool = false,
        path: String = "/", expiresAt: Timestamp? = nil, isSecure: Bool = false, isHTTPOnly: Bool = false,
        sameSite: SameSite? = nil, createdAt: Timestamp = cookieTime, lastAccessAt: Timestamp = cookieTime
    ) -> Cookie {
        Cookie(
            name: Array(name.utf8), value: Array(value.utf8), domain: domain, isHostOnly: isHostOnly,
            path: path, expiresAt: expiresAt, isSecure: isSecure, isHTTPOnly: isHTTPOnly, sameSite: sameSite,
            createdAt: createdAt, lastAccessAt: lastAccessAt)
    }

    /// Name and value as text.
    var pair: String { String(decoding: name + [UInt8(ascii: "=")] + value, as: UTF8.self) }
}
