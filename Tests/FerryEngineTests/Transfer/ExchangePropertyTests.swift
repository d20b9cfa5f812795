import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// The law of a download: whatever becomes of the exchange at whatever byte, in the end there is the exact
/// file or an error that says so, never a wrong file.
@Suite(.serialized, .onOwnThread) struct ExchangePropertyTests {
    private static let seed: UInt64 = 20_260_711
    private static let bytes = patternBytes(60, seed: seed)

    enum Shape: String, CaseIterable, Sendable { case counted, chunked, untilEnd }

    private static func answer(_ shape: Shape) -> [UInt8] {
        let tag = "HTTP/1.1 200 OK\r\nETag: \"one\"\r\n"
        switch shape {
        case .counted: return Array("\(tag)Content-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        case .untilEnd: return Array("\(tag)Connection: close\r\n\r\n".utf8) + bytes
        case .chunked:
            return Array("\(tag)Transfer-Encoding: chunked\r\n\r\n20\r\n".utf8) + bytes[..<32]
                + Array("\r\n1c\r\n".utf8) + bytes[32...] + Array("\r\n0\r\nX-Trailer: yes\r\n\r\n".utf8)
        }
    }

    /// `/SHAPE/FAULT/PLACE`: the first answer has the fault at that byte, later ones have none.
    private static func origin(_ identity: TestAuthority.Identity?) throws -> ScriptedOrigin {
        let tally = Tally()
        return try ScriptedOrigin(as: identity) { connection in
            while let request = connection.readRequest() {
                let words = request.path.split(separator: "/").map(String.init)
                guard words.count == 3, let shape = Shape(rawValue: words[0]),
                    let fault = WireFault(rawValue: words[1]), let place = Int(words[2])
                else { return }
                if tally.next(request.path) == 0 {
                    return fault.send(answer(shape), after: place, seed: seed, on: connection)
                }
                guard connection.send(RangeOrigin.answer(to: request, bytes)) else { return }
            }
        }
    }

    private static func run(_ shapes: [Shape], _ faults: [WireFault], isSecure: Bool) throws {
        let authority = try TestAuthority.shared.get()
        let origin = try Self.origin(isSecure ? authority.server : nil)
        let fixture = try Fixture {
            $0.fileSync = .none
            $0.memoryByteCountMax = 0
        }
        defer {
            fixture.stop()
            origin.stop()
        }
        var cases: [PropertyRun.Case] = []
        for shape in shapes {
            for fault in faults {
                for place in 0...answer(shape).count {
                    cases.append(
                        .init(
                            path: "/\(shape)/\(fault)/\(place)", mayFail: fault.changesBytes,
                            isUnproved: shape == .untilEnd && !isSecure,
                            stalls: fault == .stall))
                }
            }
        }
        let run = PropertyRun(fixture: fixture, seed: seed, byteCount: bytes.count) { one, draft in
            draft.to(String(one.path.dropFirst()))
            if one.mayFail { draft.spec.integrity.sha256 = sha256(bytes) }
            if isSecure { draft.trust(authority.certificate) }
        }
        run.expectExact(cases, run.finish(.download, origin.url, cases), bytes)
        #expect(origin.requests.contains { $0.header("if-range") != nil }, "some resume")
    }

    @Test("a response that is cut, reset, stalled or changed at any byte yields the exact file or an error")
    func plain() throws {
        try Self.run([.counted, .chunked], WireFault.allCases, isSecure: false)
    }

    @Test("over TLS, where a body needs close_notify, any fault yields the exact file or an error")
    func secure() throws {
        try Self.run([.counted], [.cut, .stall, .flip], isSecure: true)
        try Self.run([.untilEnd, .chunked], [.cut], isSecure: true)
    }
}
