import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// Transactions of an attempt for the requests that libcurl makes by itself.
@Suite(.serialized, .onOwnThread) struct ChallengeTransactionTests {
    private func transactions(_ result: AttemptResult?) throws -> [TransactionMetrics] {
        TransactionTests.unpacked(try #require(result?.trace).transactions)
    }

    /// Every moment after the one before, and every request after the one before.
    private func expectInOrder(_ all: [TransactionMetrics]) {
        var end: Int64 = 0
        for metrics in all {
            let times = TransactionMetrics.Moment.allCases.compactMap { metrics.moments[$0] }
            #expect(times == times.sorted(), "\(times)")
            #expect(metrics.fetchStart >= end)
            end = metrics.fetchStart + (times.last ?? 0)
        }
    }

    @Test("the challenged request and the one with credentials are two transactions")
    func digest() throws {
        let body = Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".utf8)
        let origin = try DigestOrigin("SHA-256") { _, _ in body }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", patternBytes(300_000))
        let download = try transactions(
            fixture.run(.data, origin.url + "/x") { $0.authenticate(.digest) })
        let upload = try transactions(
            fixture.run(.upload, origin.url + "/y") {
                $0.authenticate(.digest)
                $0.spec.source = .path("source")
            })
        for all in [download, upload] {
            try #require(all.map(\.status) == [401, 200])
            #expect(all.map(\.request) == [nil, nil])
            #expect(all[1].isReusedConnection && all[1].remote == all[0].remote)
            #expect(all[0].moments[.requestStart] != nil && all[0].moments[.responseEnd] != nil)
            for moment in TransactionMetrics.Moment.allCases {
                #expect((all[1].moments[moment] == nil) == (moment.rawValue < 6), "\(moment)")
            }
            expectInOrder(all)
            // The second one carries the credentials besides.
            #expect(all[1].byteCounts.requestHeader > all[0].byteCounts.requestHeader)
            #expect(all[0].byteCounts.responseHeader > all[1].byteCounts.responseHeader)
            #expect(all[1].byteCounts.responseHeader == 38 && all[1].byteCounts.responseBody == 5)
        }
        #expect(download[0].moments[.connectEnd] != nil && !download[0].isReusedConnection)
        #expect(upload.map(\.byteCounts.requestBody) == [0, 300_000])
    }

    @Test("if the server closes the connection with its challenge, the next transaction has a new one")
    func closed() throws {
        let origin = try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            guard request.header("authorization") == nil else {
                connection.send("HTTP/1.1 204 Fine\r\n\r\n")
                return
            }
            connection.send(
                "HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n"
                    + "Content-Length: 2\r\nConnection: close\r\n\r\nno")
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let all = try transactions(fixture.run(.data, origin.url + "/") { $0.authenticate(.digest) })
        #expect(all.map(\.status) == [401, 204])
        #expect(all.map(\.isReusedConnection) == [false, false])
        #expect(all.allSatisfy { $0.moments[.connectEnd] != nil })
        expectInOrder(all)
    }

    @Test("the lookup that libcurl adds for the next connection does not end after this connection began")
    func lookups() throws {
        let meter = TransactionMeter(TransferRequest(url: "http://example.org/"), attemptStart: 0)
        var info = TransferInfo()
        info.status = 401
        info.newConnections = 1
        (info.timings.nameLookup, info.timings.connect) = (1_868, 1_366)
        (info.timings.preTransfer, info.timings.startTransfer, info.timings.total) = (1_599, 4_605, 8_007)
        let hop = Hop(url: try WebURL.parse("http://example.org/"), method: "GET", sendsBody: false)
        let metrics = meter.metrics(
            info, .init(hop: hop, isOwn: true, hidesRemote: false), isWhole: true)
        #expect(metrics.moments[.domainLookupEnd] == 1_366 && metrics.moments[.connectStart] == 1_366)
        expectInOrder([metrics])
    }

    @Test("a request that is repeated after a dead kept connection is a transaction each time")
    func repeated() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 204 Fine\r\n\r\n")
            // Reads the next request and closes without an answer.
            guard let next = connection.readRequest() else { return }
            if next.path == "/2" { gate.open() }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        #expect(fixture.run(.data, origin.url + "/1")?.success != nil)
        let all = try transactions(fixture.run(.data, origin.url + "/2"))
        #expect(gate.pass(seconds: 120) && origin.requests.map(\.path) == ["/1", "/2", "/2"])
        #expect(all.map(\.status) == [nil, 204])
        #expect(all.first?.isReusedConnection == true && all.first?.moments[.responseEnd] == nil)
        expectInOrder(all)
    }
}
