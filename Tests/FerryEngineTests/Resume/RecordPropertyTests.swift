import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

/// The property of a download, one layer below: whatever an attacker does to the records of TLS, in the
/// end there is the exact file or an error that says so.
@Suite(.serialized, .onOwnThread) struct RecordPropertyTests {
    private static let seed: UInt64 = 20_261_122
    private static let bytes = patternBytes(60, seed: seed)
    private static let codes: Set<TransferError.Code> = [
        .tlsFailed, .certificateInvalid, .connectionLost, .incompleteBody, .timedOut,
    ]

    /// End of the first answer to a path; later answers have a length.
    enum Shape: String, CaseIterable, Sendable { case counted, untilEnd }

    /// An answer in five records, so that some of a body are whole when the next one is not.
    private static func origin(_ shape: Shape, _ identity: TestAuthority.Identity) throws -> ScriptedOrigin {
        let tally = Tally()
        return try ScriptedOrigin(as: identity) { connection in
            while let request = connection.readRequest() {
                guard tally.next(request.path) == 0 else {
                    guard connection.send(RangeOrigin.answer(to: request, bytes)) else { return }
                    continue
                }
                let end = shape == .counted ? "Content-Length: \(bytes.count)" : "Connection: close"
                connection.send("HTTP/1.1 200 OK\r\nETag: \"one\"\r\n\(end)\r\n\r\n")
                for start in stride(from: 0, to: bytes.count, by: 15) {
                    connection.send(Array(bytes[start..<(start + 15)]))
                }
                return connection.sayGoodbye()
            }
        }
    }

    /// Those of a byte each, and those of whole records; the likely stalls together, at the end.
    private static func faults(_ lengths: [Int], isFromServer: Bool, stride step: Int) -> [RecordFault] {
        var random = SeededRandom(seed: seed)
        var faults: [RecordFault] = []
        func add(_ index: Int, _ kind: RecordFault.Kind) {
            faults.append(RecordFault(isFromServer: isFromServer, index: index, kind: kind))
        }
        for (index, length) in lengths.enumerated() {
            let first = Int.random(in: 0..<step, using: &random)
            for byte in stride(from: first, to: length, by: step) where byte != 3 && byte != 4 {
                add(index, .flip(byte: byte, bit: Int.random(in: 0...7, using: &random)))
            }
            for count in [0, 1, 5, length / 2, length - 1, length] { add(index, .cut(after: count)) }
            add(index, .duplicate)
        }
        for (index, _) in lengths.enumerated() {
            add(index, .swap)
            add(index, .drop)
            for byte in 3...4 { add(index, .flip(byte: byte, bit: Int.random(in: 0...7, using: &random))) }
        }
        return faults
    }

    private static func run(
        _ shape: Shape, _ version: ConnectionRules.TLS.Version, stride step: Int
    ) throws {
        let authority = try TestAuthority.shared.get()
        let origin = try origin(shape, authority.server)
        let proxy = try RecordProxy(to: origin.port)
        let fixture = try Fixture {
            $0.fileSync = .none
            $0.memoryByteCountMax = 0
        }
        defer {
            fixture.stop()
            proxy.stop()
            origin.stop()
        }
        var run = PropertyRun(fixture: fixture, seed: seed, byteCount: bytes.count) { one, draft in
            draft.to(String(one.path.dropFirst()))
            draft.trust(authority.certificate) { $0.versionMax = version }
        }
        run.atOnce = 50
        run.stallSeconds = 1.5
        run.inspect = { result in
            guard let error = result.failure else { return }
            #expect(codes.contains(error.code), "seed \(seed): \(error)")
            // What was measured of it is shown.
            let transactions = result.trace.map { TransactionTests.unpacked($0.transactions) } ?? []
            let isMeasured = transactions.last.map {
                $0.moments[.connectStart] != nil || $0.isReusedConnection
            }
            #expect(isMeasured == true, "seed \(seed): \(error)")
            #expect(result.trace?.diagnostics?.curlMessage.isEmpty == false || error.code == .timedOut)
        }
        // A connection without faults, for comparison.
        let untouched = PropertyRun.Case(path: "/f0000")
        #expect(run.finish(.download, proxy.url, [untouched]).isEmpty)
        #expect(eventually { proxy.lengths.server.count > 5 })
        let lengths = proxy.lengths
        let faults =
            faults(lengths.server, isFromServer: true, stride: step)
            + faults(lengths.client, isFromServer: false, stride: 4 * step)
        proxy.take(faults)
        // Whose connection a fault meets is left to chance.
        let cases = (1...faults.count).map {
            PropertyRun.Case(path: "/f\(1_000 + $0)", mayFail: true, stalls: true)
        }
        let failed = run.finish(.download, proxy.url, cases)
        run.expectExact([untouched] + cases, failed, bytes)
        expectFinal(failed, version)
        #expect(proxy.waitingCount == 0, "every fault has met a connection")
        let met = Double(proxy.met.count) / Double(faults.count)
        #expect(met > 0.5, "\(met) of the faults have met their record")
        #expect(origin.requests.contains { $0.header("if-range") != nil }, "some resume")
    }

    /// Only what looks like the server's own doing is not tried again: its certificate, and its version.
    private static func expectFinal(
        _ failed: [(PropertyRun.Case, TransferError)], _ version: ConnectionRules.TLS.Version
    ) {
        for (one, error) in failed {
            let isClear =
                version == .v12
                ? [.certificateInvalid, .tlsFailed].contains(error.code) : error.code == .tlsFailed
            #expect(isClear && error.phase == .securing, "seed \(seed), \(one.path): \(error)")
        }
    }

    @Test("faults in TLS 1.3 records yield the exact file or an error", arguments: Shape.allCases)
    func latest(_ shape: Shape) throws {
        try Self.run(shape, .v13, stride: shape == .counted ? 1 : 4)
    }

    @Test("faults in TLS 1.2 records yield the exact file or an error")
    func older() throws {
        try Self.run(.counted, .v12, stride: 3)
    }
}
