import Testing

@testable import FerryCore

@Suite("Packed attempts")
struct AttemptRecordTests {
    private static let full: TransactionMetrics = {
        var metrics = TransactionMetrics(fetchStart: 1_500)
        metrics.request = .init(method: "GET", url: "https://b.example/ü/x")
        metrics.status = 206
        for moment in TransactionMetrics.Moment.allCases {
            metrics.moments[moment] = Int64(moment.rawValue) * 70_000
        }
        // A server that responds before the request is complete.
        metrics.moments[.responseStart] = 1
        metrics.networkProtocol = .http2
        metrics.isProxyConnection = true
        metrics.isReusedConnection = true
        metrics.local = .init(address: "2001:db8::1", port: 65_535)
        metrics.remote = .init(address: "192.0.2.7", port: 443)
        metrics.tls = .init(protocolVersion: "TLSv1.3", cipherSuite: "TLS_AES_256_GCM_SHA384")
        metrics.byteCounts.requestHeader = 80
        metrics.byteCounts.requestBody = 1 << 40
        metrics.byteCounts.responseHeader = 300
        metrics.byteCounts.responseBody = 10
        metrics.byteCounts.decodedBody = 1_000
        return metrics
    }()
    private static let node = NodeID(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)

    private static func trace(_ transactions: [TransactionMetrics]) -> AttemptTrace {
        var log = TransactionLog()
        for metrics in transactions { log.append(metrics) }
        return AttemptTrace(
            startedAt: Timestamp(microseconds: 1_795_298_400_000_000),
            finishedAt: Timestamp(microseconds: 1_795_298_400_250_000), transactions: log,
            diagnostics: .init(curlCode: 7, curlMessage: "no", osError: 111))
    }

    @Test("every packed attempt is read back unchanged")
    func roundTrip() throws {
        let plain = TransactionMetrics(fetchStart: 0)
        let packed = AttemptRecord.packed(
            number: 12, node: Self.node, Self.trace([Self.full, plain]), .failed,
            error: Stored(json: Array("{}".utf8)),
            .inverted)
        let read = try #require(AttemptRecord(packed: packed, node: nil))
        #expect(read.number == 12 && read.node == Self.node && read.outcome == .failed)
        #expect(read.startedAt == Timestamp(microseconds: 1_795_298_400_000_000))
        #expect(read.finishedAt == Timestamp(microseconds: 1_795_298_400_250_000))
        #expect(read.error?.json == Array("{}".utf8) && read.diagnostics?.osError == 111)
        #expect(read.transactions == [Self.full, plain] && read.omittedTransactionCount == 0)
    }

    @Test("a succeeded attempt stores no diagnostics and takes its node from the row, in under 110 bytes")
    func plain() throws {
        var metrics = Self.full
        metrics.request = nil
        metrics.tls = nil
        metrics.local = .init(address: "127.0.0.1", port: 40_000)
        let packed = AttemptRecord.packed(
            number: 1, node: nil, Self.trace([metrics]), .succeeded, error: nil, .inverted)
        let read = try #require(AttemptRecord(packed: packed, node: Self.node))
        #expect(read.node == Self.node && read.diagnostics == nil && read.error == nil)
        #expect(packed.count < 110, "\(packed.count) bytes")
    }

    @Test(
        "the size of partial bytes is stored with the attempt, with and without a total",
        arguments: [nil, 0, 1 << 40])
    func keptBytes(_ total: Int64?) throws {
        let kept = PartialDownload(byteCount: 700_000, total: total)
        let packed = AttemptRecord.packed(
            number: 2, node: Self.node, Self.trace([Self.full]), .suspended, error: nil,
            partialDownload: kept, .inverted)
        let read = try #require(AttemptRecord(packed: packed, node: nil))
        #expect(
            read.partialDownload == kept && read.transactions == [Self.full] && read.outcome == .suspended)
        let without = AttemptRecord.packed(
            number: 2, node: Self.node, Self.trace([Self.full]), .suspended, error: nil, .inverted)
        #expect(try #require(AttemptRecord(packed: without, node: nil)).partialDownload == nil)
        #expect(without.count < packed.count, "a record without partial bytes has none")
    }

    @Test("of many transactions, the first and the last ones are stored")
    func many() throws {
        let all = (0..<100).map { TransactionMetrics(fetchStart: Int64($0) * 1_000) }
        let packed = AttemptRecord.packed(
            number: 1, node: nil, Self.trace(all), .succeeded, error: nil, .inverted)
        let read = try #require(AttemptRecord(packed: packed, node: nil))
        let half = Limits.transactionCountMax / 2
        #expect(half == 20 && read.transactions == Array(all.prefix(half) + all.suffix(half)))
        #expect(read.omittedTransactionCount == 100 - Limits.transactionCountMax)
    }

    @Test("damaged bytes never lead to a read beyond their end")
    func damage() {
        let packed = AttemptRecord.packed(
            number: 3, node: Self.node, Self.trace([Self.full]), .failed,
            error: Stored(json: Array("{}".utf8)),
            .inverted)
        for count in 0..<packed.count {
            #expect(AttemptRecord(packed: Array(packed.prefix(count)), node: nil) != read(packed))
        }
        var random = SeededRandom(seed: 5)
        for _ in 0..<20_000 {
            var bytes = packed
            bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            if let record = AttemptRecord(packed: bytes, node: nil) {
                _ = JobAttempts(Self.job(.failed), packed: [bytes]).json(
                    showsDiagnostics: true, for: .redacted)
                #expect(record.transactions.count <= bytes.count)
            }
        }
    }

    private func read(_ bytes: [UInt8]) -> AttemptRecord? { AttemptRecord(packed: bytes, node: nil) }

    private static func job(_ state: JobState, attempt: Int32 = 1) -> JobAttempts.Job {
        JobAttempts.Job(
            state: state, attempt: attempt, node: node, startedAt: Timestamp(microseconds: 5),
            storedSpec: StoredSpec(
                Array(
                    #"{"kind":"data","session":"s","request":{"url":"HTTP://A.example:80/x","method":"GET"}}"#
                        .utf8)))
    }

    @Test("an error of the operating system is shown without a message of libcurl")
    func refusedFile() throws {
        var trace = Self.trace([])
        trace.diagnostics = .init(curlCode: 0, curlMessage: "", osError: 30)
        let packed = AttemptRecord.packed(
            number: 1, node: nil, trace, .failed, error: Stored(json: Array("{}".utf8)), .inverted)
        let answer = try JSON.parse(
            JobAttempts(Self.job(.failed), packed: [packed]).json(showsDiagnostics: true, for: .redacted))
        let diagnostics = try #require(answer["data"]?.array?.first?["diagnostics"])
        #expect(diagnostics["curl_code"] == .null && diagnostics["curl_message"] == .null)
        #expect(diagnostics["os_error"]?.integer == 30)
    }

    @Test("an attempt shows the job's own request, absolute times, and null for missing values")
    func shown() throws {
        var metrics = TransactionMetrics(fetchStart: 1_000_000)
        metrics.moments[.requestStart] = 500_000
        let packed = AttemptRecord.packed(
            number: 1, node: nil, Self.trace([metrics]), .failed,
            error: Stored(TransferError(.timedOut, "Late.", phase: .waiting, isRetryable: true)), .inverted)
        let answer = try JSON.parse(
            JobAttempts(Self.job(.failed), packed: [packed]).json(showsDiagnostics: true, for: .redacted))
        let attempt = try #require(answer["data"]?.array?.first)
        #expect(attempt["error"]?["code"]?.string == "timed_out" && attempt["outcome"]?.string == "failed")
        #expect(attempt["node"]?.string == Self.node.description)
        #expect(attempt["diagnostics"]?["os_error"]?.integer == 111)
        let shown = try #require(attempt["transactions"]?.array?.first)
        #expect(shown["request"]?["url"]?.string == "http://a.example/x")
        #expect(shown["request"]?["method"]?.string == "GET" && shown["response"] == .null)
        #expect(shown["fetch_start_at"]?.string == "2026-11-21T22:00:01.000000Z")
        #expect(shown["request_start_at"]?.string == "2026-11-21T22:00:01.500000Z")
        for name in ["connect_start_at", "response_end_at", "remote_address", "network_protocol_name"] {
            #expect(shown[name] == .null, "\(name)")
        }
    }

    @Test("an attempt shows the request of its time, and the secrets of its URL only to authorized readers")
    func earlierRequest() throws {
        var request = JobSpec.RequestSpec()
        request.method = "PUT"
        try request.setURL("http://then.example/f?sig=hush")
        let (url, own) = (request.webURL, TransactionLog.OwnRequest(request))
        var log = TransactionLog(own: own)
        log.append(TransactionMetrics(fetchStart: 0))
        log.append(Self.full)
        let urls = { (attempts: JobAttempts, disclosure: Disclosure) in
            let shown = try JSON.parse(attempts.json(showsDiagnostics: false, for: disclosure))
            return shown["data"]?.array?.last?["transactions"]?.array?.map {
                "\($0["request"]?["method"]?.string ?? "") \($0["request"]?["url"]?.string ?? "")"
            }
        }
        let redirected = "GET https://b.example/ü/x"
        let then = ["PUT \(url.string)", redirected]
        let hidden = ["PUT \(RedactedURL.text(of: url.string))", redirected]
        let now = ["GET http://a.example/x", redirected]
        #expect(hidden != then && !hidden[0].contains("hush"))
        let packed = { (final: TransactionLog.OwnRequest?) in
            var trace = Self.trace([])
            trace.transactions = log
            return AttemptRecord.packed(
                number: 1, node: nil, trace, .failed, error: nil, final: final, .inverted)
        }
        let earlier = packed(nil)
        #expect(!String(decoding: earlier, as: UTF8.self).contains("hush"))
        let attempts = JobAttempts(Self.job(.waiting), packed: [earlier])
        #expect(try urls(attempts, .full(.inverted)) == then && urls(attempts, .redacted) == hidden)
        // The fields of a job that has ended do not change any more.
        let last = packed(own)
        #expect(last.count < earlier.count)
        #expect(try urls(JobAttempts(Self.job(.failed), packed: [last]), .redacted) == now)
        request.method = "GET"
        let edited = JobAttempts(Self.job(.failed), packed: [packed(.init(request))])
        #expect(try urls(edited, .full(.inverted)) == then && urls(edited, .redacted) == hidden)
        var running = JobAttempts(Self.job(.running), packed: [])
        running.add(.init(number: 1, startedAt: Timestamp(microseconds: 9), transactions: log))
        #expect(try urls(running, .full(.inverted)) == then && urls(running, .redacted) == hidden)
    }

    @Test("lost, running and dropped attempts are shown")
    func others() throws {
        let lost: [UInt8] =
            [2, 0, 0, 0, 7] + [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]
            + [0xFE, 0xDC, 0xBA, 0x98, 0x76, 0x54, 0x32, 0x10] + [0, 0, 0, 0, 0, 0, 1, 0]
        let read = try #require(AttemptRecord(packed: lost, node: nil))
        #expect(read.number == 7 && read.node == Self.node && read.outcome == .lost)
        #expect(read.startedAt == nil && read.finishedAt == Timestamp(microseconds: 256))
        var attempts = JobAttempts(Self.job(.running, attempt: 8), packed: [lost, [9, 9]])
        #expect(attempts.attempts.map(\.number) == [7, 8] && attempts.omittedCount == 1)
        var log = TransactionLog()
        log.append(Self.full)
        attempts.add(.init(number: 7, startedAt: Timestamp(microseconds: 9), transactions: log))
        #expect(attempts.attempts[1].transactions.isEmpty, "a snapshot of another attempt")
        attempts.add(.init(number: 8, startedAt: Timestamp(microseconds: 9), transactions: log))
        #expect(attempts.attempts[1].transactions == [Self.full])
        let many = (70..<119).map {
            AttemptRecord.packed(number: $0, node: nil, Self.trace([]), .released, error: nil, .inverted)
        }
        #expect(JobAttempts(Self.job(.waiting), packed: many).omittedCount == 69)
        #expect(JobAttempts(Self.job(.waiting), packed: Array(many.prefix(48))).omittedCount == 0)
    }
}
