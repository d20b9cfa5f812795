import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// Servers that refuse an upload and hang up while its body is on its way: what they said is the error, also
/// when libcurl sees the closed connection first.
@Suite(.serialized, .onOwnThread) struct EarlyResponseTests {
    enum Ending: String, CaseIterable, Sendable { case none, proper, resets }

    private static let count = 40

    private static func run(
        _ identity: TestAuthority.Identity?, _ ending: Ending, _ answer: String
    ) throws -> [AttemptResult] {
        let origin = try ScriptedOrigin(as: identity) { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            _ = connection.read(300_000)
            connection.send(answer)
            switch ending {
            case .none: break
            case .proper: connection.sayGoodbye()
            case .resets: connection.reset()
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", patternBytes(20_000_000))
        let authority = try TestAuthority.shared.get().certificate
        fixture.engine.begin(
            (0..<count).map { _ in
                fixture.attempt(.upload, origin.url + "/x") {
                    $0.spec.source = .path("source")
                    if identity != nil { $0.trust(authority) }
                }
            })
        return fixture.sink.arrived.wait(for: count)
    }

    @Test("a refusal before the connection closes is the error", arguments: [false, true])
    func refusal(isSecure: Bool) throws {
        let identity = isSecure ? try TestAuthority.shared.get().server : nil
        for ending in [Ending.none, .proper] {
            let results = try Self.run(
                identity, ending, "HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
            #expect(results.count == Self.count)
            for result in results {
                #expect(
                    result.failure?.code == .unacceptableStatus && result.response?.status == 413,
                    "\(ending): \(String(describing: result.failure))")
            }
        }
    }

    @Test("without a response, or with half a head, the connection is lost", arguments: [false, true])
    func silence(isSecure: Bool) throws {
        let identity = isSecure ? try TestAuthority.shared.get().server : nil
        for answer in ["", "HTTP/1.1 413 No\r\nContent-Length: 2\r\n"] {
            for ending in Ending.allCases {
                for result in try Self.run(identity, ending, answer) {
                    #expect(
                        [.connectionLost, .incompleteBody].contains(result.failure?.code),
                        "\(ending): \(String(describing: result.failure))")
                }
            }
        }
    }
}
