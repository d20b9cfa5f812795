/// Rules by which a job's requests reach and authenticate to their server, where they differ from the
/// default. `ConnectionSecrets` has the secrets.
public struct ConnectionRules: Sendable, Equatable {
    /// Version of HTTP.
    public enum HTTPVersion: String, FieldChoice {
        /// The newest version that is safe with this libcurl: HTTP/2 by ALPN, else HTTP/1.1.
        case auto
        case http1 = "1.1"
        case http2 = "2"
        case http3 = "3"
    }

    /// Authentication by RFC 7617 (basic), RFC 7616 (digest), RFC 6750 (bearer) or MS-NTHT (NTLM).
    public struct Authentication: FieldObject {
        public static let summary =
            "Credentials. basic (RFC 7617) is sent at once; digest (RFC 7616, MD5 and SHA-256) answers the "
            + "server's challenge, and so does ntlm (MS-NTHT), over HTTP/1.1; the body is sent after it "
            + "only. bearer: RFC 6750."
        public static let schemaName = "Authentication"

        public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
            JSON.rules(
                #"""
                {
                  "oneOf": [
                    {
                      "required": ["user", "password"],
                      "properties": {
                        "type": {"enum": ["basic", "digest", "ntlm"]}, "user": {"type": "string"},
                        "password": {"type": "string"}, "token": {"type": "null"}
                      }
                    },
                    {
                      "required": ["token"],
                      "properties": {
                        "type": {"const": "bearer"}, "token": {"type": "string"},
                        "user": {"type": "null"}, "password": {"type": "null"}
                      }
                    }
                  ]
                }
                """#)
        }

        /// Scheme.
        public enum Scheme: String, FieldChoice { case basic, digest, bearer, ntlm }
        /// Scheme.
        public var scheme = Scheme.basic
        /// User, or `nil` for `bearer`.
        public var user: String?
        /// Password, or token of `bearer`.
        public var password = Secret()
        public var token = Secret()
        /// Creates an authentication without user.
        public init() {}
        /// Creates an authentication.
        public init(_ scheme: Scheme, user: String? = nil) {
            self.scheme = scheme
            self.user = user
            password.isSet = scheme != .bearer
            token.isSet = scheme == .bearer
        }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            let before = scheme
            visitor.field("type", &scheme, .of(.always, required: true), "Scheme of the authentication.")
            // A patch that names another kind of credential replaces the former one.
            if (scheme == .bearer) != (before == .bearer) {
                (user, password, token) = (nil, Secret(), Secret())
            }
            visitor.field("user", &user, .user, .of(.always), "Name of the user, except for bearer.")
            visitor.field(
                "password", &password, .password, .of(.always),
                "Password, except for bearer: at most 1,024 bytes of UTF-8. Encrypted and shown as "
                    + "{\"set\": true}.")
            visitor.field(
                "token", &token, .token, .of(.always),
                "Token of bearer. Encrypted and shown as {\"set\": true}.")
        }

        public func check(_ body: FieldDecoder) {
            guard body.mode == .patch || body.isValid("type") else { return }
            if scheme == .ntlm, !body.context.node.hasNTLM {
                body.fail("type", "not_supported", "The libcurl of this node has no NTLM.")
            }
            let known = [("user", user != nil), ("password", password.isSet), ("token", token.isSet)]
            for (name, isKnown) in known {
                let isNeeded = (name == "token") == (scheme == .bearer)
                if isNeeded, !body.hasValue(name), !isKnown {
                    body.fail(name, "required", "The type \(scheme.rawValue) needs a \(name).")
                } else if !isNeeded, body.hasValue(name) {
                    body.fail(
                        name, "invalid_combination", "The type \(scheme.rawValue) has no \(name).")
                }
            }
        }
    }

    /// TLS settings that differ from the default: the system's authorities, and TLS 1.2 or later.
    public struct TLS: FieldObject {
        public static let summary =
            "TLS settings for https URLs. Host names are always checked. A client certificate stays with its "
            + "origin across redirects, everything else applies to every hop; a redirect to http is refused."
        public static let schemaName = "TLS"

        public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
            certificateRules
                + JSON.rules(
                    #"""
                    {
                      "not": {
                        "required": ["minimum_version", "maximum_version"],
                        "properties": {
                          "minimum_version": {"const": "1.3"}, "maximum_version": {"const": "1.2"}
                        }
                      }
                    }
                    """#)
        }

        /// Rules of the fields other than the versions.
        static var certificateRules: [JSON.Member] {
            JSON.rules(
                #"""
                {
                  "dependentRequired": {
                    "client_certificate": ["client_key"], "client_key": ["client_certificate"]
                  }
                }
                """#)
        }

        /// Version of TLS.
        public enum Version: String, FieldChoice {
            case v12 = "1.2"
            case v13 = "1.3"
        }
        /// Authorities, client certificate and its key; their texts are in `ConnectionSecrets`, because they
        /// are long.
        public var authorities = Secret()
        public var clientCertificate = Secret()
        public var clientKey = Secret()
        /// Pinned public keys as `sha256//base64` (RFC 7469 §2.4). One of them must match on every hop.
        public var pins: [String] = []
        /// Lowest and highest version; `nil` for no maximum.
        public var versionMin = Version.v12
        public var versionMax: Version?
        /// Creates default settings.
        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            certificateFields(&visitor)
            visitor.field("minimum_version", &versionMin, .of(.always), "Lowest version of TLS.")
            visitor.field(
                "maximum_version", &versionMax, .of(.always), "Highest version of TLS; null for no maximum.")
        }

        /// Declares the fields other than the versions.
        mutating func certificateFields(_ visitor: inout some FieldVisitor) {
            ServerTrust.declareAuthorities(&visitor, &authorities, .of(.always))
            visitor.field(
                "client_certificate", &clientCertificate, .pem, .of(.always),
                "PEM text (RFC 7468) of the client's certificate; shown as {\"set\": true}.")
            visitor.field(
                "client_key", &clientKey, .pem, .of(.always),
                "PEM text of the certificate's private key, not encrypted. Encrypted by Ferry and shown as "
                    + "{\"set\": true}.")
            ServerTrust.declarePins(&visitor, &pins, .of(.always))
        }

        public mutating func check(_ body: FieldDecoder) {
            checkCertificates(body)
            if let versionMax, versionMax.rawValue < versionMin.rawValue {
                body.fail(
                    "maximum_version", "invalid_combination", "This must not be below minimum_version.")
            }
        }

        /// Checks the fields other than the versions.
        mutating func checkCertificates(_ body: FieldDecoder) {
            body.checkCertificates("ca", authorities)
            body.checkCertificates("client_certificate", clientCertificate)
            if body.hasValue("client_certificate") != body.hasValue("client_key") {
                let isCertificate = body.hasValue("client_certificate")
                body.fail(
                    isCertificate ? "client_key" : "client_certificate", "required",
                    isCertificate
                        ? "A client certificate needs its key." : "A client key needs its certificate.")
            } else if body.hasValue("client_key") {
                if let key = clientKey.text,
                    let reason = body.context.node.keyError(key, clientCertificate.text)
                {
                    body.fail("client_key", "invalid_value", reason)
                }
            } else if body.has("client_certificate") || body.has("client_key") {
                // The certificate and its key are one choice: null for one of them resets both.
                let standard =
                    body.mode == .new ? Self() : FieldDecoder.standard(Self.self, body.context)
                (clientCertificate, clientKey) = (standard.clientCertificate, standard.clientKey)
            }
        }
    }

    /// A proxy.
    public struct Proxy: FieldObject {
        public static let summary =
            "A proxy: HTTP, HTTPS or SOCKS5. It resolves names; its own address must be one that the egress "
            + "policy allows."
        public static let schemaName = "Proxy"

        public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
            JSON.rules(
                #"""
                {
                  "anyOf": [
                    {"properties": {"user": {"type": "null"}, "password": {"type": "null"}}},
                    {
                      "required": ["user", "password"],
                      "properties": {"user": {"type": "string"}, "password": {"type": "string"}}
                    }
                  ]
                }
                """#)
        }

        /// URL of the proxy.
        public var url = ProxyURL.unknown
        /// User, or `nil`. The password is a secret.
        public var user: String?
        public var password = Secret()
        /// Scheme of the authentication to the proxy; never `bearer`.
        public var scheme: Authentication.Scheme { Authentication.Scheme(rawValue: type.rawValue) ?? .basic }
        private var type = AuthenticationType.basic
        /// Authorities for an https proxy.
        public var authorities = Secret()
        /// Hosts that are connected without the proxy.
        public var bypass: ProxyBypass { ProxyBypass(bypassEntries) }
        private var bypassEntries: [String] = []
        /// Creates a proxy without URL.
        public init() {}
        /// Creates a proxy.
        public init(
            url: ProxyURL, user: String? = nil, bypass: ProxyBypass = ProxyBypass(),
            hasAuthorities: Bool = false
        ) {
            self.url = url
            self.user = user
            password.isSet = user != nil
            bypassEntries = bypass.entries
            authorities.isSet = hasAuthorities
        }

        /// Scheme of the authentication to a proxy.
        enum AuthenticationType: String, FieldChoice { case basic, digest, ntlm }

        /// Sets the credential that a client has given after a challenge of the proxy.
        public mutating func use(_ scheme: Authentication.Scheme, user: String?) {
            self.user = user
            type = AuthenticationType(rawValue: scheme.rawValue) ?? .basic
            password.isSet = user != nil
        }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "url", &url, .of(.always, required: true), "URL with its port, without user information.")
            visitor.field("user", &user, .user, .of(.always), "Name of the user.")
            visitor.field(
                "password", &password, .password, .of(.always),
                "Password of the user. Encrypted and shown as {\"set\": true}.")
            visitor.field("type", &type, .of(.always), "How the user is authenticated to an HTTP proxy.")
            visitor.field(
                "ca", &authorities, .pem, .of(.always),
                "PEM text of authorities for an https proxy; shown as {\"set\": true}.")
            visitor.field(
                "no_proxy", &bypassEntries, ListRule(0...Limits.proxyBypassCountMax, of: .bypassEntry),
                .of(.always),
                "Hosts that are reached without the proxy: names (with all names below them), addresses, "
                    + "networks, or *.")
        }

        public mutating func check(_ body: FieldDecoder) {
            if user == nil, body.hasValue("password"), !body.hasValue("user") {
                body.fail("user", "required", "A password needs a user.")
            } else if user == nil, !body.has("password") {
                password = Secret()
            } else if user != nil, !body.hasValue("password"), !password.isSet {
                body.fail("password", "required", "A user needs a password.")
            }
            if type == .ntlm, !body.context.node.hasNTLM {
                body.fail("type", "not_supported", "The libcurl of this node has no NTLM.")
            }
            if type != .basic, url.scheme == .socks5 {
                body.fail(
                    "type", "invalid_combination", "A SOCKS5 proxy has no types of authentication.")
            }
            body.checkCertificates("ca", authorities)
            if authorities.isSet, url.scheme != .https, url != .unknown {
                body.fail("ca", "invalid_combination", "Only an https proxy has a certificate.")
            }
        }
    }

    /// Version of HTTP.
    public var httpVersion = HTTPVersion.auto
    /// Authentication, or `nil`.
    public var authentication: Authentication?
    /// TLS settings, or `nil` for the default.
    public var tls: TLS?
    /// Proxy, or `nil` for Ferry's own (`FERRY_PROXY`), if there is one.
    public var proxy: Proxy?
    /// Creates default rules.
    public init() {}

    /// Rules of a job that names none.
    public static let standard = ConnectionRules()

    /// Declares the fields, which are members of `request`.
    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "http_version", &httpVersion, .of(.never),
            "Preferred version of HTTP: what both ends support is used, the newest first. Before libcurl "
                + "8.2.1 only HTTP/1.1 is safe. 3 needs https, no proxy, and a libcurl with HTTP/3; 422 "
                + "otherwise.")
        visitor.object(
            "proxy", &proxy, .of(.always, from: .sessionRule),
            "Proxy; null: Ferry's own, if there is one.")
        visitor.object(
            "auth", &authentication, .of(.always, determines: .authorization),
            "Credentials; not together with an Authorization field.")
        visitor.object(
            "tls", &tls, .of(.always, from: .sessionRule), "TLS settings; null for the default.")
    }

    /// Removes the secrets' texts and returns them.
    mutating func takeSecrets() -> ConnectionSecrets {
        var secrets = ConnectionSecrets()
        secrets.password = authentication?.password.take()
        secrets.token = authentication?.token.take()
        secrets.authorities = tls?.authorities.take()
        secrets.clientCertificate = tls?.clientCertificate.take()
        secrets.clientKey = tls?.clientKey.take()
        secrets.proxyPassword = proxy?.password.take()
        secrets.proxyAuthorities = proxy?.authorities.take()
        return secrets
    }
}

extension TextRule {
    private static func hasControls(_ text: String) -> Bool { text.utf8.contains { $0 < 0x20 || $0 == 0x7F } }

    /// A user's name (RFC 7617 §2: no colon, no control characters).
    public static let user = TextRule(1...Limits.userByteCountMax, pattern: #"^[^:\u0000-\u001f\u007f]+$"#) {
        $0.utf8.contains(UInt8(ascii: ":")) || hasControls($0)
            ? "A user's name has no colon and no control characters." : nil
    }

    /// A password.
    public static let password = TextRule(
        0...Limits.passwordByteCountMax, pattern: #"^[^\u0000-\u001f\u007f]*$"#
    ) { hasControls($0) ? "A password has no control characters." : nil }

    /// A token of RFC 6750.
    public static let token = TextRule(1...Limits.tokenByteCountMax, pattern: "^[!-~]+$") {
        $0.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            ? nil : "A token is visible ASCII without spaces."
    }

    fileprivate static let bypassEntry = TextRule(1...255, pattern: nil) {
        ProxyBypass.isEntry($0)
            ? nil : "This must be a host's name, an address, a network such as 10.0.0.0/8, or *."
    }
}

extension ProxyURL: FieldValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> ProxyURL? {
        let lengths = TextRule(1...Limits.urlByteCountMax, pattern: nil) { _ in nil }
        guard let text = String.decode(json, lengths, place) else { return nil }
        do throws(Failure) {
            let url = try ProxyURL(text)
            if let reason = place.context.refusal(url.endpoint) { place.add("blocked_address", reason) }
            return url
        } catch {
            return place.fail("invalid_value", error.message)
        }
    }
    public static func restore(_ json: JSON) -> ProxyURL? {
        // Validated at the submission; otherwise the row is damaged.
        json.string.flatMap { try? ProxyURL($0) }
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(string) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [
            JSON.Member("type", "string"), JSON.Member("maxLength", JSON(Limits.urlByteCountMax)),
            JSON.Member(
                "pattern",
                .string(
                    #"^([hH][tT][tT][pP][sS]?|[sS][oO][cC][kK][sS]5[hH]?)://([A-Za-z0-9._-]{1,253}|"#
                        + #"\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4}/?$"#)),
        ]
    }
}

/// The secrets of `ConnectionRules`.
public struct ConnectionSecrets: Sendable, Equatable {
    /// Secret of `Authentication`.
    public var password: String?
    public var token: String?
    /// PEM texts.
    public var authorities: String?
    public var clientCertificate: String?
    public var clientKey: String?
    public var proxyPassword: String?
    public var proxyAuthorities: String?
    /// Secrets of `JobSpec.StoreCredential`.
    public var secretAccessKey: String?
    public var sessionToken: String?
    /// Creates an empty set.
    public init() {}
}

/// A value behind a reference, for rare properties: `nil` costs one word.
public final class Boxed<Value: Sendable & Equatable>: Sendable, Equatable {
    /// The value.
    public let value: Value
    /// Creates a box.
    public init(_ value: Value) { self.value = value }

    /// Compares the values.
    public static func == (a: Boxed, b: Boxed) -> Bool { a === b || a.value == b.value }
}

extension Boxed: FieldValue where Value: FieldValue {
    public typealias Rule = Value.Rule

    public static var isNullable: Bool { Value.isNullable }
    public static func decode(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> Boxed? {
        Value.decode(json, rule, place).map(Boxed.init)
    }
    public static func restore(_ json: JSON) -> Boxed? { Value.restore(json).map(Boxed.init) }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        value.encode(into: &writer, isRedacted: isRedacted)
    }
    public var isLeftOut: Bool { value.isLeftOut }
    public static func schema(_ rule: Rule) -> [JSON.Member] { Value.schema(rule) }
    public static func shownSchema(_ rule: Rule) -> [JSON.Member] { Value.shownSchema(rule) }
}

extension JobSpec.RequestSpec {
    /// The rules, or `nil` for the default.
    public var connection: ConnectionRules? {
        get { boxedConnection?.value }
        set { boxedConnection = newValue.flatMap { $0 == .standard ? nil : Boxed($0) } }
    }
}

extension JobSecrets {
    /// The secrets, or `nil` if there are none.
    public var connection: ConnectionSecrets? {
        get { boxedConnection?.value }
        set { boxedConnection = newValue.flatMap { $0 == ConnectionSecrets() ? nil : Boxed($0) } }
    }
}

extension ConnectionSecrets {
    /// Writes the members that have a value, for encryption.
    func write(into writer: inout JSONWriter) {
        for (name, path) in Self.members {
            if let value = self[keyPath: path] { writer.member(name, value) }
        }
    }

    /// Returns these secrets, which a patch gives, with those of `known` that the patched rules still have.
    func filled(from known: ConnectionSecrets?, for rules: ConnectionRules) -> ConnectionSecrets {
        var secrets = self
        let kept: [(Secret?, WritableKeyPath<Self, String?>)] = [
            (rules.authentication?.password, \.password), (rules.authentication?.token, \.token),
            (rules.tls?.authorities, \.authorities), (rules.tls?.clientCertificate, \.clientCertificate),
            (rules.tls?.clientKey, \.clientKey), (rules.proxy?.password, \.proxyPassword),
            (rules.proxy?.authorities, \.proxyAuthorities),
        ]
        for (secret, path) in kept where secret?.isSet == true && secrets[keyPath: path] == nil {
            secrets[keyPath: path] = known?[keyPath: path]
        }
        // No patch gives the key of a store.
        (secrets.secretAccessKey, secrets.sessionToken) = (known?.secretAccessKey, known?.sessionToken)
        return secrets
    }

    /// Reads the decrypted object.
    init(_ stored: StoredObject) {
        for (name, path) in Self.members { self[keyPath: path] = stored.string(name) }
    }

    private static var members: [(String, WritableKeyPath<Self, String?>)] {
        [
            ("password", \.password), ("token", \.token), ("ca", \.authorities),
            ("client_certificate", \.clientCertificate), ("client_key", \.clientKey),
            ("proxy_password", \.proxyPassword), ("proxy_ca", \.proxyAuthorities),
            ("secret_access_key", \.secretAccessKey), ("session_token", \.sessionToken),
        ]
    }
}

extension ConnectionRules.Authentication.Scheme: ShownValue {}
