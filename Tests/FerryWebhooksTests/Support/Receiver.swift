import Glibc
import Synchronization
import Sys
import TestSupport

/// A receiver of webhooks: reads one request a connection and does what it was told.
final class Receiver: Sendable {
    enum Behaviour: Sendable {
        /// Answers with this, as it is.
        case answer(String)
        /// Reads the request and never answers.
        case silence
        /// Reads the request and resets the connection.
        case reset
    }

    struct Request: Sendable {
        let line: String
        let body: [UInt8]
        fileprivate let whole: ScriptedOrigin.Request
        func header(_ name: String) -> String? { whole.header(name) }
    }

    let requests = Mailbox<Request>()
    private let origin: ScriptedOrigin
    private let connections: Connections

    private final class Connections: Sendable {
        private let count = Mutex((now: 0, max: 0))
        var max: Int { count.withLock { $0.max } }
        func come() { count.withLock { $0 = ($0.now + 1, Swift.max($0.max, $0.now + 1)) } }
        func go() { count.withLock { $0.now -= 1 } }
    }

    /// The most connections that waited for an answer at once.
    var connectionCountMax: Int { connections.max }
    var port: UInt16 { origin.port }
    var url: String { "\(origin.url)/hook" }

    init(_ behaviour: Behaviour) throws {
        let requests = requests
        let connections = Connections()
        self.connections = connections
        origin = try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            connections.come()
            let body = connection.readBody(of: request)
            requests.send(Request(line: request.line, body: body, whole: request))
            if case .silence = behaviour { _ = connection.read(1) }
            // Who has the answer may come again before this thread goes on.
            connections.go()
            switch behaviour {
            case .answer(let text): connection.send(text)
            case .silence: break
            case .reset: connection.reset()
            }
        }
    }

    /// A 200, or another status, without a body.
    static func status(_ status: String, _ headers: String = "") -> Behaviour {
        .answer("HTTP/1.1 \(status)\r\n\(headers)Content-Length: 0\r\nConnection: close\r\n\r\n")
    }

    func stop() { origin.stop() }
}
