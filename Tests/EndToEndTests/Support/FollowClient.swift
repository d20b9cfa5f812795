import FerryCore
import Glibc
import Sys
import TestSupport

/// A client that follows the content of a job, on its own socket. Reads only when a test asks for bytes.
final class FollowClient {
    /// Head of the response.
    let head: String
    /// Fields after the last chunk; `nil` until it has come.
    private(set) var trailers: String?
    private let descriptor: Int32
    private var received: [UInt8] = []
    private var body: [UInt8] = []
    /// Bytes of `received` that are decoded.
    private var position = 0

    /// Sends a request and reads the head of the response.
    init(
        _ ferry: FerryProcess, _ id: String, method: String = "GET", version: String = "1.1",
        _ fields: String = "", receiveBuffer: Int32? = nil, key: String = adminKey
    ) throws {
        descriptor = try EventListener.connected(to: ferry.port, receiveBuffer: receiveBuffer)
        var timeout = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        let request = Array(
            ("\(method) /v1/jobs/\(id)/content?follow=true HTTP/\(version)\r\nHost: localhost\r\n"
                + "Authorization: Bearer \(key)\r\n\(fields)\r\n").utf8)
        guard Glibc.send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            throw SystemError("send")
        }
        let mark = Array("\r\n\r\n".utf8)
        var bytes: [UInt8] = []
        var end: Int?
        while end == nil {
            guard Self.receive(descriptor, &bytes) else { throw TestSupportError("no response") }
            end = bytes.indices.dropLast(3).first { [bytes] in bytes[$0..<$0 + 4].elementsEqual(mark) }
        }
        received = bytes
        position = (end ?? 0) + 4
        head = String(decoding: received[..<position], as: UTF8.self)
    }

    deinit { close(descriptor) }

    var status: Int { head.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0 }

    /// Waits for `count` bytes of the body, from its start; returns fewer if the connection ends before.
    func bytes(_ count: Int) -> [UInt8] {
        while body.count < count, decode() || Self.receive(descriptor, &received) {}
        return Array(body.prefix(count))
    }

    /// Returns the whole body after the end of the response. It is complete if `trailers` is not `nil`.
    func rest() -> [UInt8] {
        while trailers == nil, decode() || Self.receive(descriptor, &received) {}
        return body
    }

    /// Whether nothing arrives within the time.
    func isSilent(milliseconds: Int32) -> Bool {
        var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return !decode() && poll(&state, 1, milliseconds) == 0
    }

    private static func receive(_ descriptor: Int32, _ received: inout [UInt8]) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count > 0 { received += buffer[..<count] }
        return count > 0
    }

    /// Decodes the next chunk (RFC 9112 §7.1). Returns `false` if it is not there yet.
    private func decode() -> Bool {
        guard trailers == nil, let line = line(at: position),
            let size = Int(String(decoding: received[position..<line], as: UTF8.self), radix: 16)
        else { return false }
        let start = line + 2
        if size == 0 {
            var end = start
            while let next = self.line(at: end) {
                guard next == end else {
                    end = next + 2
                    continue
                }
                trailers = String(decoding: received[start..<end], as: UTF8.self)
                return true
            }
            return false
        }
        guard received.count >= start + size + 2 else { return false }
        body += received[start..<start + size]
        position = start + size + 2
        return true
    }

    private func line(at start: Int) -> Int? {
        guard received.count > start + 1 else { return nil }
        return (start..<received.count - 1).first { received[$0] == 13 && received[$0 + 1] == 10 }
    }
}
