// The other end of a copy between two servers.

extension JobSpec {
    /// The server at the other end of a copy: where the bytes of an upload come from, or where those of a
    /// download go to. `request` is about the first server.
    public struct OtherServer: Sendable, Equatable {
        /// URL, normalised.
        public var url = ""
        /// Method; `GET` of a source.
        public var method: String
        /// Header fields in order. Secret values are empty here; `OtherServerSecrets` has them.
        public var headers: [Pair] = []
        /// Credentials, or `nil`.
        public var authentication: ConnectionRules.Authentication?

        init(method: String) { self.method = method }

        /// Declares the fields as members of a source or a destination. `server`: `nil` if it is no server.
        /// `kind`: of jobs that name a server here; others name only an object, in the short form `s3://`.
        static func fields(
            _ visitor: inout some FieldVisitor, _ server: inout OtherServer?, kind: JobKind, _ text: String
        ) {
            let isDestination = kind == .download
            var own = server ?? OtherServer(method: isDestination ? "PUT" : "GET")
            var url = server.map { OtherServerURL(text: $0.url) }
            visitor.alternative(
                "url", &url, OtherServerURL.Rule(kind: kind), kinds: [.download, .upload],
                isForOthersLater: true, text)
            if isDestination {
                var method = server.map { UploadMethod(rawValue: $0.method) ?? .put }
                visitor.addition("method", &method, NoRule(), kinds: [.download], "With url: the method.")
                if let method { own.method = method.rawValue }
            }
            let traits = FieldTraits.of(.never, kinds: JobKinds(kind), isAddition: true)
            headerFields(
                &visitor, &own.headers, traits,
                "With url: header fields. The rules are those of request.headers.")
            visitor.object(
                "auth", &own.authentication, traits,
                "With url: credentials; not together with an Authorization field.")
            if let url {
                own.url = url.text
                server = own
            }
        }

        /// Reports members that only a server has, and combinations that are not allowed.
        static func check(_ server: OtherServer?, _ body: FieldDecoder) {
            guard let server else {
                for name in ["method", "headers", "header_fields", "auth"] where body.hasValue(name) {
                    body.fail(name, "invalid_combination", "Only another server, with url, has this.")
                }
                return
            }
            if server.authentication != nil,
                server.headers.contains(where: { equalIgnoringCase($0.name, "authorization") })
            {
                body.fail(
                    "auth", "invalid_combination", "Send either this or an Authorization header, not both.")
            }
            for header in server.headers where isOwnField(header.name.lowercased()) {
                body.fail(
                    "headers/\(pointerStep(header.name))", "invalid_value",
                    "The service sets this field itself for a copy.")
            }
        }

        /// Returns `true` if Ferry decides about a field, whose name is in lower case: about the bytes that
        /// are copied.
        private static func isOwnField(_ name: String) -> Bool {
            ["range", "if-range", "if-match", "if-none-match", "accept-encoding"].contains(name)
        }
    }

    /// Method with which a copy is sent to its destination.
    enum UploadMethod: String, FieldChoice {
        case put = "PUT"
        case post = "POST"
        case patch = "PATCH"
    }
}

/// URL of another server. The short form `s3://bucket/key` was replaced by its object before.
struct OtherServerURL: FieldValue {
    struct Rule: Sendable {
        /// Kind of jobs that name a server here.
        let kind: JobKind
    }

    let text: String

    static func decode(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> OtherServerURL? {
        guard place.context.kind == rule.kind else {
            guard json.string != nil else { return place.failType("a string", json) }
            return place.fail(
                "not_supported",
                "Only s3:// URLs are supported here: s3://bucket/key. Others are request.url.")
        }
        return URLText.accepted(json, place).map { OtherServerURL(text: $0.string) }
    }

    static func restore(_ json: JSON) -> OtherServerURL? { json.string.map(OtherServerURL.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        URLText(text).encode(into: &writer, isRedacted: isRedacted)
    }
    static func schema(_ rule: Rule) -> [JSON.Member] { URLText.schema(NoRule()) }
    static func shownSchema(_ rule: Rule) -> [JSON.Member] { URLText.shownSchema(NoRule()) }

    /// Schema for the kinds of jobs that name only an object here.
    static let objectSchema: [JSON.Member] = [
        JSON.Member("type", "string"), .pattern("^s3://[A-Za-z0-9][A-Za-z0-9._-]{2,254}/.+$"),
    ]
}

/// Secrets of the other end of a copy: of `JobSpec.OtherServer`, or of an object's credential.
public struct OtherServerSecrets: Sendable, Equatable {
    /// Header fields whose value is secret.
    public var headers: [JobSpec.Pair] = []
    public var password: String?
    public var token: String?
    /// Key of an object's store.
    public var secretAccessKey: String?
    public var sessionToken: String?
    /// Creates an empty set.
    public init() {}
}

extension JobSpec {
    /// The other server of a copy; `nil` for other jobs, and if that is an object of a store.
    public var otherServer: OtherServer? {
        if case .server(let server)? = source { return server.value }
        return destination?.server
    }

    /// URL of the other server; `nil` without one.
    var serverURL: String? {
        get { otherServer?.url }
        set {
            guard let newValue, var server = otherServer else { return }
            server.url = newValue
            if case .server? = source {
                source = .server(Boxed(server))
            } else {
                destination?.server = server
            }
        }
    }

    /// URL of the other end of a copy; `nil` for other jobs, and if a stored URL is damaged.
    var otherEnd: WebURL? { otherServer.flatMap { try? WebURL.parse($0.url) } ?? otherObject?.url }

    /// `true` if the bytes go from one server to another without a file in between.
    public var isCopy: Bool { otherServer != nil || otherObject != nil }

    /// Moves the texts of the other end's secrets out of the spec; `nil` if it has none.
    mutating func takeOtherServerSecrets() -> OtherServerSecrets? {
        var secrets = OtherServerSecrets()
        if let credential = takeStoreCredential(ofOther: true) {
            secrets.secretAccessKey = credential.secretAccessKey
            secrets.sessionToken = credential.sessionToken
            return secrets
        }
        guard var server = otherServer else { return nil }
        secrets.headers = server.headers.takeSecrets()
        secrets.password = server.authentication?.password.take()
        secrets.token = server.authentication?.token.take()
        if case .server? = source { source = .server(Boxed(server)) } else { destination?.server = server }
        return secrets == OtherServerSecrets() ? nil : secrets
    }

    /// Reports combinations that a copy between two servers cannot have.
    func checkCopy(_ fields: FieldDecoder) {
        guard isCopy, kind == .download else { return }
        func refuse(_ steps: String, _ detail: String) { fields.fail(steps, "invalid_combination", detail) }
        if request.method != "GET" {
            refuse("request/method", "The method of a copy's source is GET.")
        }
        if request.hasHeader("range") || request.hasHeader("if-range") {
            refuse("request/headers", "The service itself decides about the ranges of a copy.")
        }
        if request.acceptEncoding != .identity {
            refuse("request/accept_encoding", "A copy is fetched without content codings.")
        }
        if segmentCountMax > 1 { refuse("segments", "A copy is fetched by one request.") }
        if !mirrors.isEmpty { refuse("mirrors", "A copy is fetched from one server.") }
        if fields.context.resumePoint != nil {
            refuse("resume_data", "A copy leaves no bytes here that it could resume from.")
        }
    }
}

extension OtherServerSecrets {
    /// Writes an object.
    func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.secretFields("headers", headers)
        if let password { writer.member("password", password) }
        if let token { writer.member("token", token) }
        if let secretAccessKey { writer.member("secret_access_key", secretAccessKey) }
        if let sessionToken { writer.member("session_token", sessionToken) }
        writer.endObject()
    }

    /// Reads what `write` wrote.
    init(_ stored: StoredObject) throws(StoredJSONError) {
        headers = try stored.secretFields("headers")
        password = stored.string("password")
        token = stored.string("token")
        secretAccessKey = stored.string("secret_access_key")
        sessionToken = stored.string("session_token")
    }
}
