import Curl
import FerryCore

/// One request on the way to the final answer: the job's own, or what a redirect made of it.
struct Hop: Sendable {
    var url: WebURL
    var method: String
    var sendsBody: Bool
    var redirectCount = 0
    /// A redirect has taken the body away, and what describes it.
    var hasDroppedBody = false
    /// A request that is not idempotent was answered with a redirect to its outcome.
    var hasActed = false
    /// False once a redirect has left the job's origin, unless the job allows it.
    var keepsCredentials = true
}

/// Attempt and hop → what libcurl is told. The only place that decides it.
struct RequestBuilder: Sendable {
    let userAgent: String
    let serviceProxy: ServiceProxy?
    /// What the libcurl of this process can be trusted with.
    private let supportsHTTP2: Bool
    private let supportsHTTP3: Bool
    let supportsNTLM: Bool

    init(userAgent: String, proxy: ServiceProxy?) {
        self.userAgent = userAgent
        serviceProxy = proxy
        let runtime = try? CurlRuntime.loaded.get()
        supportsHTTP2 = runtime?.supportsSafeHTTP2 ?? false
        supportsHTTP3 = supportsHTTP2 && runtime?.hasHTTP3 ?? false
        supportsNTLM = runtime?.hasNTLM ?? false
    }

    /// `expects`: whether `Expect: 100-continue` may be sent. `codings`: what libcurl asks for and undoes.
    /// `resuming`: what asks for the rest of a file.
    func request(
        for attempt: Attempt, _ hop: Hop, body: BodySource?, expects: Bool, codings: [String]?,
        resuming: [JobSpec.Pair]
    ) -> TransferRequest {
        let spec = attempt.spec
        var request = TransferRequest(url: hop.url.string)
        request.method = hop.method
        request.body = hop.sendsBody ? .known(body?.byteCount ?? 0) : .none
        if !hop.sendsBody, ["POST", "PUT", "PATCH"].contains(hop.method) { request.body = .known(0) }
        request.headers = headers(
            attempt, hop, contentType: body?.contentType, asksForCodings: codings != nil)
        for pair in resuming { request.headers.append(.init(pair.name, pair.value)) }
        request.acceptEncoding = codings?.joined(separator: ", ")
        request.expectsContinue = expects
        if supportsHTTP2 { request.httpVersion = .http2 }
        if let rules = spec.request.connection { apply(rules, attempt.secrets, hop, to: &request) }
        if serviceProxy != nil || spec.request.connection != nil { chooseProxy(attempt, hop, for: &request) }
        request.connectTimeout = min(
            EngineLimits.connectTimeout, Int(max(0.001, spec.request.timeoutForRequest) * 1_000))
        request.sendBufferSize =
            (body?.byteCount ?? 0) >= EngineLimits.bulkByteCountMin ? EngineLimits.bulkSendBufferSize : 65_536
        return request
    }

    /// What the job says about the connection, its proxy aside.
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
            let scheme = own.scheme.challenged, scheme != .basic
        {
            request.credentials = .init(
                scheme, user: own.user ?? "", password: secrets.password ?? "")
            if scheme == .ntlm { request.httpVersion = .http1 }
        }
        guard let tls = rules.tls else { return }
        var own = TransferRequest.TLS()
        own.authorities = secrets.authorities
        // A client certificate is a credential; authorities and pins are demands, and hold on every hop.
        if hop.keepsCredentials {
            own.clientCertificate = secrets.clientCertificate
            own.clientKey = secrets.clientKey
        }
        own.pins = tls.pins
        own.minimumVersion = tls.versionMin.rawValue
        own.maximumVersion = tls.versionMax?.rawValue
        request.tls = own
    }

    /// What is sent without being asked for (RFC 7617 §2.2, RFC 6750 §2.1).
    private static func authorization(_ attempt: Attempt) -> String? {
        guard let authentication = attempt.spec.request.connection?.authentication else { return nil }
        let secrets = attempt.secrets.connection
        switch authentication.scheme {
        case .basic:
            let pair = "\(authentication.user ?? ""):\(secrets?.password ?? "")"
            return "Basic " + Base64.encode(Array(pair.utf8))
        case .bearer: return "Bearer " + (secrets?.token ?? "")
        case .digest, .ntlm: return nil
        }
    }

    /// Whether a repetition cannot do harm (RFC 9110 §9.2.2), or the job says so.
    static func isRepeatable(_ spec: JobSpec, method: String) -> Bool { spec.isRepeatable(method) }

    private func headers(
        _ attempt: Attempt, _ hop: Hop, contentType: String?, asksForCodings: Bool
    ) -> [TransferRequest.Header] {
        let spec = attempt.spec
        var headers: [TransferRequest.Header] = []
        headers.reserveCapacity(spec.request.headers.count + 4)
        var named: Set<String> = []
        let isWithheld = isWithheld(attempt, hop)
        for pair in attempt.secrets.headers where hop.keepsCredentials && !isWithheld(pair.name) {
            named.insert(pair.name.lowercased())
            headers.append(.init(pair.name, pair.value))
        }
        if let credential = Self.authorization(attempt), hop.keepsCredentials {
            named.insert("authorization")
            headers.append(.init("Authorization", credential))
        }
        for pair in spec.request.headers {
            let name = pair.name.lowercased()
            let isSecret = attempt.secrets.headers.contains { equalIgnoringCase($0.name, pair.name) }
            if isSecret || Self.ownedHeaders.contains(name) || isWithheld(name) { continue }
            if !hop.keepsCredentials, Self.isCredential(name) { continue }
            if hop.redirectCount > 0, name == "host" { continue }
            if hop.hasDroppedBody, name.hasPrefix("content-") { continue }
            named.insert(name)
            headers.append(.init(pair.name, pair.value))
        }
        func add(_ name: String, _ value: String?) {
            if let value, !named.contains(name.lowercased()) { headers.append(.init(name, value)) }
        }
        add("User-Agent", userAgent)
        // Without it any coding may come (RFC 9110 §12.5.3), and the bytes would not be the file's.
        if !asksForCodings { add("Accept-Encoding", "identity") }
        if let trace = attempt.traceparent.map(TraceContext.init) {
            add("traceparent", trace.parent)
            // Of a trace that the job names itself, this is none of.
            if !named.contains("traceparent") { add("tracestate", trace.state) }
        }
        if hop.sendsBody { add("Content-Type", contentType ?? Self.contentType(spec)) }
        return headers
    }

    /// Which of the session's fields this hop must not have.
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

    /// Framing and the connection are ours.
    private static let ownedHeaders: Set<String> = [
        "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te",
        "trailer",
        "upgrade", "expect",
    ]

    private static func isCredential(_ name: String) -> Bool {
        ["authorization", "proxy-authorization", "cookie", "cookie2"].contains(name)
            || name.hasSuffix("-token")
            || name.hasSuffix("api-key") || name.hasSuffix("-secret") || name.hasSuffix("-signature")
    }
}
