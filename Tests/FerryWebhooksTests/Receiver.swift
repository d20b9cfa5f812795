import Glibc
import Synchronization
import Sys

/// A receiver of webhooks on a free port of 127.0.0.1: reads one request a connection and does what it was
/// told.
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
        let head: String
        let body: [UInt8]
        func header(_ name: String) -> String? {
            for line in head.split(separator: "\r\n") {
                let parts = line.split(separator: ":", maxSplits: 1)
                if parts.count == 2, parts[0].lowercased() == name.lowercased() {
                    return String(parts[1].drop { $0 == " " })
                }
            }
            return nil
        }
    }

    let port: UInt16
    let requests = Mailbox<Request>()
    private let listener: Int32
    private let behaviour: Behaviour
    private let connections = Mutex<[Int32]>([])
    private let threads = Mutex<[Thread]>([])
    private let connectionCount = Mutex((now: 0, max: 0))
    /// The most connections that were served at once.
    var connectionCountMax: Int { connectionCount.withLock { $0.max } }

    init(_ behaviour: Behaviour) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard listener >= 0 else { throw SystemError("socket") }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) | listen(listener, 512) | getsockname(listener, $0, &length)
            }
        }
        guard code == 0 else { throw SystemError("bind") }
        self.listener = listener
        self.behaviour = behaviour
        port = UInt16(bigEndian: address.sin_port)
        let thread = Thread(name: "receiver") { [self] in acceptAll() }
        threads.withLock { $0.append(thread) }
    }

    var url: String { "http://127.0.0.1:\(port)/hook" }

    /// A 200, or another status, without a body.
    static func status(_ status: String, _ headers: String = "") -> Behaviour {
        .answer("HTTP/1.1 \(status)\r\n\(headers)Content-Length: 0\r\nConnection: close\r\n\r\n")
    }

    private func acceptAll() {
        while true {
            let descriptor = accept(listener, nil, nil)
            guard descriptor >= 0 else { return }
            connections.withLock { $0.append(descriptor) }
            let thread = Thread(name: "connection") { [self] in serve(descriptor) }
            threads.withLock { $0.append(thread) }
        }
    }

    private func serve(_ descriptor: Int32) {
        connectionCount.withLock { $0 = ($0.now + 1, max($0.max, $0.now + 1)) }
        defer { connectionCount.withLock { $0.now -= 1 } }
        guard let request = read(descriptor) else { return finish(descriptor) }
        requests.send(request)
        switch behaviour {
        case .answer(let text):
            _ = Array(text.utf8).withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            finish(descriptor)
        case .silence:
            var byte: UInt8 = 0
            _ = recv(descriptor, &byte, 1, 0)
            finish(descriptor)
        case .reset:
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(
                descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
            finish(descriptor)
        }
    }

    private func finish(_ descriptor: Int32) {
        connections.withLock { $0.removeAll { $0 == descriptor } }
        close(descriptor)
    }

    private func read(_ descriptor: Int32) -> Request? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            bytes += buffer[..<count]
            let text = String(decoding: bytes, as: UTF8.self)
            guard let end = text.utf8.indices.first(where: { text.utf8[$0...].starts(with: "\r\n\r\n".utf8) })
            else {
                continue
            }
            let request = Request(
                head: String(text[..<end]),
                body: Array(bytes[(text.utf8.distance(from: text.startIndex, to: end) + 4)...]))
            let length = request.header("content-length").flatMap { Int($0) } ?? 0
            if request.body.count >= length { return request }
        }
    }

    /// Closes everything and waits for the threads.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        let first = threads.withLock { threads in threads.isEmpty ? nil : threads.removeFirst() }
        first?.join()
        close(listener)
        connections.withLock { connections in
            for descriptor in connections { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
        let rest = threads.withLock { threads in
            defer { threads = [] }
            return threads
        }
        for thread in rest { thread.join() }
    }
}
