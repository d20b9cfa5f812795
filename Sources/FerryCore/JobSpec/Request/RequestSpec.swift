extension JobSpec {
    /// The request of a job.
    public struct RequestSpec: FieldObject {
        public static let summary = "An HTTP request."
        public static let schemaName = "Request"
        /// URL without fragment. A schedule's template may have placeholders in its path and query.
        public var url: String { target.text }
        /// The URL in its parts.
        public var webURL: WebURL { target.url }
        var target = RequestURL()
        /// Method; empty while a body is read that names none.
        public var method = ""
        /// Header fields in order; names may be repeated. Secret values (`Authorization`, `Cookie`, …) are
        /// empty here; `JobSecrets.headers` has them.
        public var headers: [Pair] = []
        /// Form and size of the body of a `data` or `download` job; the bytes are the payload.
        public var body: Body?
        /// Seconds without a byte after which an attempt fails.
        public var timeoutForRequest = 60.0
        /// `Idempotency-Key` of all requests of the job, or `nil`; `job`: one that each job has of its own.
        public var idempotencyKey: String?
        /// Content coding to ask for.
        public var acceptEncoding = AcceptEncoding.identity
        /// Whether an upload continues where it broke off.
        public var resumableUploads = ResumableUploads.auto
        /// Whether cookies are sent and kept (URLSession's `httpShouldHandleCookies`).
        public var handlesCookies = true
        var boxedMainDocument: Boxed<DocumentURL>?
        var boxedConnection: Boxed<ConnectionRules>?
        var boxedOriginal: Boxed<OriginalRequest>?
        var boxedAdditionalHeaders: Boxed<AdditionalHeaders>?
        /// Creates a request without URL and method.
        public init() {}
        /// Creates a request. `url` must be a URL: for tests and constants, never for outside data, which
        /// `setURL` reads.
        public init(url: String, method: String) {
            guard let target = try? RequestURL(url) else { preconditionFailure("\(url) is no URL") }
            self.target = target
            self.method = method
        }

        /// Sets the URL from the text of an accepted one, or of a template. Throws if `text` is no URL.
        public mutating func setURL(_ text: String) throws(WebURL.Failure) { target = try RequestURL(text) }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "url", &target,
                .of(
                    .always, required: true, isInResumeData: true, column: "origin", identifiesBytes: true),
                "Absolute URL, http or https, without user information. Spaces and characters beyond ASCII "
                    + "are percent-encoded, those of the host become punycode. Addresses that the egress "
                    + "policy refuses are an error. By default that of resume_data.")
            visitor.field(
                "method", &method, .method,
                .of(.answered, column: "is_repeatable", identifiesBytes: true),
                "Method. By default GET, for uploads PUT, with tus POST. With a body, it must be named and "
                    + "be neither GET nor HEAD.")
            headerFields(
                &visitor, &headers, .of(.always, identifiesBytes: true),
                "Header fields with one value for each name. Host: only in a job that an admin key submits. "
                    + "Not: Content-Length, Transfer-Encoding, Connection, Expect, TE, Upgrade, Trailer, "
                    + "Keep-Alive, Proxy-*. Values of Authorization, Cookie, X-Api-Key, X-Auth-Token and of "
                    + "names that contain token, secret, password or api-key are encrypted and shown as "
                    + "{\"set\": true}. Clients and admins see the other values; viewers, events and "
                    + "webhooks those of fields that carry no credential. At most 16 KiB. A job shows values "
                    + "of the same name combined with a comma (RFC 9110 §5.3).")
            visitor.object(
                "body", &body, .of(.answered, kinds: [.download, .data]), "The body of the request.")
            visitor.field(
                "idempotency_key", &idempotencyKey, .idempotencyKey,
                .of(.never, column: "is_repeatable", determines: .idempotencyKey),
                "Idempotency-Key of the job's requests, the same in all attempts; job: the identifier of the "
                    + "job. With it, the request may be repeated whatever its method is.")
            visitor.field(
                "cache_policy", &CachePolicy.only, .of(.never, from: .session),
                "Use of a cache. This version has none, so that every request goes to the server.")
            visitor.field(
                "timeout_for_request", &timeoutForRequest, 1...604_800, .of(from: .session, unit: .seconds),
                "Time without a byte after which an attempt fails.")
            visitor.field(
                "accept_encoding", &acceptEncoding, .of(.never, determines: .acceptEncoding),
                "Content codings to ask for; any: gzip, deflate and br. The body is decoded, and stored, "
                    + "counted and hashed in this form, if the Content-Encoding of the response is one "
                    + "coding that was asked for; otherwise it is stored as it was sent.")
            resumableUploadField(&visitor)
            cookieFields(&visitor)
            var connection = self.connection ?? .standard
            connection.fields(&visitor)
            if connection != self.connection ?? .standard { self.connection = connection }
        }

        public mutating func check(_ body: FieldDecoder) {
            guard body.mode == .new else {
                if body.context.isAnswer { checkMethod(body) }
                return checkPatchedConnection(body)
            }
            checkMethod(body)
            checkIdempotencyKey(body)
            checkAcceptEncoding(body)
            checkResumableUploads(body)
            inheritConnection(body)
            checkConnection(body, url: body.context.requestURL)
            addSessionHeaders(body)
        }
    }

    /// Content coding (RFC 9110 §8.4.1) that the job asks for and decodes; `any` means all that can be
    /// decoded safely.
    public enum AcceptEncoding: String, FieldChoice { case identity, gzip, br, any }

    /// Use of a cache (URLSession's `requestCachePolicy`).
    enum CachePolicy: String, FieldChoice {
        case useProtocol = "use_protocol_cache_policy"

        static var unsupportedValues: [String] {
            [
                "reload_ignoring_local_cache_data", "reload_ignoring_local_and_remote_cache_data",
                "return_cache_data_else_load", "return_cache_data_dont_load",
                "reload_revalidating_cache_data",
            ]
        }

        /// The only value, which is not stored.
        static var only: Self {
            get { .useProtocol }
            set {}
        }
        var isLeftOut: Bool { true }
    }
}

extension TextRule {
    /// Visible characters of ASCII.
    fileprivate static let idempotencyKey = TextRule(1...255, pattern: "^[!-~]{1,255}$") { key in
        let isVisible = key.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        return isVisible ? nil : "A key has visible characters of ASCII only."
    }

    fileprivate static let method = TextRule(
        1...32, pattern: "^[A-Z][A-Z0-9_-]{0,31}$", except: "^(TRACE|CONNECT)$"
    ) { method in
        let isFit =
            method.utf8.first.map { (65...90).contains($0) } == true
            && method.utf8.allSatisfy {
                (65...90).contains($0) || (48...57).contains($0) || $0 == 45 || $0 == 95
            }
        if !isFit { return "A method is made of upper-case letters, digits, - and _." }
        return method == "CONNECT" || method == "TRACE" ? "\(method) cannot be used for a transfer." : nil
    }
}

// MARK: Rules of several fields

extension JobSpec.RequestSpec {
    private mutating func checkMethod(_ fields: FieldDecoder) {
        let kind = fields.context.kind
        if method.isEmpty {
            method = kind != .upload ? "GET" : resumableUploads == .tus ? "POST" : "PUT"
        }
        fields.context.requestMethod = method
        if kind == .download, method == "HEAD" {
            fields.fail("method", "invalid_combination", "The response to HEAD has no body to download.")
        } else if kind == .upload, ["GET", "HEAD", "DELETE", "OPTIONS"].contains(method) {
            fields.fail(
                "method", "invalid_combination", "\(method) sends no body; an upload needs PUT or POST.")
        } else if body != nil, fields.mode == .patch || fields.isValid("body"),
            method == "GET" || method == "HEAD"
        {
            fields.fail(
                "body", "invalid_combination", "A \(method) request has no body; set method to POST.")
        }
    }

    private func checkIdempotencyKey(_ fields: FieldDecoder) {
        guard idempotencyKey != nil, hasHeader("idempotency-key") else { return }
        fields.fail(
            "idempotency_key", "invalid_combination",
            "Give either this or an Idempotency-Key header, which does not make the request repeatable.")
    }

    private func checkAcceptEncoding(_ fields: FieldDecoder) {
        guard acceptEncoding != .identity, hasHeader("accept-encoding") else { return }
        fields.fail(
            "accept_encoding", "invalid_combination",
            "Give either this or an Accept-Encoding header, which stores the response as sent.")
    }

    /// Returns `true` if the request has a field of this name, in lower case.
    func hasHeader(_ name: String) -> Bool { headers.contains { $0.name.lowercased() == name } }

    /// Sets what follows from a patch of the connection's rules, and reports combinations that are not
    /// allowed.
    private mutating func checkPatchedConnection(_ fields: FieldDecoder) {
        if fields.has("tls"), connection?.tls == nil, webURL.scheme == .https { inheritTLS(fields.context) }
        // Another proxy than the session's may not read the session's fields.
        if fields.hasValue("proxy") { additionalHeaders?.trustsProxy = false }
        guard ["auth", "tls", "proxy", "url"].contains(where: { fields.has($0) }) else { return }
        checkConnection(fields, url: webURL)
    }

    /// Reports combinations that are not allowed. `url`: `nil` if it is not valid.
    private func checkConnection(_ fields: FieldDecoder, url: WebURL?) {
        let context = fields.context
        let rules = connection ?? .standard
        if rules.authentication != nil, hasHeader("authorization"), fields.isNamed("auth") {
            fields.fail(
                "auth", "invalid_combination", "Send either this or an Authorization header, not both.")
        }
        if rules.tls != nil { fields.checkTLS(for: url, of: "job") }
        if rules.httpVersion == .http3 {
            if !context.node.hasHTTP3 {
                fields.fail("http_version", "not_supported", "The libcurl of this node has no HTTP/3.")
            } else if url?.scheme == .http {
                fields.fail("http_version", "invalid_combination", "HTTP/3 needs an https URL.")
            } else if rules.proxy != nil {
                fields.fail("http_version", "invalid_combination", "HTTP/3 cannot be used with a proxy.")
            }
        }
        if rules.authentication?.scheme == .ntlm, [.http2, .http3].contains(rules.httpVersion) {
            fields.fail(
                "http_version", "invalid_combination", "NTLM authenticates a connection and needs HTTP/1.1.")
        }
    }

}

// MARK: OpenAPI

extension JobSpec.RequestSpec {
    public static func schema(of field: String, for kind: JobKind) -> [JSON.Member]? {
        switch (field, kind) {
        case ("method", .download):
            [.exclusion("^(HEAD|TRACE|CONNECT)$"), JSON.Member("default", "GET")]
        case ("method", .upload):
            [
                .exclusion("^(GET|HEAD|DELETE|OPTIONS|TRACE|CONNECT)$"), JSON.Member("default", "PUT"),
            ]
        case ("method", .data): [JSON.Member("default", "GET")]
        default: nil
        }
    }

    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        kind == .data || kind == .download ? JSON.rules(bodyRules) : []
    }

    private static let bodyRules = #"""
        {
          "if": {"required": ["body"], "properties": {"body": {"type": "object"}}},
          "then": {"required": ["method"], "properties": {"method": {"not": {"enum": ["GET", "HEAD"]}}}}
        }
        """#
}
