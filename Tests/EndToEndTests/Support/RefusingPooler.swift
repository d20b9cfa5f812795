import Glibc
import Synchronization
import Sys
import TestSupport

/// Proxy between nodes and PostgreSQL that rejects `LISTEN`, like a pooler that shares its sessions, and
/// forwards all other messages.
final class RefusingPooler: Sendable {
    let url: String
    /// Fires once per rejected `LISTEN`.
    let refused = Signal<Void>()
    private let directory: String
    private let listener: Int32
    private let target: String
    private let open = Mutex<Set<Int32>>([])
    private let acceptor = Mutex<Thread?>(nil)

    /// `database` has a URI whose host is a socket directory.
    init(before database: TestDatabase) throws {
        directory = try TemporaryDirectory.make("pooler")
        let parts = database.url.split(separator: "host=", maxSplits: 1).map(String.init)
        guard parts.count == 2, let end = parts[1].firstIndex(of: "&") else {
            throw TestSupportError("no directory in \(database.url)")
        }
        target = parts[1][..<end] + "/.s.PGSQL.5432"
        url = parts[0] + "host=" + directory + parts[1][end...]
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let isBound = Self.withAddress(directory + "/.s.PGSQL.5432") { bind(listener, $0, $1) } == 0
        guard isBound, listen(listener, 64) == 0 else { throw SystemError("bind") }
        let thread = Thread(name: "pooler") { [self, listener, target] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                _ = fcntl(client, F_SETFD, FD_CLOEXEC)
                let server = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
                guard Self.withAddress(target, { connect(server, $0, $1) }) == 0 else {
                    close(client)
                    close(server)
                    continue
                }
                open.withLock { $0.formUnion([client, server]) }
                _ = Thread(name: "pooled") { self.pump(client, server) }
            }
        }
        acceptor.withLock { $0 = thread }
    }

    /// Stops the proxy. Idempotent: after the first call, the listener's descriptor number may belong to
    /// another socket.
    func stop() {
        guard let thread = acceptor.withLock({ $0.take() }) else { return }
        shutdown(listener, Int32(SHUT_RDWR))
        thread.join()
        close(listener)
        // Under the lock: after closing, the descriptor number may belong to another socket.
        open.withLock { for descriptor in $0 { shutdown(descriptor, Int32(SHUT_RDWR)) } }
        TemporaryDirectory.remove(directory)
    }

    private static func withAddress(
        _ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    private func pump(_ client: Int32, _ server: Int32) {
        var messages = Messages()
        while true {
            var ready = [
                pollfd(fd: client, events: Int16(POLLIN), revents: 0),
                pollfd(fd: server, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&ready, 2, -1) > 0 else { break }
            if ready[1].revents != 0 {
                guard let bytes = read(server), send(bytes, to: client) else { break }
            }
            guard ready[0].revents != 0 else { continue }
            guard let bytes = read(client) else { break }
            messages.pending += bytes
            var isOpen = true
            while isOpen, let message = messages.next() {
                if message.isListen {
                    isOpen = send(Messages.refusal, to: client)
                    refused.fire(())
                } else {
                    isOpen = send(message.bytes, to: server)
                }
            }
            guard isOpen else { break }
        }
        open.withLock { open in
            open.subtract([client, server])
            close(client)
            close(server)
        }
    }

    private func read(_ descriptor: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 65_536)
        let count = Glibc.read(descriptor, &bytes, bytes.count)
        return count > 0 ? Array(bytes[..<count]) : nil
    }

    private func send(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(
                    descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent,
                    Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }
}

/// Parser of a client's messages (PostgreSQL protocol 3.0, "Message Formats").
private struct Messages {
    struct Message {
        let bytes: [UInt8]
        let isListen: Bool
    }
    var pending: [UInt8] = []
    private var isStarted = false

    /// Returns the next complete message. The first message has no type byte.
    mutating func next() -> Message? {
        let start = isStarted ? 1 : 0
        guard pending.count >= start + 4 else { return nil }
        let length = pending[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }
        guard pending.count >= start + length else { return nil }
        let bytes = Array(pending[..<(start + length)])
        pending.removeFirst(bytes.count)
        defer { isStarted = true }
        let isQuery = isStarted && bytes[0] == UInt8(ascii: "Q")
        return Message(
            bytes: bytes,
            isListen: isQuery && String(decoding: bytes[5...], as: UTF8.self).hasPrefix("LISTEN"))
    }

    /// ErrorResponse and ReadyForQuery.
    static let refusal: [UInt8] = {
        let fields = Array("SERROR\0VERROR\0C0A000\0MLISTEN is refused here\0\0".utf8)
        let length = UInt32(fields.count + 4)
        let prefix = [UInt8(ascii: "E")] + (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) }
        return prefix + fields + [UInt8(ascii: "Z"), 0, 0, 0, 5, UInt8(ascii: "I")]
    }()
}
