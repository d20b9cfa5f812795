import FerryCore
import Glibc
import Synchronization
import Sys
import TestSupport

/// Client of an event stream, on its own socket. Uses HTTP/1.0, where the end of the connection ends the
/// stream and no chunked coding is needed.
final class EventListener: Sendable {
    struct Message: Sendable {
        var id: String?
        var event: String?
        var data: JSON = .null
    }

    /// Head of the response.
    let head = Signal<String>()
    let messages = Signal<Message>()
    /// Fires when the server has ended the stream.
    let ended = Signal<Void>()
    private let descriptor: Int32
    private let thread: Mutex<Thread?>
    /// Events that have arrived and that no call of `events` has returned.
    private let unread = Mutex<[Message]>([])

    /// `stopsSending`: closes the client's sending side after the request.
    init(
        _ ferry: FerryProcess, _ path: String, after lastEventID: String? = nil, stopsSending: Bool = false,
        key: String = adminKey
    ) throws {
        descriptor = try Self.connected(to: ferry.port)
        var request = "GET \(path) HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer \(key)\r\n"
        request += "Accept: text/event-stream\r\n"
        if let lastEventID { request += "Last-Event-ID: \(lastEventID)\r\n" }
        let bytes = Array("\(request)\r\n".utf8)
        guard Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw SystemError("send")
        }
        if stopsSending { shutdown(descriptor, Int32(SHUT_WR)) }
        let (head, messages, ended) = (head, messages, ended)
        let started = Thread(name: "listener") { [descriptor] in
            Self.read(descriptor, head, messages)
            ended.fire(())
        }
        thread = Mutex(started)
    }

    /// Returns a socket that is connected to a loopback port.
    static func connected(to port: UInt16, receiveBuffer: Int32? = nil) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        if var size = receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard descriptor >= 0, isConnected == 0 else { throw SystemError("connect") }
        return descriptor
    }

    private static func read(_ descriptor: Int32, _ head: Signal<String>, _ messages: Signal<Message>) {
        var text: [UInt8] = []
        var isInBody = false
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            text.append(contentsOf: buffer[..<count])
            while let end = end(of: isInBody ? "\n\n" : "\r\n\r\n", in: text) {
                let part = String(decoding: text[..<end], as: UTF8.self)
                text.removeFirst(end)
                if isInBody { messages.fire(message(part)) } else { head.fire(part) }
                isInBody = true
            }
        }
    }

    private static func end(of mark: String, in text: [UInt8]) -> Int? {
        let mark = Array(mark.utf8)
        guard text.count >= mark.count else { return nil }
        for start in 0...(text.count - mark.count)
        where text[start..<(start + mark.count)].elementsEqual(mark) {
            return start + mark.count
        }
        return nil
    }

    private static func message(_ part: String) -> Message {
        var message = Message()
        for line in part.split(separator: "\n") {
            if line.hasPrefix("id: ") { message.id = String(line.dropFirst(4)) }
            if line.hasPrefix("event: ") { message.event = String(line.dropFirst(7)) }
            if line.hasPrefix("data: ") {
                message.data = (try? JSON.parse(Array(line.utf8.dropFirst(6)))) ?? .null
            }
        }
        return message
    }

    /// Returns the next `count` events of the event log, without comments and progress; fewer, if `seconds`
    /// pass first. Later events stay for the next call.
    func events(_ count: Int, seconds: Double = 120) -> [Message] {
        unread.withLock { unread in
            let deadline = Sys.monotonicNanoseconds() + Int64(seconds * 1e9)
            while unread.count < count, Sys.monotonicNanoseconds() < deadline {
                unread += messages.wait(seconds: 1).filter { $0.id != nil && $0.event != nil }
            }
            defer { unread.removeFirst(min(count, unread.count)) }
            return Array(unread.prefix(count))
        }
    }

    /// Closes the connection. Idempotent: after the first call, the descriptor number may belong to another
    /// socket.
    func stop() {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        shutdown(descriptor, Int32(SHUT_RDWR))
        thread.join()
        close(descriptor)
    }
}
