import Glibc
import HTTPServer
import Synchronization
import Sys
import Testing

/// A handler made of closures. Records the requests that have ended.
final class ScriptedHandler: RequestHandler {
    struct Ended: Sendable {
        let path: String
        let status: Int?
    }
    private let planning: @Sendable (RequestHead) -> BodyPlan
    private let handling: @Sendable (Request, Responder) -> Void
    let ended = Mutex<[Ended]>([])

    init(
        handle: @escaping @Sendable (Request, Responder) -> Void = { request, responder in
            responder.send(Response(status: 200, body: .bytes(request.body)))
        },
        plan: @escaping @Sendable (RequestHead) -> BodyPlan = { _ in .collect(limit: 65_536) }
    ) {
        planning = plan
        handling = handle
    }

    func plan(_ head: RequestHead) -> BodyPlan { planning(head) }
    func handle(_ request: Request, _ responder: Responder) { handling(request, responder) }
    func refusal(_ code: RefusalCode, _ detail: String, _ requestID: String) -> Response {
        Response(
            status: code.status, fields: HTTPFields([("Content-Type", "application/problem+json")]),
            body: .bytes(Array("{\"code\":\"\(code.rawValue)\",\"request_id\":\"\(requestID)\"}".utf8)))
    }
    func completed(_ head: RequestHead, status: Int?, durationNanoseconds: Int64) {
        ended.withLock { $0.append(Ended(path: head.path, status: status)) }
    }
}

/// Runs a server on a free port of 127.0.0.1 for the duration of a closure.
func serving(
    _ handler: any RequestHandler, limits: ServerLimits = ServerLimits(), _ body: (Server) throws -> Void
) throws {
    let server = try Server(address: "127.0.0.1", port: 0, limits: limits, handler: handler)
    try server.start()
    defer { server.stop() }
    try body(server)
}

/// Returns `true` if the condition becomes true within two minutes.
func eventually(_ condition: () -> Bool) -> Bool {
    let deadline = monotonicNanoseconds() + 120_000_000_000
    while !condition() {
        if monotonicNanoseconds() > deadline { return false }
        _ = poll(nil, 0, 1)
    }
    return true
}

/// Returns a descriptor of a file without a name that contains these bytes.
func temporaryFile(_ bytes: [UInt8]) -> Int32 {
    var template = Array("/tmp/ferry-http-XXXXXX".utf8CString)
    let descriptor = mkstemp(&template)
    unlink(template)
    var written = 0
    while written < bytes.count {
        let count = bytes[written...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        guard count > 0 else { break }
        written += count
    }
    return descriptor
}

struct ClientError: Error {
    let what: String
    init(_ what: String) { self.what = what }
}

struct ClientResponse {
    var status: Int
    var fields: HTTPFields
    var body: [UInt8]
    var text: String { String(decoding: body, as: UTF8.self) }
}

func connected(to port: UInt16, receiveBuffer: Int32? = nil) throws -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
    if var size = receiveBuffer {
        setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
    }
    var timeout = timeval(tv_sec: 120, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    let result = withUnsafePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
        }
    }
    guard result == 0 else {
        close(descriptor)
        throw ClientError("connect: \(errno)")
    }
    return descriptor
}

/// A client's socket and its received bytes. Every wait ends after two minutes.
final class Client {
    let descriptor: Int32
    private var buffer: [UInt8] = []
    private var isAtEnd = false

    init(_ port: UInt16, receiveBuffer: Int32? = nil) throws {
        descriptor = try connected(to: port, receiveBuffer: receiveBuffer)
    }

    convenience init(_ server: Server) throws { try self.init(server.port) }

    deinit { close(descriptor) }

    func send(_ text: String) throws { try send(Array(text.utf8)) }

    func send(_ bytes: [UInt8]) throws {
        var position = 0
        while position < bytes.count {
            let count = bytes[position...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { throw ClientError("send: \(errno)") }
            position += count
        }
    }

    func get(_ target: String, _ more: String = "") throws -> ClientResponse {
        try send("GET \(target) HTTP/1.1\r\nHost: a\r\n\(more)\r\n")
        return try response()
    }

    /// Closes only the sending side.
    func stopSending() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Resets the connection instead of closing it.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Returns `true` if nothing arrives within the time.
    func isSilent(milliseconds: Int32) -> Bool {
        var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return buffer.isEmpty && poll(&state, 1, milliseconds) == 0
    }

    private func fill() throws {
        var chunk = [UInt8](repeating: 0, count: 65_536)
        let count = read(descriptor, &chunk, chunk.count)
        if count < 0 { throw ClientError("read: \(errno)") }
        if count == 0 { isAtEnd = true }
        buffer += chunk[..<count]
    }

    private func line() throws -> String {
        while true {
            if let end = buffer.firstIndex(of: 10) {
                let line = String(decoding: buffer[..<end], as: UTF8.self)
                buffer.removeFirst(end + 1)
                return line.last == "\r" || line.last == "\r\n" ? String(line.dropLast()) : line
            }
            if isAtEnd { throw ClientError("the connection ended within a line: \(buffer.count) bytes") }
            try fill()
        }
    }

    func bytes(_ count: Int) throws -> [UInt8] {
        while buffer.count < count {
            if isAtEnd { throw ClientError("the connection ended after \(buffer.count) of \(count) bytes") }
            try fill()
        }
        defer { buffer.removeFirst(count) }
        return Array(buffer[..<count])
    }

    /// Returns all bytes until the peer closes.
    func rest() throws -> [UInt8] {
        while !isAtEnd { try fill() }
        defer { buffer = [] }
        return buffer
    }

    /// Returns `true` if the peer has closed and sent nothing more.
    func isClosed() -> Bool { (try? rest().isEmpty) ?? true }

    func head() throws -> ClientResponse {
        let status = try line().split(separator: " ")
        guard status.count > 1, status[0] == "HTTP/1.1", let code = Int(status[1]) else {
            throw ClientError("no status line: \(status)")
        }
        var fields = HTTPFields()
        while case let line = try line(), !line.isEmpty {
            let parts = line.split(separator: ":", maxSplits: 1)
            fields.append(String(parts[0]), String(parts[1].drop { $0 == " " }))
        }
        return ClientResponse(status: code, fields: fields, body: [])
    }

    func chunk() throws -> [UInt8] {
        let text = try line()
        guard let size = Int(text, radix: 16) else { throw ClientError("no chunk size: \(text)") }
        let bytes = try bytes(size)
        _ = try line()
        return bytes
    }

    func response(toHead: Bool = false) throws -> ClientResponse {
        var response = try head()
        if toHead || response.status < 200 || response.status == 204 || response.status == 304 {
            return response
        }
        if response.fields["Transfer-Encoding"] == "chunked" {
            while case let chunk = try chunk(), !chunk.isEmpty { response.body += chunk }
        } else if let length = response.fields["Content-Length"].flatMap({ Int($0) }) {
            response.body = try bytes(length)
        } else {
            response.body = try rest()
        }
        return response
    }
}
