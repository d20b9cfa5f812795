/// The attempts of one job, the oldest first.
public struct JobAttempts: Sendable {
    /// The job's fields; most transactions of its last attempt carry out its own request.
    private let storedSpec: StoredSpec
    /// The attempts that are shown.
    public private(set) var attempts: [AttemptRecord]
    /// Number of attempts before the first one that are not shown because they were dropped or cannot be
    /// read. Leases that were returned before anything began are not stored either.
    public let omittedCount: Int

    /// Columns of the job's row besides the ended attempts.
    public struct Job: Sendable {
        /// State, number and node of the current attempt, start, and fields of the job.
        public var state: JobState
        public var attempt: Int32
        public var node: NodeID?
        public var startedAt: Timestamp?
        public var storedSpec: StoredSpec
        /// Creates a row.
        public init(
            state: JobState, attempt: Int32, node: NodeID?, startedAt: Timestamp?, storedSpec: StoredSpec
        ) {
            self.state = state
            self.attempt = attempt
            self.node = node
            self.startedAt = startedAt
            self.storedSpec = storedSpec
        }
    }

    /// Creates the list. `packed`: the ended attempts as stored.
    public init(_ job: Job, packed: [[UInt8]]) {
        storedSpec = job.storedSpec
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
    public mutating func add(_ running: AttemptSnapshot) {
        guard let last = attempts.last, last.outcome == nil, last.number == running.number else { return }
        attempts[attempts.count - 1] = AttemptRecord(running, node: last.node)
    }

    /// Returns the job's own request as the reader may see it, or `nil` if the stored fields cannot be read.
    private func request(for disclosure: Disclosure) -> TransactionMetrics.Request? {
        guard let request = storedSpec.shown(for: disclosure)?.request else { return nil }
        return TransactionMetrics.Request(method: request.method, url: disclosure.url(request.webURL.string))
    }

    /// Returns the response body of `GET /v1/jobs/{id}/attempts`. `showsDiagnostics`: `true` for operators.
    public func json(showsDiagnostics: Bool, for disclosure: Disclosure) -> [UInt8] {
        let request = request(for: disclosure)
        return ShownAttempts(
            attempts: attempts.map { ShownAttempt($0, request, for: disclosure, showsDiagnostics) },
            omittedCount: omittedCount
        ).shown(reservingCapacity: 256 + attempts.count * 1_536)
    }
}

/// The response of `GET /v1/jobs/{id}/attempts`.
public struct ShownAttempts: ShownObject {
    public static let summary = "The attempts of a job."
    public static let schemaName = "AttemptList"

    fileprivate let attempts: [ShownAttempt]
    fileprivate let omittedCount: Int

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "data", \.attempts, "The latest attempts, at most \(Limits.attemptCountMax), oldest first.")
        list.member(
            "omitted_attempts", \.omittedCount,
            "Number of attempts before the first one in data. Some of them may have returned to the queue "
                + "before they began.", [.minimum(0)])
    }
}

private struct ShownAttempt: ShownObject {
    static let summary = "One run of a job on one node."
    static let schemaName = "Attempt"

    let attempt: AttemptRecord
    let error: ErrorRecord?
    let transactions: [ShownTransaction]
    let showsDiagnostics: Bool

    /// `current`: the job's own request now.
    init(
        _ attempt: AttemptRecord, _ current: TransactionMetrics.Request?, for disclosure: Disclosure,
        _ showsDiagnostics: Bool
    ) {
        self.attempt = attempt
        // A damaged error leaves the attempt without one.
        error = try? attempt.error?.read()
        self.showsDiagnostics = showsDiagnostics
        transactions = attempt.transactions(for: disclosure, current: current).map { metrics in
            ShownTransaction(
                metrics: metrics,
                start: attempt.startedAt.map {
                    Timestamp(microseconds: $0.microseconds &+ metrics.fetchStart)
                }
            )
        }
    }

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("number", \.attempt.number, "Number of the attempt. Numbers may skip.", [.minimum(1)])
        list.member("node", \.attempt.node, "The node that ran the attempt, or null if not known.")
        list.member("started_at", \.attempt.startedAt, "Time of the start, or null if no longer known.")
        list.member(
            "finished_at", \.attempt.finishedAt,
            "Time of the end, or null while the attempt runs. For a lost attempt: time at which the loss was "
                + "detected.")
        list.member(
            "outcome", \.attempt.outcome,
            "Outcome of the attempt, or null while it runs. released: the node returned the job to the "
                + "queue. lost: the node died or lost the database. suspended: a client suspended the job. "
                + "asked: the attempt asked a question.")
        list.member(
            "error", { $0.error.map(ShownError.init) },
            "Why the attempt failed, or null.")
        list.member(
            "transactions", \.transactions,
            "Requests of the attempt, in the order of their ends: the first and the last ones, "
                + "\(Limits.transactionCountMax / 2) each.")
        list.member(
            "transaction_count", { $0.transactions.count + $0.attempt.omittedTransactionCount },
            "Number of all transactions of the attempt.", [.minimum(0)])
        list.member(
            "omitted_transactions", \.attempt.omittedTransactionCount,
            "Number of transactions between the first and the last ones that are not stored.",
            [.minimum(0)])
        list.member("redirect_count", \.attempt.redirectCount, "Number of followed redirects.", [.minimum(0)])
        list.optional(
            "diagnostics", { $0.showsDiagnostics ? .some($0.attempt.diagnostics) : nil },
            "Details of a failure, or null. Only shown to keys with the role admin.")
    }
}

extension AttemptRecord.Diagnostics: ShownObject {
    public static let summary = "What libcurl or the operating system reported about a failure."
    public static let schemaName = "AttemptDiagnostics"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "curl_code", { $0.curlCode == 0 ? nil : $0.curlCode },
            "Code of libcurl-errors(3), or null if libcurl reported none.")
        list.member(
            "curl_message", { $0.curlCode == 0 ? nil : $0.curlMessage },
            "Message of libcurl, at most 256 bytes, or null if libcurl reported none.")
        list.member(
            "os_error", { $0.osError == 0 ? nil : $0.osError },
            "Code of errno(3), or null if no system call failed.")
    }
}

private struct ShownTransaction: ShownObject {
    static let summary =
        "One request of an attempt with its response. Redirects, repetitions and challenges each make "
        + "another transaction. Times of steps that did not occur are null: a reused connection has no "
        + "lookup and no connect, a numeric address has no lookup."
    static let schemaName = "Transaction"

    let metrics: TransactionMetrics
    /// Start of the transaction, or `nil` if not known.
    let start: Timestamp?

    private func time(_ moment: TransactionMetrics.Moment) -> Timestamp? {
        metrics.moments[moment].flatMap { offset in
            start.map { Timestamp(microseconds: $0.microseconds &+ offset) }
        }
    }

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("request", \.metrics.request, "The request, or null if it is not known.")
        list.member("response", { $0.metrics.status.map(TransactionResponse.init) }, "The response, or null.")
        moments(&list)
        connection(&list)
        list.member(
            "count_of_request_header_bytes_sent", \.metrics.byteCounts.requestHeader,
            "Bytes of the request head sent.")
        list.member(
            "count_of_request_body_bytes_sent", \.metrics.byteCounts.requestBody,
            "Bytes of the request body sent.")
        list.member(
            "count_of_response_header_bytes_received", \.metrics.byteCounts.responseHeader,
            "Bytes of the response head received.")
        list.member(
            "count_of_response_body_bytes_received", \.metrics.byteCounts.responseBody,
            "Bytes of the response body received, before decoding.")
        list.member(
            "count_of_response_body_bytes_after_decoding", \.metrics.byteCounts.decodedBody,
            "Bytes of the response body after decoding.")
    }

    private static func moments(_ list: inout some MemberVisitor<Self>) {
        list.member("fetch_start_at", \.start, "Start of the transaction.")
        list.member("domain_lookup_start_at", { $0.time(.domainLookupStart) }, "Start of the name lookup.")
        list.member("domain_lookup_end_at", { $0.time(.domainLookupEnd) }, "End of the name lookup.")
        list.member("connect_start_at", { $0.time(.connectStart) }, "Start of the connection setup.")
        list.member(
            "secure_connection_start_at", { $0.time(.secureConnectionStart) },
            "Start of the TLS handshake; null if the handshake failed.")
        list.member(
            "secure_connection_end_at", { $0.time(.secureConnectionEnd) }, "End of the TLS handshake.")
        list.member("connect_end_at", { $0.time(.connectEnd) }, "End of the setup, TLS handshake included.")
        list.member("request_start_at", { $0.time(.requestStart) }, "Time of the first byte of the request.")
        list.member("request_end_at", { $0.time(.requestEnd) }, "Time of the last byte of the request.")
        list.member(
            "response_start_at", { $0.time(.responseStart) }, "Time of the first byte of the response.")
        list.member("response_end_at", { $0.time(.responseEnd) }, "Time of the last byte of the response.")
    }

    private static func connection(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "network_protocol_name", \.metrics.networkProtocol,
            "Protocol of the connection by its ALPN name (RFC 7301), or null if not known.")
        list.member("is_proxy_connection", \.metrics.isProxyConnection, "true if connected to a proxy.")
        list.member(
            "is_reused_connection", \.metrics.isReusedConnection,
            "true if an earlier request used the connection.")
        list.member(
            "resource_fetch_type", { _ in FetchType.network }, "Always network_load, as in URLSession.")
        list.member(
            "local_address", \.metrics.local?.address,
            "Local IP address, or null without a connection.")
        list.member("local_port", \.metrics.local?.port, "Local port, or null without a connection.")
        list.member(
            "remote_address", \.metrics.remote?.address,
            "IP address of the server, or of the proxy if there is one. Null without a connection.")
        list.member(
            "remote_port", \.metrics.remote?.port,
            "Port of the server, or of the proxy if there is one. Null without a connection.")
        list.member(
            "tls_protocol_version", \.metrics.tls?.protocolVersion, "Version of TLS, or null without TLS.",
            [.examples("TLSv1.3")])
        list.member(
            "tls_cipher_suite", \.metrics.tls?.cipherSuite, "Cipher suite of TLS, or null without TLS.",
            [.examples("TLS_AES_256_GCM_SHA384")])
    }

    private enum FetchType: String, ShownChoice { case network = "network_load" }
}

extension TransactionMetrics.Request: ShownObject {
    public static let summary = "A request of an attempt."
    public static let schemaName = "TransactionRequest"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("method", \.method, "Method of the request.")
        // Hidden parts are replaced already.
        list.member("url", { ShownURL(text: $0.url) }, "URL of the request.")
    }
}

private struct TransactionResponse: ShownObject {
    static let summary = "A response to an attempt."
    static let schemaName = "TransactionResponse"

    let status: Int

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("status", \.status, "HTTP status code.")
    }
}
