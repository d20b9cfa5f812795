import Glibc
import Synchronization
import Sys

/// A server whose bytes the test decides: each connection runs the script on its own thread.
package final class ScriptedOrigin: Sendable {
    /// A request as received: the lines of its head (request line first) and the part of its body that was
    /// read.
    package struct Request: Sendable {
        package let lines: [String]
        /// The lines as received.
        fileprivate let head: [UInt8]

        /// `GET /path HTTP/1.1`
        package var line: String { lines.first ?? "" }
        package var method: String { line.split(separator: " ").first.map(String.init) ?? "" }
        package var path: String {
            let words = line.split(separator: " ")
            return words.count > 1 ? String(words[1]) : ""
        }

        /// Returns the first value of the field `name`, without regard to case.
        package func header(_ name: String) -> String? {
            let prefix = name.lowercased() + ":"
            guard let line = lines.first(where: { $0.lowercased().hasPrefix(prefix) }) else { return nil }
            return String(line.dropFirst(prefix.count).drop { $0 == " " })
        }

        /// Returns the first value of the field `name`, without regard to case, as received.
        package func octets(_ name: String) -> [UInt8]? {
            let prefix = Array((name.lowercased() + ":").utf8)
            let line = head.split { $0 == 13 || $0 == 10 }.first { line in
                line.prefix(prefix.count).map { (65...90).contains($0) ? $0 | 0x20 : $0 } == prefix
            }
            return line.map { Array($0.dropFirst(prefix.count).drop { $0 == 0x20 }) }
        }
    }

    private struct State {
        var requests: [Request] = []
        var open: [Int32: Thread] = [:]
        var finished: [Thread] = []
        var connectionCount = 0
        var isStopped = false
    }

    package let port: UInt16
    private let listener: Int32
    private let state = Mutex(State())
    private let acceptor = Mutex<Thread?>(nil)

    private let server: SecureServer?

    package var url: String { "\(server == nil ? "http" : "https")://127.0.0.1:\(port)" }
    /// All requests whose head has been read, in order.
    package var requests: [Request] { state.withLock { $0.requests } }
    package var connectionCount: Int { state.withLock { $0.connectionCount } }

    /// Starts listening, on a free port unless one is given. Closes a connection when the script returns.
    /// Speaks TLS if there is an `identity`.
    package init(
        port wanted: UInt16 = 0, as identity: TestAuthority.Identity? = nil,
        _ script: @escaping @Sendable (OriginConnection) -> Void
    ) throws {
        server = try identity.map { try SecureServer($0) }
        (listener, port) =
            wanted == 0
            ? try FreePort.listen(backlog: 4_096) : (try FreePort.listen(wanted, backlog: 4_096), wanted)
        let thread = Thread(name: "origin") { [self] in acceptAll(script) }
        acceptor.withLock { $0 = thread }
    }

    /// Answers all requests on all connections with the complete response that `answer` returns. Speaks TLS
    /// if there is an `identity`.
    package static func answering(
        as identity: TestAuthority.Identity? = nil,
        _ answer: @escaping @Sendable (Request, _ body: [UInt8]) -> [UInt8]
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin(as: identity) { connection in
            while let request = connection.readRequest() {
                if request.header("expect") != nil { connection.send("HTTP/1.1 100 Continue\r\n\r\n") }
                let body = connection.readBody(of: request)
                guard connection.send(answer(request, body)) else { return }
            }
        }
    }

    /// Closes all sockets and waits for the threads. Calling it again does nothing.
    package func stop() {
        // Closed under the lock: after closing, the descriptor number may belong to another socket.
        let isFirst = state.withLock { state in
            guard !state.isStopped else { return false }
            state.isStopped = true
            for descriptor in state.open.keys { shutdown(descriptor, Int32(SHUT_RDWR)) }
            return true
        }
        guard isFirst else { return }
        shutdown(listener, Int32(SHUT_RDWR))
        acceptor.withLock { $0.take() }?.join()
        close(listener)
        while let thread = state.withLock({ $0.open.popFirst()?.value ?? $0.finished.popLast() }) {
            thread.join()
        }
    }

    private func acceptAll(_ script: @escaping @Sendable (OriginConnection) -> Void) {
        while true {
            let descriptor = accept(listener, nil, nil)
            guard descriptor >= 0 else {
                let code = errno
                if code == ECONNABORTED || code == EINTR { continue }
                // Out of descriptors: wait until others are closed; clients wait meanwhile.
                guard code == EMFILE || code == ENFILE, !state.withLock({ $0.isStopped }) else { return }
                poll(nil, 0, 10)
                continue
            }
            _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
            // TCP_NODELAY: a reset would lose bytes that the kernel still buffers.
            var yes: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_TCP), 1, &yes, socklen_t(MemoryLayout<Int32>.size))
            let isStopped = state.withLock { state in
                guard !state.isStopped else { return true }
                state.connectionCount += 1
                state.open[descriptor] = Thread(name: "origin-peer", stackSize: 256 << 10) { [self] in
                    let session = server.map { SecureSession($0, descriptor) }
                    let connection = OriginConnection(
                        descriptor: descriptor, origin: self, session: session ?? nil)
                    // Clients that fail the handshake run no script.
                    if session == nil || session ?? nil != nil { script(connection) }
                    leave(descriptor, isReset: connection.isReset)
                }
                return false
            }
            if isStopped { close(descriptor) }
        }
    }

    private func leave(_ descriptor: Int32, isReset: Bool) {
        state.withLock { state in
            if let thread = state.open.removeValue(forKey: descriptor) { state.finished.append(thread) }
            // Works even if a forked child still holds the socket before its exec.
            if !isReset { shutdown(descriptor, Int32(SHUT_WR)) }
            close(descriptor)
        }
    }

    fileprivate func note(_ request: Request) { state.withLock { $0.requests.append(request) } }
}

/// A connection of a `ScriptedOrigin`. Used only by the thread of its script.
package final class OriginConnection {
    private let descriptor: Int32
    private let origin: ScriptedOrigin
    private let session: SecureSession?
    private var buffer: [UInt8] = []
    fileprivate private(set) var isReset = false

    fileprivate init(descriptor: Int32, origin: ScriptedOrigin, session: SecureSession?) {
        self.descriptor = descriptor
        self.origin = origin
        self.session = session
    }

    /// Reads the head of a request. `nil` if the client has closed the connection.
    package func readRequest() -> ScriptedOrigin.Request? {
        while true {
            if let end = headEnd() {
                let octets = Array(buffer[..<end])
                let head = String(decoding: octets, as: UTF8.self)
                buffer.removeFirst(end + 4)
                let request = ScriptedOrigin.Request(
                    lines: head.split(separator: "\r\n", omittingEmptySubsequences: true).map(String.init),
                    head: octets)
                origin.note(request)
                return request
            }
            guard readMore() else { return nil }
        }
    }

    private func headEnd() -> Int? {
        guard buffer.count >= 4 else { return nil }
        return (0...(buffer.count - 4)).first { buffer[$0..<($0 + 4)].elementsEqual([13, 10, 13, 10]) }
    }

    /// Reads a body with `Content-Length` or chunked coding, or the part received before the client left.
    package func readBody(of request: ScriptedOrigin.Request) -> [UInt8] {
        if request.header("transfer-encoding")?.lowercased() == "chunked" { return readChunks() }
        return read(request.header("content-length").flatMap { Int($0) } ?? 0)
    }

    /// Reads this number of bytes, or fewer if the client leaves.
    package func read(_ count: Int) -> [UInt8] {
        while buffer.count < count, readMore() {}
        defer { buffer.removeFirst(min(count, buffer.count)) }
        return Array(buffer.prefix(count))
    }

    private func readChunks() -> [UInt8] {
        var body: [UInt8] = []
        while true {
            var line: [UInt8] = []
            while !line.hasSuffix([13, 10]) {
                let byte = read(1)
                if byte.isEmpty { return body }
                line += byte
            }
            let size = Int(String(decoding: line.dropLast(2), as: UTF8.self), radix: 16) ?? 0
            body += read(size)
            _ = read(2)
            if size == 0 { return body }
        }
    }

    private func readMore() -> Bool {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = bytes.withUnsafeMutableBytes {
            session?.receive($0) ?? recv(descriptor, $0.baseAddress, $0.count, 0)
        }
        guard count > 0 else { return false }
        buffer.append(contentsOf: bytes[..<count])
        return true
    }

    /// Sends all bytes. Returns `false` if the client has left.
    @discardableResult
    package func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    @discardableResult
    package func send(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                session?.send($0) ?? Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Waits until the client has closed or reset the connection. Returns `false` after the timeout.
    package func waitUntilClosed(milliseconds: Int32 = 600_000) -> Bool {
        let end = monotonicNanoseconds() + Int64(milliseconds) * 1_000_000
        while monotonicNanoseconds() < end {
            var descriptors = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&descriptors, 1, 50) > 0 else { continue }
            if !readMore() { return true }
        }
        return false
    }

    /// `true` if the client has closed or reset the connection and all its bytes were read.
    package var isClosed: Bool {
        var byte: UInt8 = 0
        let count = recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT))
        return count == 0 || count < 0 && errno != EAGAIN
    }

    /// Sends close_notify on a TLS connection.
    package func sayGoodbye() { session?.sayGoodbye() }

    /// Ends the connection with a reset instead of an orderly close.
    package func reset() {
        isReset = true
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        shutdown(descriptor, Int32(SHUT_RD))
    }
}

extension [UInt8] {
    fileprivate func hasSuffix(_ suffix: [UInt8]) -> Bool {
        count >= suffix.count && Array(self.suffix(suffix.count)) == suffix
    }
}
