/// The attempts of one job, the oldest first.
package struct JobAttempts: Sendable {
    /// The job's fields as stored; most transactions carry out the job's own request.
    private let specJSON: [UInt8]
    /// The attempts that are shown.
    package private(set) var attempts: [AttemptRecord]
    /// Number of attempts before the first one that are not shown because they were dropped or cannot be
    /// read. Leases that were returned before anything began are not stored either.
    package let omittedCount: Int

    /// Columns of the job's row besides the ended attempts.
    package struct Job: Sendable {
        /// State, number and node of the current attempt, start, and fields of the job.
        package var state: JobState
        package var attempt: Int32
        package var node: NodeID?
        package var startedAt: Timestamp?
        package var specJSON: [UInt8]
        /// Creates a row.
        package init(
            state: JobState, attempt: Int32, node: NodeID?, startedAt: Timestamp?, specJSON: [UInt8]
        ) {
            self.state = state
            self.attempt = attempt
            self.node = node
            self.startedAt = startedAt
            self.specJSON = specJSON
        }
    }

    /// Creates the list. `packed`: the ended attempts as stored.
    package init(_ job: Job, packed: [[UInt8]]) {
        specJSON = job.specJSON
        var attempts = packed.compactMap { AttemptRecord(packed: $0, node: job.node) }
        let unreadable = packed.count - attempts.count
        if let first = attempts.first, first.number == 1, first.startedAt == nil {
            attempts[0].startedAt = job.startedAt
        }
        // Numbers grow by one per lease. If none can have been dropped, missing numbers are attempts that
        // never began.
        let isFull = packed.count >= Limits.attemptCountMax - 1
        omittedCount = unreadable + (isFull ? max(0, Int(attempts.first?.number ?? 1) - 1 - unreadable) : 0)
        if job.state == .running {
            attempts.append(
                AttemptRecord(
                    number: job.attempt, node: job.node, startedAt: job.attempt == 1 ? job.startedAt : nil))
        }
        self.attempts = attempts
    }

    /// Replaces the running attempt by its snapshot. Does nothing if `running` is another attempt.
    package mutating func add(_ running: AttemptSnapshot) {
        guard let last = attempts.last, last.outcome == nil, last.number == running.number else { return }
        attempts[attempts.count - 1] = AttemptRecord(running, node: last.node)
    }

    /// Returns the job's own request as the reader may see it, or `nil` if the stored fields cannot be read.
    private func request(for disclosure: Disclosure) -> TransactionMetrics.Request? {
        // With another key the fields are read without secrets.
        let whole = disclosure.seal.flatMap { try? JobSpec(storedJSON: specJSON, opening: $0) }
        // Fields of an unknown version cannot be read: the request is null.
        guard let spec = whole ?? (try? JobSpec(storedJSON: specJSON)),
            // The URL of an accepted job is valid.
            let url = try? WebURL.parse(spec.request.url)
        else { return nil }
        return TransactionMetrics.Request(method: spec.request.method, url: disclosure.url(url.string))
    }

    /// Returns the response body of `GET /v1/jobs/{id}/attempts`. `showsDiagnostics`: `true` for operators.
    package func json(showsDiagnostics: Bool, for disclosure: Disclosure) -> [UInt8] {
        let request = request(for: disclosure)
        var writer = JSONWriter(reservingCapacity: 256 + attempts.count * 1_536)
        writer.beginObject()
        writer.name("data")
        writer.beginArray()
        for attempt in attempts { write(attempt, request, showsDiagnostics, for: disclosure, into: &writer) }
        writer.endArray()
        writer.member("omitted_attempts", omittedCount)
        writer.endObject()
        return writer.bytes
    }

    private func write(
        _ attempt: AttemptRecord, _ request: TransactionMetrics.Request?, _ showsDiagnostics: Bool,
        for disclosure: Disclosure, into writer: inout JSONWriter
    ) {
        writer.beginObject()
        writer.member("number", attempt.number)
        writer.memberOrNull("node", attempt.node?.description)
        writer.memberOrNull("started_at", attempt.startedAt)
        writer.memberOrNull("finished_at", attempt.finishedAt)
        writer.memberOrNull("outcome", attempt.outcome?.name)
        writer.name("error")
        if let error = attempt.errorJSON { writer.raw(error) } else { writer.null() }
        writer.name("transactions")
        writer.beginArray()
        for transaction in attempt.transactions(for: disclosure) {
            write(transaction, request, of: attempt, into: &writer)
        }
        writer.endArray()
        writer.member("omitted_transactions", attempt.omittedTransactionCount)
        writer.member("redirect_count", attempt.redirectCount)
        if showsDiagnostics { write(attempt.diagnostics, into: &writer) }
        writer.endObject()
    }

    private func write(_ diagnostics: AttemptRecord.Diagnostics?, into writer: inout JSONWriter) {
        writer.name("diagnostics")
        guard let diagnostics else { return writer.null() }
        writer.beginObject()
        let isOfCurl = diagnostics.curlCode != 0
        writer.memberOrNull("curl_code", isOfCurl ? diagnostics.curlCode : nil)
        writer.memberOrNull("curl_message", isOfCurl ? diagnostics.curlMessage : nil)
        writer.memberOrNull("os_error", diagnostics.osError == 0 ? nil : diagnostics.osError)
        writer.endObject()
    }

    private func write(
        _ metrics: TransactionMetrics, _ own: TransactionMetrics.Request?, of attempt: AttemptRecord,
        into writer: inout JSONWriter
    ) {
        let start = attempt.startedAt.map { Timestamp(microseconds: $0.microseconds + metrics.fetchStart) }
        writer.beginObject()
        writer.name("request")
        if let request = metrics.request ?? own {
            writer.beginObject()
            writer.member("method", request.method)
            writer.member("url", request.url)
            writer.endObject()
        } else {
            writer.null()
        }
        writer.name("response")
        if let status = metrics.status {
            writer.beginObject()
            writer.member("status", status)
            writer.endObject()
        } else {
            writer.null()
        }
        writer.memberOrNull("fetch_start_at", start)
        for moment in TransactionMetrics.Moment.allCases {
            writer.memberOrNull(
                moment.name,
                metrics.moments[moment].flatMap { offset in
                    start.map { Timestamp(microseconds: $0.microseconds + offset) }
                })
        }
        writeConnection(metrics, into: &writer)
        metrics.byteCounts.write(into: &writer)
        writer.endObject()
    }

    private func writeConnection(_ metrics: TransactionMetrics, into writer: inout JSONWriter) {
        writer.memberOrNull("network_protocol_name", metrics.networkProtocol?.name)
        writer.member("is_proxy_connection", metrics.isProxyConnection)
        writer.member("is_reused_connection", metrics.isReusedConnection)
        writer.member("resource_fetch_type", "network_load")
        writer.memberOrNull("local_address", metrics.local?.address)
        writer.memberOrNull("local_port", metrics.local?.port)
        writer.memberOrNull("remote_address", metrics.remote?.address)
        writer.memberOrNull("remote_port", metrics.remote?.port)
        writer.memberOrNull("tls_protocol_version", metrics.tls?.protocolVersion)
        writer.memberOrNull("tls_cipher_suite", metrics.tls?.cipherSuite)
    }
}

extension TransactionMetrics.Moment {
    /// Name in the API.
    package var name: String {
        switch self {
        case .domainLookupStart: "domain_lookup_start_at"
        case .domainLookupEnd: "domain_lookup_end_at"
        case .connectStart: "connect_start_at"
        case .secureConnectionStart: "secure_connection_start_at"
        case .secureConnectionEnd: "secure_connection_end_at"
        case .connectEnd: "connect_end_at"
        case .requestStart: "request_start_at"
        case .requestEnd: "request_end_at"
        case .responseStart: "response_start_at"
        case .responseEnd: "response_end_at"
        }
    }
}

extension TransactionMetrics.ByteCounts {
    fileprivate func write(into writer: inout JSONWriter) {
        writer.member("count_of_request_header_bytes_sent", requestHeader)
        writer.member("count_of_request_body_bytes_sent", requestBody)
        writer.member("count_of_response_header_bytes_received", responseHeader)
        writer.member("count_of_response_body_bytes_received", responseBody)
        writer.member("count_of_response_body_bytes_after_decoding", decodedBody)
    }
}
