/// A cookie as the API shows and reads it.
public struct CookieFields: FieldObject, FieldValue {
    public typealias Rule = NoRule
    public static let summary =
        "A cookie. The name and the value are sent byte for byte; viewers see no value."
    public static let schemaName = "Cookie"

    private var name = ""
    private var nameOctets: CookieOctets?
    private var value: CookieValue?
    private var valueOctets: CookieOctets?
    private var domain = ""
    private var path = "/"
    private var expiresAt: Timestamp?
    private var isSecure = false
    private var isHTTPOnly = false
    private var sameSite: Cookie.SameSite?
    private var isHostOnly: Bool?
    private var createdAt: Timestamp?
    private var lastAccessAt: Timestamp?

    public init() {}

    /// Shows a cookie.
    public init(_ cookie: Cookie) {
        (name, nameOctets) = Self.texts(cookie.name)
        let (text, octets) = Self.texts(cookie.value)
        (value, valueOctets) = (CookieValue(text: text), octets)
        domain = cookie.domain
        path = cookie.path
        expiresAt = cookie.expiresAt
        isSecure = cookie.isSecure
        isHTTPOnly = cookie.isHTTPOnly
        sameSite = cookie.sameSite
        isHostOnly = cookie.isHostOnly
        createdAt = cookie.createdAt
        lastAccessAt = cookie.lastAccessAt
    }

    /// Returns the text of octets, and the octets themselves if they are not UTF-8.
    private static func texts(_ octets: [UInt8]) -> (text: String, octets: CookieOctets?) {
        if let text = String(validating: octets, as: UTF8.self) { return (text, nil) }
        return (String(decoding: octets, as: UTF8.self), CookieOctets(bytes: octets))
    }

    /// Returns the cookie. `now`: its times if the body names none.
    public func cookie(now: Timestamp) -> Cookie {
        // As HTTPCookie: a dot in front means all hosts below the domain.
        let isHost = !domain.hasPrefix(".")
        return Cookie(
            name: nameOctets?.bytes ?? Array(name.utf8),
            value: valueOctets?.bytes ?? Array((value?.text ?? "").utf8),
            domain: Cookie.canonicalDomain(domain), isHostOnly: isHostOnly ?? isHost, path: path,
            expiresAt: expiresAt, isSecure: isSecure, isHTTPOnly: isHTTPOnly, sameSite: sameSite,
            createdAt: createdAt ?? now,
            lastAccessAt: lastAccessAt ?? now)
    }

    public mutating func check(_ body: FieldDecoder) {
        if !body.hasValue("value"), !body.hasValue("value_base64") {
            body.fail("value", "required", "Give the value, or value_base64 if it is not UTF-8.")
        } else if !domain.isEmpty, body.context.errors.isEmpty {
            do throws(Cookie.Failure) {
                try cookie(now: .distantPast).check(.installed)
            } catch {
                body.fail(error.member, "invalid_value", error.message)
            }
        }
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "name", &name, .cookie, .of(required: true), "Name; empty for a cookie without a name.")
        visitor.field(
            "name_base64", &nameOctets, .of(isAddition: true), "Name in Base64, if it is not UTF-8.")
        visitor.field(
            "value", &value, .cookie, .plain,
            "Value; null for viewers. If it is not UTF-8, with replacement characters.")
        visitor.field(
            "value_base64", &valueOctets, .of(isAddition: true),
            "Value in Base64, if it is not UTF-8; null for viewers. Counts before value.")
        visitor.field(
            "domain", &domain, TextRule(1...Limits.cookieAttributeByteCountMax), .of(required: true),
            "Host that gets the cookie, or the domain of all hosts that do; shown without a dot in front.")
        visitor.field(
            "path", &path, TextRule(1...Limits.cookieAttributeByteCountMax), .plain,
            "Path below which requests carry the cookie; percent-encoded.")
        visitor.field(
            "expires_at", &expiresAt, .plain,
            "Time from which the cookie is gone, at most 400 days ahead; null for a session cookie, which "
                + "lives as long as the session.")
        visitor.field(
            "secure", &isSecure, .plain,
            "Whether only https requests carry it, and http requests to this machine.")
        visitor.field("http_only", &isHTTPOnly, .plain, "Whether the server gave HttpOnly.")
        visitor.field(
            "same_site", &sameSite, .plain,
            "Requests of other sites that carry it: none restricts nothing and needs secure. null: the "
                + "server named none, which means lax.")
        visitor.field(
            "host_only", &isHostOnly, .plain,
            "Whether hosts below the domain do not get it. Default: true, unless the domain begins with a "
                + "dot.")
        visitor.field("created_at", &createdAt, .plain, "Time when it was first set. Default: now.")
        visitor.field(
            "last_access_at", &lastAccessAt, .plain,
            "Time of its last use, exact to an hour. Default: now.")
    }
}

extension TextRule {
    /// Name or value of a cookie; `Cookie.check` has the further rules.
    fileprivate static let cookie = TextRule(0...Limits.cookieByteCountMax)
}

extension Cookie.Failure {
    /// Name of the member that has to change.
    var member: String {
        switch self {
        case .empty, .tooLong: "value"
        case .invalidCharacter, .restrictedPrefix: "name"
        case .invalidDomain: "domain"
        case .publicSuffix: "host_only"
        case .invalidPath: "path"
        case .unrestrictedWithoutSecure: "same_site"
        }
    }
}

/// The value of a cookie, which is secret.
private struct CookieValue: FieldValue {
    var text: String

    static func decode(_ json: JSONView, _ rule: TextRule, _ place: FieldPlace) -> Self? {
        String.decode(json, rule, place).map(Self.init)
    }
    static func restore(_ json: JSON) -> Self? { json.string.map(Self.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        if isRedacted { writer.null() } else { writer.value(text) }
    }
    static func schema(_ rule: TextRule) -> [JSON.Member] { String.schema(rule) }
}

/// Octets of a cookie that are not UTF-8, which are secret.
private struct CookieOctets: FieldValue {
    var bytes: [UInt8]

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard let text = json.string else { return place.failType("a string", json) }
        return Base64.decode(text).map(Self.init)
            ?? place.fail("invalid_value", "This must be Base64 with padding (RFC 4648 §4).")
    }
    static func restore(_ json: JSON) -> Self? { json.string.flatMap(Base64.decode).map(Self.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        if isRedacted { writer.null() } else { writer.value(Base64.encode(bytes)) }
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("type", "string"), JSON.Member("contentEncoding", "base64")]
    }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] { schema(rule) }
}
