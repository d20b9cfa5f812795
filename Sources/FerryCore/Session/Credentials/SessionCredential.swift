/// A credential of a session, with the protection space that it is for. `CredentialRecord.secrets` has its
/// secrets.
public struct SessionCredential: FieldObject {
    public static let summary =
        "A credential for one protection space, which the session's jobs use. The secrets are encrypted and "
        + "shown as {\"set\": true}."
    public static let schemaName = "Credential"

    /// Time for which a credential is kept.
    public enum Persistence: String, FieldChoice {
        /// Until the session has ended.
        case forSession = "for_session"
        /// Also for a later session of the same name.
        case permanent
    }

    /// Servers and requests for which the credential is.
    public var space = CredentialSpace()
    /// Time for which it is kept.
    public var persistence = Persistence.forSession
    /// Name of the user, or `nil` for a token.
    public var user: String?
    /// Password of the user, or the token.
    public var password = Secret()
    public var token = Secret()

    /// Creates a credential without protection space and secrets.
    public init() {}

    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        JSON.rules(
            #"""
            {
              "oneOf": [
                {
                  "required": ["user", "password"],
                  "properties": {
                    "user": {"type": "string"}, "password": {"type": "string"}, "token": {"type": "null"}
                  }
                },
                {
                  "required": ["token"],
                  "properties": {
                    "token": {"type": "string"}, "user": {"type": "null"}, "password": {"type": "null"}
                  }
                }
              ]
            }
            """#)
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.object(
            "protection_space", &space, .of(required: true),
            "Servers and requests for which the credential is.")
        visitor.field(
            "persistence", &persistence, .plain,
            "for_session: kept until the session has ended. permanent: also for a later session of the same "
                + "name.")
        visitor.field("user", &user, .user, .plain, "Name of the user; null for a token.")
        visitor.field(
            "password", &password, .password, .plain,
            "Password of the user: at most 1,024 bytes of UTF-8. Encrypted and shown as {\"set\": true}.")
        visitor.field(
            "token", &token, .token, .plain,
            "Token of bearer (RFC 6750). Encrypted and shown as {\"set\": true}.")
        for name in Self.laterFields { visitor.unsupported(name, off: .null) }
    }

    /// Members of kinds of credentials that this version does not support.
    private static let laterFields = [
        "oauth2", "client_certificate", "client_key", "access_key_id", "secret_access_key", "session_token",
    ]

    public mutating func check(_ body: FieldDecoder) {
        guard body.isValid("protection_space") else { return }
        let method = space.method
        let isToken = method == .bearer || method == .any && !space.isProxy && body.hasValue("token")
        let known = [("user", user != nil), ("password", password.isSet), ("token", token.isSet)]
        for (name, isKnown) in known {
            let isNeeded = (name == "token") == isToken
            if isNeeded, !body.hasValue(name), !isKnown {
                body.fail(name, "required", "A credential for \(method.rawValue) needs a \(name).")
            } else if !isNeeded, body.hasValue(name) {
                body.fail(
                    name, "invalid_combination",
                    isToken
                        ? "A credential with a token has no \(name)."
                        : "A credential for \(method.rawValue) has no \(name).")
            }
        }
    }
}

/// The protection space of a credential (RFC 9110 §11.5): origin, realm and scheme of authentication.
public struct CredentialSpace: FieldObject {
    public static let summary =
        "A protection space (RFC 9110 section 11.5). A credential is never sent to another origin."
    public static let schemaName = "CredentialSpace"

    /// Scheme of a URL.
    public enum Scheme: String, FieldChoice { case http, https }

    /// Scheme of authentication.
    public enum Method: String, FieldChoice {
        case basic, digest, ntlm, bearer
        /// The strongest that the server offers.
        case any = "default"

        public static var unsupportedValues: [String] { ["negotiate", "client_certificate", "aws_sigv4"] }
    }

    /// Scheme of the server's URL.
    public var scheme = Scheme.https
    /// Host in lower case and ASCII, as in `WebURL`.
    public var host = ""
    /// Port; after a body was read, never `nil`.
    public var port: Int?
    /// Realm, or `nil` for all realms.
    public var realm: String?
    /// Scheme of authentication.
    public var method = Method.any
    /// `true` if the server is a proxy.
    public var isProxy = false

    /// Creates a space without host.
    public init() {}

    /// `scheme://host:port`, as in `WebURL`.
    public var origin: String { "\(scheme.rawValue)://\(host):\(port ?? standardPort)" }

    private var standardPort: Int {
        switch scheme {
        case .http: Int(WebURL.Scheme.http.defaultPort)
        case .https: Int(WebURL.Scheme.https.defaultPort)
        }
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("scheme", &scheme, .plain, "Scheme of the server's URL.")
        visitor.field(
            "host", &host, .credentialHost, .of(required: true),
            "Name or address of the server. An IPv6 address has brackets.")
        visitor.field(
            "port", &port, 1...65_535, .plain, "Port of the server; null for the one of the scheme.")
        visitor.field(
            "realm", &realm, .credentialRealm, .plain,
            "Realm of the challenge, compared byte by byte; null for all realms.")
        visitor.field(
            "method", &method, .plain,
            "Scheme of authentication. default: the strongest that the server offers and the credential "
                + "fits.")
        visitor.field(
            "proxy", &isProxy, .plain,
            "true: the server is the proxy of a job or of its session. Its tunnels tell no realm.")
    }

    public mutating func check(_ body: FieldDecoder) {
        // A host that is invalid was reported before.
        if let url = try? WebURL.parse("\(scheme.rawValue)://\(host)/") { host = url.host }
        port = port ?? standardPort
        if isProxy, method == .bearer {
            body.fail("method", "invalid_combination", "A proxy has no bearer tokens.")
        }
        if method == .ntlm, !body.context.node.hasNTLM {
            body.fail("method", "not_supported", "The libcurl of this node has no NTLM.")
        }
    }
}

extension TextRule {
    fileprivate static let credentialHost = TextRule(1...255, pattern: #"^[^\s@/?#\\]+$"#) { text in
        do throws(WebURL.Failure) {
            // Neither a port nor anything else follows the host.
            let isHost = !text.utf8.contains { $0 <= 0x20 || "@/?#\\".utf8.contains($0) }
            guard isHost, try WebURL.parse("http://\(text):1/").port == 1 else { throw .invalidHost }
            return nil
        } catch {
            return error.message
        }
    }

    fileprivate static let credentialRealm = TextRule(0...1_024)

    /// Names of a session's credentials.
    public static let credentialName = TextRule(
        1...Limits.nameByteCountMax, pattern: "^\(sessionNamePattern)$"
    ) {
        SessionName.isValid($0) ? nil : "A credential's name has 1 to 128 letters, digits and -._~:@."
    }
}
