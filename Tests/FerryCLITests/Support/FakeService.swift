import ArgumentParser
import FerryCLI
import Glibc
import Synchronization
import Sys

/// A fake service on a free port of 127.0.0.1. A function answers one request per connection.
final class FakeService: Sendable {
    struct Request: Sendable {
        let method: String
        let path: String
        let head: String
        var body: String

        func header(_ name: String) -> String? {
            for line in head.split(separator: "\r\n").dropFirst() {
                let parts = line.split(separator: ":", maxSplits: 1)
                if parts.count == 2, parts[0].lowercased() == name {
                    return String(parts[1].drop { $0 == " " })
                }
            }
            return nil
        }
    }

    /// Response of the service.
    struct Answer: Sendable {
        /// 0 to close the connection without a response.
        var status: Int
        var body = ""
        /// Lines of the head.
        var fields: [String] = []
    }

    let port: UInt16
    let requests = Mailbox<Request>()
    private let listener: Int32
    private let thread: Mutex<Thread?> = Mutex(nil)

    convenience init(_ answer: @escaping @Sendable (Request) -> (status: Int, body: String)) throws {
        try self.init(answering: { request in
            let (status, body) = answer(request)
            return Answer(status: status, body: body)
        })
    }

    init(answering answer: @escaping @Sendable (Request) -> Answer) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let (code, port) = bindToLoopback(listener)
        guard code == 0, listen(listener, 64) == 0 else { throw SystemError("bind") }
        self.listener = listener
        self.port = port
        let started = Thread(name: "fake-service") { [self] in
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { return }
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
                if let request = Self.read(descriptor) {
                    requests.send(request)
                    let answer = answer(request)
                    let (status, body) = (answer.status, answer.body)
                    let isStream = ["event:", "id:", ":"].contains { body.hasPrefix($0) }
                    let type =
                        isStream
                        ? "text/event-stream"
                        : status < 400 ? "application/json" : "application/problem+json"
                    let text =
                        "HTTP/1.1 \(status) X\r\nContent-Type: \(type)\r\n"
                        + "Content-Length: \(body.utf8.count)\r\n"
                        + answer.fields.map { "\($0)\r\n" }.joined()
                        + "Connection: close\r\n\r\n\(request.method == "HEAD" ? "" : body)"
                    _ = Array(status == 0 ? "".utf8 : text.utf8).withUnsafeBytes {
                        send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                    }
                }
                close(descriptor)
            }
        }
        thread.withLock { $0 = started }
    }

    var url: String { "http://127.0.0.1:\(port)" }

    private static func read(_ descriptor: Int32) -> Request? {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            bytes += buffer[..<count]
            guard let end = bytes.indices.first(where: { bytes[$0...].starts(with: "\r\n\r\n".utf8) }) else {
                continue
            }
            let head = String(decoding: bytes[..<end], as: UTF8.self)
            let words = head.split(separator: "\r\n")[0].split(separator: " ")
            let body = bytes[(end + 4)...]
            var request = Request(
                method: String(words[0]), path: String(words[1]), head: head, body: "")
            if body.count >= request.header("content-length").flatMap({ Int($0) }) ?? 0 {
                request.body = String(decoding: body, as: UTF8.self)
                return request
            }
            if request.header("expect") != nil, body.isEmpty {
                _ = Array("HTTP/1.1 100 Continue\r\n\r\n".utf8).withUnsafeBytes {
                    send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
            }
        }
    }

    /// Stops the service. Idempotent: after the first call, the listener's descriptor number may belong to
    /// another socket.
    func stop() {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        shutdown(listener, Int32(SHUT_RDWR))
        thread.join()
        close(listener)
    }
}

/// A port of 127.0.0.1 without a listener, reserved as long as the object lives.
final class ClosedPort {
    private let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    let url: String

    init() throws {
        let (code, port) = bindToLoopback(descriptor)
        guard code == 0 else { throw SystemError("bind") }
        url = "http://127.0.0.1:\(port)"
    }

    deinit { close(descriptor) }
}

/// Binds a socket to a free port of 127.0.0.1. Returns the port and 0, or -1 with errno.
private func bindToLoopback(_ descriptor: Int32) -> (code: Int32, port: UInt16) {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            bind(descriptor, $0, length) | getsockname(descriptor, $0, &length)
        }
    }
    return (code, UInt16(bigEndian: address.sin_port))
}

/// Output and exit status of a command.
struct Run {
    let out: String
    let err: String
    let status: Int32
}

private final class Capture: Sendable {
    let out = Mutex<[UInt8]>([])
    let err = Mutex("")
}

/// Runs a command in this process, as `ferry` would, with its own console.
func run<Command: ParsableCommand>(
    _ type: Command.Type, _ arguments: [String], isTerminal: Bool = false, answer: String? = nil,
    secret: String? = nil
) -> Run {
    let capture = Capture()
    var console = Console(
        out: { bytes in
            capture.out.withLock { $0 += bytes }
            return true
        }, err: { text in capture.err.withLock { $0 += text } }, isTerminal: isTerminal)
    console.allowsColor = false
    console.answer = { answer }
    console.secret = { secret }
    var status: Int32 = 0
    Console.$current.withValue(console) {
        do {
            var command = try Command.parseAsRoot(arguments)
            try command.run()
        } catch {
            status = exitStatus(for: error)
            console.message(Command.fullMessage(for: error))
        }
    }
    return Run(
        out: capture.out.withLock { String(decoding: $0, as: UTF8.self) }, err: capture.err.withLock { $0 },
        status: status)
}

/// Runs `body` with a directory that is removed with its contents afterwards.
func withTemporaryDirectory(_ body: (String) throws -> Void) throws {
    var template = Array("/tmp/ferry-cli-XXXXXX".utf8CString)
    guard let raw = mkdtemp(&template) else { throw SystemError("mkdtemp") }
    let path = String(cString: raw)
    defer {
        for name in directoryNames(path) { unlink("\(path)/\(name)") }
        rmdir(path)
    }
    try body(path)
}

func contents(_ path: String) -> String? {
    guard let file = fopen(path, "r") else { return nil }
    defer { fclose(file) }
    var buffer = [UInt8](repeating: 0, count: 1 << 20)
    let count = fread(&buffer, 1, buffer.count, file)
    return String(decoding: buffer[..<count], as: UTF8.self)
}

func write(_ text: String, to path: String) {
    guard let file = fopen(path, "w") else { return }
    fputs(text, file)
    fclose(file)
}
