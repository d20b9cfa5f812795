import FerryCore
import FerryEngine
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// Transactions of an attempt, one for each of its requests.
@Suite(.serialized, .onOwnThread) struct TransactionTests {
    private static func transactions(_ result: AttemptResult?) throws -> [TransactionMetrics] {
        let trace = try #require(result?.trace)
        #expect(trace.finishedAt >= trace.startedAt)
        return unpacked(trace.transactions)
    }

    static func unpacked(_ log: TransactionLog) -> [TransactionMetrics] {
        let time = Timestamp(microseconds: 0)
        let trace = AttemptTrace(startedAt: time, finishedAt: time, transactions: log)
        let packed = AttemptRecord.packed(number: 1, node: nil, trace, .succeeded, error: nil, .inverted)
        return AttemptRecord(packed: packed, node: nil)?.transactions ?? []
    }

    private static func answering(_ text: String) throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { _, _ in Array(text.replacing("\n", with: "\r\n").utf8) }
    }

    private static func expectInOrder(_ metrics: TransactionMetrics) {
        let times = TransactionMetrics.Moment.allCases.compactMap { metrics.moments[$0] }
        #expect(times == times.sorted(), "\(times)")
    }

    @Test("a download has one transaction with every moment, both addresses and all counts")
    func one() throws {
        let origin = try Self.answering("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let all = try Self.transactions(fixture.run(.data, origin.url + "/x"))
        try #require(all.count == 1)
        let metrics = all[0]
        Self.expectInOrder(metrics)
        #expect(metrics.request == nil && metrics.status == 200 && metrics.networkProtocol == .http11)
        #expect(metrics.moments[.domainLookupStart] == nil, "the host is an address")
        for moment in TransactionMetrics.Moment.allCases.dropFirst(2) {
            let isSecure = moment == .secureConnectionStart || moment == .secureConnectionEnd
            #expect((metrics.moments[moment] == nil) == isSecure, "\(moment)")
        }
        #expect(metrics.remote == .init(address: "127.0.0.1", port: origin.port))
        #expect(metrics.local?.address == "127.0.0.1" && metrics.tls == nil)
        #expect(!metrics.isReusedConnection && !metrics.isProxyConnection)
        let request = try #require(origin.requests.first)
        let headByteCount = request.lines.reduce(2) { $0 + $1.utf8.count + 2 }
        #expect(metrics.byteCounts.requestHeader == Int64(headByteCount))
        #expect(metrics.byteCounts.responseHeader == 38 && metrics.byteCounts.responseBody == 5)
        #expect(metrics.byteCounts.decodedBody == 5 && metrics.byteCounts.requestBody == 0)
    }

    @Test("every hop of a redirect is a transaction; kept connections are used again and have no connect")
    func redirects() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let next = ["/a": "/b", "/b": "/c"][request.path]
            let head = next.map { "302 Found\r\nLocation: \($0)\r\n" } ?? "200 OK\r\n"
            return Array("HTTP/1.1 \(head)Content-Length: 2\r\n\r\nok".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let all = try Self.transactions(fixture.run(.data, origin.url + "/a"))
        #expect(all.map(\.status) == [302, 302, 200])
        #expect(
            all.map(\.request) == [
                nil, .init(method: "GET", url: origin.url + "/b"),
                .init(method: "GET", url: origin.url + "/c"),
            ])
        #expect(all.map(\.isReusedConnection) == [false, true, true])
        for metrics in all.dropFirst() {
            #expect(metrics.moments[.connectStart] == nil && metrics.moments[.connectEnd] == nil)
            #expect(metrics.moments[.requestStart] != nil && metrics.moments[.responseEnd] != nil)
            #expect(metrics.remote?.port == origin.port)
        }
        #expect(all.map(\.fetchStart) == all.map(\.fetchStart).sorted())
        for (one, next) in zip(all, all.dropFirst()) {
            let end = one.fetchStart + (one.moments[.responseEnd] ?? 0)
            #expect(next.fetchStart >= end - 2_000, "\(next.fetchStart) \(end)")
        }
    }

    @Test("an upload's request ends before its response starts, and both sides' bytes are counted")
    func upload() throws {
        let origin = try Self.answering("HTTP/1.1 201 Created\nContent-Length: 0\n\n")
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let payload = patternBytes(300_000)
        let all = try Self.transactions(fixture.run(.upload, origin.url) { $0.payload = payload })
        try #require(all.count == 1)
        Self.expectInOrder(all[0])
        #expect(all[0].moments[.requestEnd] != nil && all[0].moments[.responseStart] != nil)
        #expect(all[0].byteCounts.requestBody == 300_000 && all[0].status == 201)
    }

    @Test("a dead kept connection is a transaction without a response before the one that succeeded")
    func deadConnection() throws {
        let count = Atomic<Int>(0)
        let origin = try ScriptedOrigin { connection in
            let isFirst = count.add(1, ordering: .relaxed).oldValue == 0
            while connection.readRequest() != nil {
                // The first connection serves one request and leaves the second without an answer.
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                if isFirst {
                    _ = connection.readRequest()
                    return
                }
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        #expect(fixture.run(.data, origin.url)?.success != nil)
        let result = fixture.run(.data, origin.url)
        #expect(result?.success != nil)
        // libcurl repeats some of these by itself; then there is one, on a connection of its own.
        let all = try Self.transactions(result)
        #expect(all.last?.status == 200 && all.last?.isReusedConnection == false)
        #expect(all.dropLast().allSatisfy { $0.status == nil && $0.isReusedConnection })
    }

    @Test("failed connects and lookups keep the moments until then, and libcurl's message")
    func failures() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let refused = fixture.run(.data, "http://127.0.0.1:\(try FreePort.find())/")
        let connecting = try #require(try Self.transactions(refused).first)
        #expect(connecting.moments[.connectStart] != nil && connecting.moments[.connectEnd] == nil)
        #expect(connecting.moments[.requestStart] == nil && connecting.status == nil)
        #expect(!connecting.isReusedConnection && connecting.networkProtocol == nil)
        #expect(refused?.trace?.diagnostics?.curlCode == 7)
        #expect(refused?.trace?.diagnostics?.osError == 111, "ECONNREFUSED")
        let unknown = fixture.run(.data, "http://ferry.invalid/")
        let resolving = try #require(try Self.transactions(unknown).first)
        #expect(resolving.moments[.domainLookupStart] == 0 && resolving.moments[.connectStart] == nil)
        #expect(resolving.moments[.domainLookupEnd] == nil && resolving.remote == nil)
        #expect(unknown?.trace?.diagnostics?.curlCode == 6)
    }

    @Test("a blocked address is not shown")
    func blocked() throws {
        let fixture = try Fixture(allowsLoopback: false)
        defer { fixture.stop() }
        let result = fixture.run(.data, "http://localhost:9/")
        #expect(result?.failure?.code == .blockedAddress)
        for metrics in try Self.transactions(result) { #expect(metrics.remote == nil) }
    }

    @Test("a host is blocked if all its addresses are; one that refuses connections may recover")
    func partlyBlocked() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        // libcurl has two addresses for this name, of which ::1 may not be reached.
        let origin = "http://localhost:\(try FreePort.find())"
        for segments in [1, 4] {
            let error = fixture.run(.download, origin) { $0.spec.segmentCountMax = segments }?.failure
            #expect(error?.code == .couldNotConnect, "\(String(describing: error))")
            #expect(error?.isRetryable == true)
        }
        let probed = Signal<TransferError?>()
        fixture.engine.probe(origin) { probed.fire($0) }
        #expect(probed.wait().first??.code == .couldNotConnect)
    }

    @Test("a transaction ended by a timeout or a cancellation keeps its moments")
    func stopped() throws {
        let isThere = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
            isThere.fire(())
            _ = connection.waitUntilClosed()
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        fixture.engine.begin([fixture.attempt(.data, origin.url) { $0.spec.request.timeoutForRequest = 8 }])
        let late = fixture.sink.arrived.wait().first
        #expect(late?.failure?.code == .timedOut)
        #expect(isThere.wait().count == 1)
        let attempt = fixture.attempt(.data, origin.url)
        fixture.engine.begin([attempt])
        #expect(isThere.wait().count == 1)
        let snapshots = Signal<AttemptSnapshot?>()
        #expect(
            eventually {
                fixture.engine.snapshot(of: attempt.job) { snapshots.fire($0) }
                guard let snapshot = snapshots.wait().first ?? nil else { return false }
                let first = Self.unpacked(snapshot.transactions).first
                return first?.status == 200 && first?.byteCounts.responseBody == 3
            }, "the running attempt shows its request")
        fixture.engine.cancel(attempt.job)
        let cancelled = fixture.sink.arrived.wait().first
        #expect(cancelled?.isCancelled == true)
        for result in [late, cancelled] {
            let metrics = try #require(try Self.transactions(result).first)
            #expect(metrics.status == 200 && metrics.moments[.responseStart] != nil)
            #expect(metrics.moments[.responseEnd] == nil && metrics.byteCounts.responseBody == 3)
        }
        fixture.engine.snapshot(of: attempt.job) { snapshots.fire($0) }
        #expect(snapshots.wait().map { $0 == nil } == [true])
    }
}
