import Glibc
import Synchronization
import Sys
import TestSupport

/// A server that parses requests strictly (RFC 9112) and records what a proxy forwards.
final class StrictUpstream: Sendable {
    enum Arrival: Sendable, Equatable {
        /// A complete, well-formed request.
        case request
        /// A well-formed head of HTTP/1.1 without `Host`.
        case withoutHost
        /// Bytes that are not a request, with the reason.
        case malformed(String)
    }
    let port: UInt16
    private let listener: Int32
    private let arrivals = Mutex<[Arrival]>([])
    private let open = Mutex(0)
    private let thread = Mutex<Thread?>(nil)

    init() throws {
        (listener, port) = try FreePort.listen(backlog: 64)
        thread.withLock {
            $0 = Thread(name: "upstream") { [self] in
                while case let connection = accept(listener, nil, nil), connection >= 0 { serve(connection) }
            }
        }
    }

    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        thread.withLock { $0.take() }?.join()
        close(listener)
    }

    /// Returns what has arrived since the last call. Waits until the earlier connections have ended.
    func take() -> [Arrival] {
        _ = eventually { open.withLock { $0 == 0 } }
        return arrivals.withLock { arrivals in
            defer { arrivals = [] }
            return arrivals
        }
    }

    /// Serves one request per connection. Later bytes are not another request.
    private func serve(_ connection: Int32) {
        open.withLock { $0 += 1 }
        defer {
            close(connection)
            open.withLock { $0 -= 1 }
        }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        var isAnswered = false
        while true {
            let count = read(connection, &chunk, chunk.count)
            guard count > 0 else { return }
            bytes += chunk[..<count]
            if isAnswered { return note(.malformed("bytes behind the request")) }
            guard let arrival = StrictRequest.judge(bytes) else { continue }
            note(arrival)
            isAnswered = true
            let status = arrival == .request ? "200 OK" : "400 Bad Request"
            let answer = "HTTP/1.1 \(status)\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            _ = send(connection, answer, answer.utf8.count, Int32(MSG_NOSIGNAL))
        }
    }

    private func note(_ arrival: Arrival) { arrivals.withLock { $0.append(arrival) } }
}

/// Grammar of a request.
private enum StrictRequest {
    /// Returns the result for these bytes, or `nil` if the request is incomplete.
    static func judge(_ bytes: [UInt8]) -> StrictUpstream.Arrival? {
        guard
            let end = (0..<max(bytes.count - 3, 0)).first(where: {
                bytes[$0...].starts(with: [13, 10, 13, 10])
            })
        else { return nil }
        var lines: [[UInt8]] = [[]]
        for (index, byte) in bytes[..<end].enumerated() {
            if byte == 10, index > 0, bytes[index - 1] == 13 {
                lines[lines.count - 1].removeLast()
                lines.append([])
            } else {
                lines[lines.count - 1].append(byte)
            }
        }
        let texts = lines.map { String(decoding: $0, as: UTF8.self) }
        for (line, text) in zip(lines, texts) where line.contains(where: { $0 < 32 && $0 != 9 || $0 == 127 })
        {
            return .malformed("a control character: \(text.debugDescription)")
        }
        guard texts[0].wholeMatch(of: /[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [^ \t]+ HTTP\/1\.[01]/) != nil else {
            return .malformed("the request line: \(texts[0])")
        }
        var fields: [String: [String]] = [:]
        for text in texts.dropFirst() {
            guard let match = text.wholeMatch(of: /([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*/) else {
                return .malformed("a field: \(text)")
            }
            fields[match.1.lowercased(), default: []].append(String(match.2))
        }
        return judge(fields, body: Array(bytes[(end + 4)...]))
    }

    private static func judge(_ fields: [String: [String]], body: [UInt8]) -> StrictUpstream.Arrival? {
        let (lengths, codings) = (fields["content-length"] ?? [], fields["transfer-encoding"] ?? [])
        if lengths.count + codings.count > 1 { return .malformed("two framings") }
        if fields["host", default: []].count > 1 { return .malformed("two hosts") }
        let whole: StrictUpstream.Arrival = fields["host"] == nil ? .withoutHost : .request
        if let length = lengths.first {
            guard length.wholeMatch(of: /[0-9]+/) != nil, let length = Int(length) else {
                return .malformed("a length: \(length)")
            }
            if body.count > length { return .malformed("bytes behind the request") }
            return body.count == length ? whole : nil
        }
        if let coding = codings.first {
            guard coding == "chunked" else { return .malformed("a coding: \(coding)") }
            let text = String(decoding: body, as: UTF8.self)
            return text.hasSuffix("\r\n0\r\n\r\n") || text == "0\r\n\r\n" ? whole : nil
        }
        return body.isEmpty ? whole : .malformed("bytes behind the request")
    }
}
