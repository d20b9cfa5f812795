import Curl
import FerryCore

/// One request on the way to the final response: the job's own, or one that a redirect led to.
struct Hop: Sendable {
    var url: WebURL
    var method: String
    var sendsBody: Bool
    var redirectCount = 0
    /// Whether a redirect has removed the body and the fields that describe it.
    var hasDroppedBody = false
    /// Whether a request that is not idempotent was answered with a redirect to its outcome.
    var hasActed = false
    /// Whether credentials and other fields that may be secret are sent. `false` at a mirror of another
    /// origin, and after a redirect there, unless the job allows them.
    var keepsCredentials = true
    /// User information of the URL to which a redirect has led (`WebURL.Target`); `nil` if there is none.
    var userInformation: String?
    /// Cookies that earlier redirects have set.
    var cookies = RedirectCookies()
    /// The answer to a Digest challenge that libcurl cannot answer, or `nil`.
    var digest: DigestAnswer?
    /// The session's credential that the request sends; `nil` if it sends none.
    var credential: Boxed<SentCredential>?
    /// The session's credential that the request sends to the job's proxy; `nil` if it sends none.
    var proxyCredential: Boxed<SentCredential>?
    /// The part that the request has in a resumable upload; `nil` if it has none.
    var upload: UploadHop?
    /// Corrections and the multipart upload of a request to a store; `nil` if it has neither.
    var store: Boxed<StoreHop>?
}

/// A request of a resumable upload.
struct UploadHop: Sendable {
    let request: ResumableRequest
    let dialect: UploadDialect
    /// Whether the server tells what has arrived, or the request has no effect on the job's target.
    var maySendTwice: Bool
    /// Whether the job's fields that describe its body, or are conditions about the target, are left out.
    var leavesOutContentFields: Bool { dialect.leavesOutContentFields(of: request) }
}

extension Hop {
    /// Whether the request has the media type of the job's body.
    fileprivate var describesBody: Bool {
        guard let upload else { return sendsBody }
        return !upload.leavesOutContentFields && (sendsBody || upload.request == .emptyCreation)
    }

    /// Returns `true` if this is the job's own request.
    func isSame(as own: TransactionLog.OwnRequest) -> Bool { method == own.method && url == own.url }

    /// The URL with its user information.
    var target: WebURL.Target { WebURL.Target(url, userInformation: userInformation) }

    /// The request's target, as Digest covers it.
    var digestTarget: String { url.path + (url.query.map { "?" + $0 } ?? "") }

    /// The credentials that the URL of a redirect has named, or `nil`.
    var credentials: (name: String, password: String)? {
        guard let userInformation else { return nil }
        let parts = userInformation.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let texts = parts.map {
            String(decoding: ContentDisposition.percentDecoded($0.utf8[...]), as: UTF8.self)
        }
        return (texts[0], texts.count > 1 ? texts[1] : "")
    }
}

/// Builds libcurl's request from an attempt and a hop. The only place that decides what is sent.
struct RequestBuilder: Sendable {
    let userAgent: String
    let serviceProxy: ServiceProxy?
    private let nodeCredentials: NodeCredentials?
    private let clock: any WallClock
    /// Protocols that the libcurl of this process supports safely.
    private let supportsHTTP2: Bool
    private let supportsHTTP3: Bool
    let supportsNTLM: Bool

    init(
        userAgent: String, proxy: ServiceProxy?, nodeCredentials: NodeCredentials? = nil,
        clock: any WallClock
    ) {
        self.userAgent = userAgent
        self.nodeCredentials = nodeCredentials
        self.clock = clock
        serviceProxy = proxy
        // Without libcurl no engine runs.
        let runtime = try? CurlRuntime.loaded.get()
        supportsHTTP2 = runtime?.supportsSafeHTTP2 ?? false
        supportsHTTP3 = supportsHTTP2 && runtime?.hasHTTP3 ?? false
        supportsNTLM = runtime?.hasNTLM ?? false
    }

    /// `expects`: whether `Expect: 100-continue` may be sent. `codings`: content codings that libcurl asks
    /// for and decodes. `resuming`: fields that ask for the rest of a file, or that
    /// belong to a resumable upload.
    func request(
        for attempt: Attempt, _ hop: Hop, body: BodyReader?, expects: Bool, codings: [String]?,
        resuming: [TransferRequest.Header]
    ) -> TransferRequest {
        let spec = attempt.spec
        var request = TransferRequest(url: hop.url.string)
        request.method = hop.method
        request.body = hop.sendsBody ? body.map(\.length) ?? .known(0) : .none
        if !hop.sendsBody, ["POST", "PUT", "PATCH"].contains(hop.method) { request.body = .known(0) }
        request.headers = headers(
            attempt, hop, body: body, asksForCodings: codings != nil)
        request.headers += resuming
        if let object = spec.storeObject {
            var payload = hop.sendsBody ? body?.payload : nil
            if let own = hop.store?.value.request {
                request.take(own)
                payload = own.payload
            }
            let key = attempt.storeKey(nodeCredentials)
            request.addStoreFields(
                for: object, of: attempt, hop, payload ?? .empty, key: key, at: clock.now())
        }
        request.acceptEncoding = codings?.joined(separator: ", ")
        request.expectsContinue = expects
        if supportsHTTP2 { request.httpVersion = .http2 }
        if let sent = hop.sentCredential, sent.chosen.scheme == .ntlm {
            request.credentials = .init(.ntlm, user: sent.chosen.user, password: sent.chosen.secret)
            request.httpVersion = .http1
        }
        if let rules = spec.request.connection { apply(rules, attempt.secrets, hop, to: &request) }
        if serviceProxy != nil || spec.request.connection != nil { chooseProxy(attempt, hop, for: &request) }
        request.connectTimeout = min(
            EngineLimits.connectTimeout, Int(max(0.001, spec.request.timeoutForRequest) * 1_000))
        request.sendBufferSize =
            (body.map { $0.byteCount ?? .max } ?? 0) >= EngineLimits.bulkByteCountMin
            ? EngineLimits.bulkSendBufferSize : 65_536
        if let flushedAt = attempt.session?.flushedAt {
            request.leaveOutConnections(madeBefore: flushedAt, now: clock.now())
        }
        return request
    }

    /// Applies the job's rules for the connection, except its proxy.
    private func apply(
        _ rules: ConnectionRules, _ secrets: JobSecrets, _ hop: Hop, to request: inout TransferRequest
    ) {
        switch rules.httpVersion {
        case .auto, .http2: break
        case .http1: request.httpVersion = .http1
        case .http3: if supportsHTTP3, hop.url.scheme == .https { request.httpVersion = .http3 }
        }
        let secrets = secrets.connection ?? ConnectionSecrets()
        if let own = rules.authentication, hop.keepsCredentials,
            let scheme = own.scheme.challenged, scheme != .basic, hop.digest == nil
        {
            let user = hop.credentials ?? (own.user ?? "", secrets.password ?? "")
            request.credentials = .init(scheme, user: user.name, password: user.password)
            if scheme == .ntlm { request.httpVersion = .http1 }
        }
        guard let tls = rules.tls else { return }
        var own = TransferRequest.TLS()
        own.authorities = secrets.authorities
        // A client certificate is a credential. Authorities and pins are requirements, and hold on every hop.
        if hop.keepsCredentials {
            own.clientCertificate = secrets.clientCertificate
            own.clientKey = secrets.clientKey
        }
        own.pins = tls.pins
        own.minimumVersion = tls.versionMin.rawValue
        own.maximumVersion = tls.versionMax?.rawValue
        request.tls = own
    }

    /// Returns the credentials that are sent without a challenge (RFC 7617 §2.2, RFC 6750 §2.1), or that
    /// answer one that libcurl cannot answer. Those of a redirect's URL replace the job's, but never a scheme
    /// that waits for a challenge.
    private static func authorization(_ attempt: Attempt, _ hop: Hop) -> FieldOctets? {
        if let sent = hop.sentCredential { return sent.field(of: hop) }
        let own = hop.keepsCredentials ? attempt.spec.request.connection?.authentication : nil
        let secrets = attempt.secrets.connection
        let user = hop.credentials ?? (own?.user ?? "", secrets?.password ?? "")
        let basic = FieldOctets("Basic " + Base64.encode(Array("\(user.name):\(user.password)".utf8)))
        switch own?.scheme {
        case nil: return hop.credentials == nil ? nil : basic
        case .basic: return basic
        case .bearer:
            return hop.credentials == nil ? FieldOctets("Bearer " + (secrets?.token ?? "")) : basic
        case .digest:
            return hop.digest?.authorization(
                user: user.name, password: user.password, method: hop.method,
                uri: hop.digestTarget,
                clientNonce: hexEncoded((0..<16).map { _ in .random(in: 0...255) }))
        case .ntlm: return nil
        }
    }

    private func headers(
        _ attempt: Attempt, _ hop: Hop, body: BodyReader?, asksForCodings: Bool
    ) -> [TransferRequest.Header] {
        let spec = attempt.spec
        var headers: [TransferRequest.Header] = []
        headers.reserveCapacity(spec.request.headers.count + 4)
        var named: Set<String> = []
        let isWithheld = isWithheld(attempt, hop)
        let credential = Self.authorization(attempt, hop)
        var cookies: [String] = []
        for pair in attempt.secrets.headers where hop.keepsCredentials && !isWithheld(pair.name) {
            if equalIgnoringCase(pair.name, "cookie"), attempt.session == nil, !hop.cookies.isEmpty {
                cookies.append(pair.value)
                continue
            }
            if credential != nil, equalIgnoringCase(pair.name, "authorization") { continue }
            named.insert(pair.name.lowercased())
            headers.append(.init(pair.name, pair.value))
        }
        if let credential {
            named.insert("authorization")
            headers.append(.init("Authorization", credential))
        }
        if let session = attempt.session {
            // The job's own field replaces what its session would send.
            if !named.contains("cookie"), let cookie = session.cookieField(for: hop.url, at: clock.now()) {
                headers.append(.init("Cookie", FieldOctets(cookie)))
            }
        } else if let cookie = hop.cookies.field(for: hop.url, with: cookies, now: clock.now()) {
            headers.append(.init("Cookie", cookie))
        }
        for pair in spec.request.headers {
            let name = pair.name.lowercased()
            let isSecret = attempt.secrets.headers.contains { equalIgnoringCase($0.name, pair.name) }
            if isSecret || Self.ownedHeaders.contains(name) || isWithheld(name) { continue }
            if !hop.keepsCredentials, !NonSecretFields.contains(name) { continue }
            if name == "host", !hop.url.isSameOrigin(as: spec.request.webURL) { continue }
            if hop.hasDroppedBody, name.hasPrefix("content-") { continue }
            if let upload = hop.upload, upload.leavesOutContentFields, Self.isAboutTarget(name) { continue }
            named.insert(name)
            headers.append(.init(pair.name, pair.value))
        }
        // A server would take the parts of an upload for repetitions of one request.
        if let key = spec.request.idempotencyKey, hop.upload?.leavesOutContentFields != true {
            headers.append(.init("Idempotency-Key", key == "job" ? attempt.job.description : key))
        }
        func add(_ name: String, _ value: String?) {
            guard let value, named.isEmpty || !named.contains(name.lowercased()) else { return }
            headers.append(.init(name, value))
        }
        add("User-Agent", userAgent)
        // Without the field the server may use any coding (RFC 9110 §12.5.3), and the bytes would not be the
        // file's.
        if !asksForCodings { add("Accept-Encoding", "identity") }
        if let trace = attempt.traceparent.map(TraceContext.init) {
            add("traceparent", trace.parent)
            // `tracestate` belongs to Ferry's own trace, not to one that the job names.
            if !named.contains("traceparent") { add("tracestate", trace.state) }
        }
        if hop.describesBody {
            add("Content-Type", body?.contentType ?? Self.contentType(spec))
            add("Content-Encoding", body?.contentEncoding)
        }
        return headers
    }

    /// Whether this hop must not have a field of the session, by its name in lower case.
    func isWithheld(_ name: String, _ attempt: Attempt, _ hop: Hop) -> Bool {
        isWithheld(attempt, hop)(name)
    }

    /// Returns which of the session's fields this hop must not have.
    private func isWithheld(_ attempt: Attempt, _ hop: Hop) -> (String) -> Bool {
        guard let rule = attempt.spec.request.additionalHeaders else { return { _ in false } }
        let isKnownEnd = isAnsweredByServer(attempt, hop.url)
        return { !rule.allows($0, to: hop.url, isKnownEnd: isKnownEnd) }
    }

    private static func contentType(_ spec: JobSpec) -> String? {
        let form: JobSpec.Body.Form
        switch (spec.request.body, spec.source) {
        case (let body?, _): form = body.form
        case (nil, .inline(let body)?): form = body.form
        case (nil, _): return nil
        }
        switch form {
        case .json: return "application/json"
        case .form: return "application/x-www-form-urlencoded"
        case .text: return "text/plain; charset=utf-8"
        case .base64: return "application/octet-stream"
        case .multipart: return nil
        }
    }

    /// Whether a field, in lower case, describes the job's body, or is a condition about the job's target: it
    /// says nothing about an upload.
    private static func isAboutTarget(_ name: String) -> Bool {
        name.hasPrefix("content-") || name.hasPrefix("if-") || name == "idempotency-key"
            || name == "repr-digest" || name == "digest"
    }

    /// Fields of framing and the connection, which Ferry sets.
    private static let ownedHeaders: Set<String> = [
        "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te",
        "trailer",
        "upgrade", "expect",
    ]
}

extension Attempt {
    /// Whether libcurl may answer the challenge of this response by itself. `false` also for a challenge that
    /// libcurl would answer wrongly: the caller stops the transfer, and sends the answer.
    func mayBeAnswered(_ head: ResponseHead, of hop: Hop) -> Bool {
        answersChallenges(of: hop) && hop.answering(head, for: spec) == nil
            && !hop.needsBodyHash(head, for: spec)
    }

    /// Whether libcurl answers a challenge to this hop by itself.
    func answersChallenges(of hop: Hop) -> Bool {
        if hop.sentCredential?.chosen.scheme == .ntlm { return true }
        if hop.url.scheme == .http, let sent = hop.proxyCredential?.value, sent.chosen.scheme != .basic {
            return true
        }
        guard let rules = spec.request.connection else { return false }
        let scheme = rules.authentication?.scheme
        if hop.keepsCredentials, scheme == .digest && hop.digest == nil || scheme == .ntlm { return true }
        // Once a tunnel is open, the proxy sends no more challenges.
        guard let proxy = rules.proxy, proxy.user != nil, proxy.scheme != .basic,
            hop.url.scheme == .http
        else { return false }
        return !proxy.bypass.contains(hop.url)
    }

    var hasOwnProxy: Bool { spec.request.connection?.proxy != nil }
}

extension TransferRequest {
    /// Uses only connections that were made after an instant. libcurl counts their age in whole seconds, so
    /// that some later ones are not used either.
    fileprivate mutating func leaveOutConnections(madeBefore instant: Timestamp, now: Timestamp) {
        let seconds = Int(max(0, min(now - instant, 1e6)))
        if seconds < 2 {
            usesFreshConnection = true
        } else {
            maxConnectionAge = min(maxConnectionAge, seconds - 1)
        }
    }
}

extension BodyReader {
    /// The length, as libcurl frames the body by it.
    fileprivate var length: TransferRequest.Body { requestByteCount.map { .known($0) } ?? .unknown }
}
