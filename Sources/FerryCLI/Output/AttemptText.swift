import FerryCore

/// Text form of a job's attempts: a line for each attempt, and the phases of each of its requests.
struct AttemptText {
    /// Columns of the output.
    let width: Int

    /// `list`: the response of `GET /v1/jobs/{id}/attempts`.
    func lines(_ list: JSON) -> [String] {
        var lines: [String] = []
        if let omitted = list["omitted_attempts"]?.integer, omitted > 0 {
            lines.append("(\(omitted) earlier attempts are not kept)")
        }
        let attempts = list["data"]?.array ?? []
        if attempts.isEmpty { lines.append("No attempt has begun.") }
        for attempt in attempts {
            lines += heading(attempt)
            let transactions = attempt["transactions"]?.array ?? []
            for (index, transaction) in transactions.enumerated() {
                lines += self.lines(transaction, number: index + 1)
            }
            if let omitted = attempt["omitted_transactions"]?.integer, omitted > 0 {
                lines.append("  (\(omitted) requests before the last one are not kept)")
            }
        }
        return lines
    }

    private func heading(_ attempt: JSON) -> [String] {
        let outcome = attempt["outcome"]?.string ?? "running"
        let start = Self.time(attempt["started_at"])
        var line = "attempt \(attempt["number"]?.integer ?? 0)  \(outcome)"
        if let start, let end = Self.time(attempt["finished_at"]) {
            line += " after \(Self.milliseconds(end - start))"
        }
        if let start = attempt["started_at"]?.string { line += "  \(start)" }
        if let node = attempt["node"]?.string { line += "  \(node)" }
        var lines = [line]
        if let error = attempt["error"], let message = error["message"]?.string {
            lines.append("  \(message) (\(error["code"]?.string ?? "?"), \(error["phase"]?.string ?? "?"))")
        }
        if let diagnostics = attempt["diagnostics"] {
            let words = diagnostics["curl_message"]?.string.map {
                "curl \(diagnostics["curl_code"]?.integer ?? 0): \($0)"
            }
            let osError = diagnostics["os_error"]?.integer.map { "errno \($0)" }
            let parts = [words, osError].compactMap(\.self)
            if !parts.isEmpty { lines.append("  " + parts.joined(separator: ", ")) }
        }
        return lines
    }

    // MARK: One request

    private struct Span {
        let name: String
        /// Seconds after the start of the request; `end` is `nil` if the phase did not end.
        let start: Double
        let end: Double?
    }

    private func lines(_ transaction: JSON, number: Int) -> [String] {
        let spans = Self.spans(transaction)
        let total = spans.map { $0.end ?? $0.start }.max() ?? 0
        return [Self.summary(transaction, number: number)] + spans.map { line($0, total: total) }
            + [Self.counts(transaction)]
    }

    private static func summary(_ transaction: JSON, number: Int) -> String {
        let request = transaction["request"]
        var parts = ["\(request?["method"]?.string ?? "?") \(request?["url"]?.string ?? "?")"]
        parts.append(transaction["response"]?["status"]?.integer.map { "\($0)" } ?? "no response")
        if let name = transaction["network_protocol_name"]?.string { parts.append(name) }
        if let version = transaction["tls_protocol_version"]?.string { parts.append(version) }
        if let address = transaction["remote_address"]?.string {
            let port = transaction["remote_port"]?.integer.map { ":\($0)" } ?? ""
            let host = address.contains(":") ? "[\(address)]" : address
            let isProxy = transaction["is_proxy_connection"]?.bool == true
            parts.append((isProxy ? "by proxy " : "") + host + port)
        }
        if transaction["is_reused_connection"]?.bool == true { parts.append("kept connection") }
        return "  \(number)  " + parts.joined(separator: "  ")
    }

    private static func counts(_ transaction: JSON) -> String {
        let sum = { (names: [String]) in names.reduce(Int64(0)) { $0 + (transaction[$1]?.integer ?? 0) } }
        let sent = sum(["count_of_request_header_bytes_sent", "count_of_request_body_bytes_sent"])
        let received = sum([
            "count_of_response_header_bytes_received", "count_of_response_body_bytes_received",
        ])
        return "     sent \(byteCountText(sent)), received \(byteCountText(received))"
    }

    private static func spans(_ transaction: JSON) -> [Span] {
        guard let origin = time(transaction["fetch_start_at"]) else { return [] }
        let at = { (name: String) in time(transaction[name]).map { max(0, $0 - origin) } }
        let secured = at("secure_connection_start_at")
        let named: [(String, Double?, Double?)] = [
            ("lookup", at("domain_lookup_start_at"), at("domain_lookup_end_at")),
            ("connect", at("connect_start_at"), secured ?? at("connect_end_at")),
            ("tls", secured, at("secure_connection_end_at")),
            ("send", at("request_start_at"), at("request_end_at")),
            ("wait", at("request_end_at"), at("response_start_at")),
            ("receive", at("response_start_at"), at("response_end_at")),
        ]
        return named.compactMap { name, start, end in start.map { Span(name: name, start: $0, end: end) } }
    }

    private func line(_ span: Span, total: Double) -> String {
        let start = Self.milliseconds(span.start).padded(onLeftTo: 12)
        let length = span.end.map { Self.milliseconds(max(0, $0 - span.start)) } ?? "not ended"
        let text = "     \(span.name.padded(to: 8))\(start)  \(length.padded(onLeftTo: 12))"
        let barWidth = min(40, width - text.count - 4)
        guard barWidth >= 8 else { return text }
        let column = { (seconds: Double) in
            total > 0 ? Int((Double(barWidth) * min(1, seconds / total)).rounded(.down)) : 0
        }
        let first = min(column(span.start), barWidth - 1)
        let last = max(first + 1, column(span.end ?? total))
        let bar =
            String(repeating: " ", count: first)
            + String(repeating: span.end == nil ? "?" : "=", count: last - first)
        return "\(text)  |\(bar.padded(to: barWidth))|"
    }

    private static func time(_ value: JSON?) -> Timestamp? {
        value?.string.flatMap { Timestamp(rfc3339: $0) }
    }

    /// Formats with three digits at least: `0.042 ms`, `12.3 ms`, `45678 ms`.
    private static func milliseconds(_ seconds: Double) -> String {
        let microseconds = Int64((seconds * 1e6).rounded())
        let (whole, rest) = (microseconds / 1_000, microseconds % 1_000)
        if whole >= 100 { return "\(whole) ms" }
        let digits = String(repeating: "0", count: 3 - "\(rest)".count) + "\(rest)"
        return "\(whole).\(whole >= 10 ? String(digits.prefix(1)) : digits) ms"
    }
}

extension String {
    fileprivate func padded(onLeftTo width: Int) -> String {
        String(repeating: " ", count: Swift.max(0, width - count)) + self
    }
}
