import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

/// Exchanges that follow each other on one connection, in all orders: each ends as it does on a connection of
/// its own, and no byte of one is taken for another's.
@Suite(.serialized, .onOwnThread) struct ReusedConnectionTests {
    private static let seed: UInt64 = 1_618
    private static let bytes = patternBytes(3_000, seed: seed)

    enum BufferedRequest: String, CaseIterable, Sendable {
        case counted, chunked, empty, noContent, notModified, head, part, unsatisfiable, hints, refused,
            redirected
        case uploaded, uploadRefused, announced
        // After these the connection is of no use.
        case closing, cut, early, tooMuch, malformed, ambiguous, ancient, silent

        /// Whether the next one may follow on the same connection.
        var isKept: Bool {
            switch self {
            case .counted, .chunked, .empty, .noContent, .notModified, .head, .part, .unsatisfiable, .hints,
                .refused, .redirected, .uploaded, .uploadRefused, .announced:
                true
            case .closing, .cut, .early, .tooMuch, .malformed, .ambiguous, .ancient, .silent: false
            }
        }

        var kind: JobKind {
            switch self {
            case .uploaded, .uploadRefused, .announced, .early: .upload
            case .counted: .download
            default: .data
            }
        }

        func draft(_ draft: inout Draft) {
            switch self {
            case .counted: draft.to("file")
            case .head: draft.spec.request.method = "HEAD"
            case .part: draft.spec.request.headers = [.init("Range", "bytes=0-99")]
            case .uploaded, .uploadRefused, .early: draft.payload = ReusedConnectionTests.bytes
            // From a size on the client asks first.
            case .announced: draft.payload = [UInt8](repeating: 7, count: 1_500_000)
            default: break
            }
            if let payload = draft.payload {
                draft.spec.source = .inline(.init(form: .base64, byteCount: payload.count))
            }
        }

        private func answer(_ status: String, _ fields: String = "", _ body: [UInt8] = []) -> [UInt8] {
            Array("HTTP/1.1 \(status)\r\nX-Exchange: \(rawValue)\r\n\(fields)\r\n".utf8) + body
        }

        private func counted(_ status: String, _ body: [UInt8], _ fields: String = "") -> [UInt8] {
            answer(status, "Content-Length: \(body.count)\r\n" + fields, body)
        }

        /// False: the connection is closed.
        func serve(
            _ request: ScriptedOrigin.Request, on connection: OriginConnection
        ) -> Bool {
            let bytes = ReusedConnectionTests.bytes
            if self == .early {
                connection.send(counted("413 No", Array("no".utf8), "Connection: close\r\n"))
                return connection.waitUntilClosed() && false
            }
            if request.header("expect") != nil { connection.send("HTTP/1.1 100 Continue\r\n\r\n") }
            _ = connection.readBody(of: request)
            let isSent = send(bytes, to: request, on: connection)
            // Here only the client may close the connection.
            return isSent && (isKept || self == .ambiguous)
        }

        private func send(
            _ bytes: [UInt8], to request: ScriptedOrigin.Request, on connection: OriginConnection
        ) -> Bool {
            switch self {
            case .counted: return connection.send(counted("200 OK", bytes))
            case .chunked, .malformed:
                let end =
                    self == .chunked ? "\r\n0\r\nX-Trailer: HTTP/1.1 200 OK\r\n\r\n" : "\r\nnonsense\r\n\r\n"
                return connection.send(
                    answer("200 OK", "Transfer-Encoding: chunked\r\n", Array("bb8\r\n".utf8) + bytes)
                        + Array(end.utf8))
            case .ambiguous:
                return connection.send(
                    answer(
                        "200 OK", "Content-Length: 3000\r\nTransfer-Encoding: chunked\r\n",
                        Array("bb8\r\n".utf8) + bytes + Array("\r\n0\r\n\r\n".utf8)))
            case .empty: return connection.send(counted("200 OK", []))
            case .noContent: return connection.send(answer("204 None"))
            case .notModified: return connection.send(answer("304 Same", "Content-Length: 3000\r\n"))
            case .head: return connection.send(answer("200 OK", "Content-Length: 3000\r\n"))
            case .part:
                return connection.send(
                    counted("206 Part", Array(bytes[..<100]), "Content-Range: bytes 0-99/3000\r\n"))
            case .unsatisfiable:
                return connection.send(counted("416 No", [], "Content-Range: bytes */3000\r\n"))
            case .hints:
                return connection.send(
                    Array("HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n".utf8)
                        + counted("200 OK", bytes))
            case .refused: return connection.send(counted("404 No", Array("<p>no</p>".utf8)))
            case .redirected:
                guard request.path.hasSuffix("end") else {
                    return connection.send(
                        counted("302 Go", Array("there".utf8), "Location: /redirected/end\r\n"))
                }
                return connection.send(counted("200 OK", bytes))
            case .uploaded, .announced: return connection.send(counted("201 Made", []))
            case .uploadRefused: return connection.send(counted("422 No", Array("no".utf8)))
            case .closing: return connection.send(counted("200 OK", bytes, "Connection: close\r\n"))
            case .cut: return connection.send(counted("200 OK", bytes).dropLast(10))
            case .tooMuch: return connection.send(counted("200 OK", bytes) + counted("200 OK", [1, 2, 3]))
            case .ancient:
                return connection.send(Array("HTTP/1.0 200 OK\r\nX-Exchange: ancient\r\n\r\n".utf8) + bytes)
            case .silent, .early: return false
            }
        }

    }

    /// Returns the properties of a result that do not depend on the connection.
    private static func summary(_ result: AttemptResult?) -> String {
        guard let result else { return "no result" }
        let end = result.success.map { "\($0.size) \($0.sha256)" } ?? result.failure.map { "\($0)" } ?? "?"
        let exchange = result.response?.headers.first { $0.name.lowercased() == "x-exchange" }?.value
        return "\(result.response?.status ?? 0) of \(exchange ?? "none"): \(end)"
    }

    /// On which connection each request came.
    private final class Connections: Sendable {
        private let count = Atomic<Int>(0)
        private let last = Atomic<Int>(-1)
        func open() -> Int { count.wrappingAdd(1, ordering: .relaxed).oldValue }
        func used(_ number: Int) { last.store(number, ordering: .sequentiallyConsistent) }
        var latest: Int { last.load(ordering: .sequentiallyConsistent) }
    }

    private static func with(
        isSecure: Bool, _ body: ((BufferedRequest) -> (summary: String, connection: Int)) throws -> Void
    ) throws {
        let (connections, authority) = (Connections(), try TestAuthority.shared.get())
        let origin = try ScriptedOrigin(as: isSecure ? authority.server : nil) { connection in
            let number = connections.open()
            while let request = connection.readRequest() {
                connections.used(number)
                let name = request.path.split(separator: "/").first.map(String.init) ?? ""
                guard let exchange = BufferedRequest(rawValue: name),
                    exchange.serve(request, on: connection)
                else {
                    return connection.sayGoodbye()
                }
            }
        }
        let fixture = try Fixture { $0.fileSync = .none }
        defer {
            fixture.stop()
            origin.stop()
        }
        try body { exchange in
            let result = fixture.run(exchange.kind, "\(origin.url)/\(exchange)") {
                exchange.draft(&$0)
                if isSecure { $0.trust(authority.certificate) }
            }
            return (summary(result), connections.latest)
        }
    }

    @Test(
        "on a reused connection every exchange ends as on a connection of its own",
        arguments: [false, true])
    func pairs(isSecure: Bool) throws {
        try Self.with(isSecure: isSecure) { run in
            let exchanges = BufferedRequest.allCases
            let alone = Self.alone(exchanges, run)
            var (sharedCount, keptCount) = (0, 0)
            for first in exchanges {
                for second in exchanges {
                    _ = run(.closing)
                    let (one, two) = (run(first), run(second))
                    #expect(one.summary == alone[first], "\(first)")
                    #expect(two.summary == alone[second], "\(second) after \(first)")
                    let isShared = one.connection == two.connection
                    #expect(first.isKept || !isShared, "\(second) after \(first)")
                    // What a kept connection does not answer is asked for on another one.
                    guard first.isKept, second != .silent else { continue }
                    keptCount += 1
                    if isShared { sharedCount += 1 }
                }
            }
            #expect(sharedCount * 10 >= keptCount * 9, "\(sharedCount) of \(keptCount)")
        }
    }

    @Test("after two random exchanges on its connection, an exchange ends as on a connection of its own")
    func triples() throws {
        var random = SeededRandom(seed: Self.seed)
        try Self.with(isSecure: false) { run in
            let alone = Self.alone(BufferedRequest.allCases, run)
            for _ in 0..<300 {
                let three = (0..<3).map { _ in
                    BufferedRequest.allCases.randomElement(using: &random) ?? .counted
                }
                for exchange in three {
                    #expect(run(exchange).summary == alone[exchange], "seed \(Self.seed): \(three)")
                }
            }
        }
    }

    @Test("a head that begins with a folded line fails its request, and no other one")
    func foldedFirstLine() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let line = request.path == "/folded" ? " \(String(repeating: "f", count: 400))\r\n" : ""
            return Array("HTTP/1.1 200 OK\r\n\(line)X-Some: field\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        for _ in 0..<20 {
            #expect(fixture.run(.data, origin.url + "/plain")?.success != nil)
            #expect(fixture.run(.data, origin.url + "/folded")?.failure != nil)
        }
    }

    /// Returns the summary of each exchange on a connection of its own.
    private static func alone(
        _ exchanges: [BufferedRequest], _ run: (BufferedRequest) -> (summary: String, connection: Int)
    ) -> [BufferedRequest: String] {
        var alone: [BufferedRequest: String] = [:]
        for exchange in exchanges {
            _ = run(.closing)
            alone[exchange] = run(exchange).summary
            let isNamed = alone[exchange]?.contains("of \(exchange):") == true
            #expect(isNamed || exchange == .silent, "\(alone[exchange] ?? "")")
        }
        return alone
    }
}
