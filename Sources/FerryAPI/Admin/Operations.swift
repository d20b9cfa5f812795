internal import FerryCore
internal import HTTPServer
internal import OpenSSL

extension API {
    /// `GET /livez`: the process can answer.
    func live(_ call: RequestContext) { sendText(200, "ok\n", call) }

    /// `GET /readyz`: and so can what it depends on. `?verbose` names each check, as Kubernetes' API server
    /// does.
    func ready(_ call: RequestContext) {
        let verbose = call.query.first { $0.name == "verbose" }?.value
        let isVerbose = verbose != nil
        guard verbose?.unicodeScalars.count ?? 0 <= Limits.nameByteCountMax else {
            return call.fail(
                Problem(
                    .invalidParameter,
                    "verbose takes no value, or one of at most \(Limits.nameByteCountMax) characters."))
        }
        let checks = ports.readiness()
        let isReady = checks.allSatisfy { $0.isOK || !$0.isRequired }
        var text = isReady ? "ok\n" : "not ready\n"
        if isVerbose || !isReady {
            text = checks.map(line).joined() + text
        }
        sendText(isReady ? 200 : 503, text, call)
    }

    private func line(_ check: ReadinessCheck) -> String {
        if check.isOK { return "[+]\(check.name) ok\n" }
        return check.isRequired ? "[-]\(check.name) failed\n" : "[!]\(check.name) failed, not required\n"
    }

    private func sendText(_ status: Int, _ text: String, _ call: RequestContext) {
        let fields = HTTPFields([
            ("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"),
        ])
        call.send(Response(status: status, fields: fields, body: .bytes(Array(text.utf8))))
    }

    /// `GET /metrics`
    func metrics(_ call: RequestContext) {
        let fields = HTTPFields([
            ("Content-Type", "text/plain; version=0.0.4; charset=utf-8"), ("Cache-Control", "no-store"),
        ])
        call.send(Response(status: 200, fields: fields, body: .bytes(ports.metrics())))
    }

    /// `GET /openapi.json`
    func openapi(_ call: RequestContext) {
        send(openAPIDocument, "application/json", call, [])
    }

    /// `GET /docs`
    func docs(_ call: RequestContext) {
        // The page may run its own script and read the document, and nothing else.
        send(
            docsPage, "text/html; charset=utf-8", call,
            [
                (
                    "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-\(docsScriptDigest)'; "
                        + "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
                )
            ])
    }

    private func send(
        _ bytes: [UInt8], _ type: String, _ call: RequestContext, _ extra: [(name: String, value: String)]
    ) {
        let tag = "\"\(hexEncoded(Array(Digest.of(bytes).prefix(16))))\""
        let basics = [("ETag", tag), ("Cache-Control", "no-cache")]
        if EntityTags(call.fields, "If-None-Match")?.matchesWeakly(tag) == true {
            return call.send(Response(status: 304, fields: HTTPFields(basics)))
        }
        let fields = HTTPFields(
            [("Content-Type", type), ("X-Content-Type-Options", "nosniff")] + basics + extra)
        call.send(Response(status: 200, fields: fields, body: .bytes(bytes)))
    }
}
