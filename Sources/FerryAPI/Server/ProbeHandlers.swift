internal import FerryCore
internal import HTTPServer
internal import OpenSSL

/// Health checks and metrics.
final class ProbeHandlers: Sendable {
    private let readiness: @Sendable () -> [ReadinessCheck]
    private let metricsText: @Sendable () -> [UInt8]

    init(_ ports: APIPorts) {
        readiness = ports.readiness
        metricsText = ports.metrics
    }

    /// `GET /livez`: 200 if the process can respond.
    func live(_ request: RequestContext) { sendText(200, "ok\n", request) }

    /// `GET /readyz`: 200 if all required checks pass. With `?verbose`, and when it is not ready, the
    /// response names each check in the format of the Kubernetes API server.
    func ready(_ request: RequestContext) throws(Problem) {
        let verbose = request.query.first { $0.name == "verbose" }?.value
        guard verbose?.unicodeScalars.count ?? 0 <= Limits.nameByteCountMax else {
            throw Problem(
                .invalidParameter,
                "verbose takes no value, or one of at most \(Limits.nameByteCountMax) characters.")
        }
        let checks = readiness()
        let isReady = checks.allSatisfy { $0.isOK || !$0.isRequired }
        var text = isReady ? "ok\n" : "not ready\n"
        if verbose != nil || !isReady { text = checks.map(line).joined() + text }
        sendText(isReady ? 200 : 503, text, request)
    }

    private func line(_ check: ReadinessCheck) -> String {
        if check.isOK { return "[+]\(check.name) ok\n" }
        return check.isRequired ? "[-]\(check.name) failed\n" : "[!]\(check.name) failed, not required\n"
    }

    private func sendText(_ status: Int, _ text: String, _ request: RequestContext) {
        let fields = HTTPFields([
            ("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"),
        ])
        request.send(Response(status: status, fields: fields, body: .bytes(Array(text.utf8))))
    }

    /// `GET /metrics`
    func metrics(_ request: RequestContext) {
        let fields = HTTPFields([
            ("Content-Type", "text/plain; version=0.0.4; charset=utf-8"), ("Cache-Control", "no-store"),
        ])
        request.send(Response(status: 200, fields: fields, body: .bytes(metricsText())))
    }
}

/// The API's documentation.
struct DocumentHandlers: Sendable {
    /// `GET /openapi.json`
    func openAPI(_ request: RequestContext) {
        send(openAPIDocument, "application/json", request, [])
    }

    /// `GET /docs`
    func page(_ request: RequestContext) {
        // Allows the page its own script and requests to its own origin, and nothing else.
        let policy =
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-\(docsScriptDigest)'; "
            + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        send(docsPage, "text/html; charset=utf-8", request, [("Content-Security-Policy", policy)])
    }

    private func send(
        _ bytes: [UInt8], _ type: String, _ request: RequestContext,
        _ extra: [(name: String, value: String)]
    ) {
        let tag = "\"\(hexEncoded(Array(Digest.of(bytes).prefix(16))))\""
        let basics = [("ETag", tag), ("Cache-Control", "no-cache")]
        if EntityTags(request.fields, "If-None-Match")?.matchesWeakly(tag) == true {
            return request.send(Response(status: 304, fields: HTTPFields(basics)))
        }
        let fields = HTTPFields(
            [("Content-Type", type), ("X-Content-Type-Options", "nosniff")] + basics + extra)
        request.send(Response(status: 200, fields: fields, body: .bytes(bytes)))
    }
}
