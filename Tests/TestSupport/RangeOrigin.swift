import Glibc
import Synchronization

/// One file over HTTP with entity tag and ranges (RFC 9110 §14). Tests can change its responses.
package final class RangeOrigin: Sendable {
    package struct Answer: Sendable {
        package var status = 200
        package var headers: [String: String] = [:]
        package var body: ArraySlice<UInt8> = []
        /// Bytes of the body after which the connection is closed.
        package var cutAfter: Int?
        /// Microseconds of delay before each 16 KiB of the body.
        package var pause: UInt32 = 0
        /// Called when this number of body bytes has been sent.
        package var halfway: (after: Int, body: @Sendable () -> Void)?
        /// Called before the head is sent.
        package var beforeHead: (@Sendable () -> Void)?
        /// Called when the client has closed the connection, before or after the end of the body.
        package var whenClosed: (@Sendable () -> Void)?
    }

    /// The requested range and conditions.
    package struct Asked: Sendable {
        /// `nil` for the whole file. An open end is that of the file.
        package let range: Range<Int>?
        package let ifRange: String?
        package let authorization: String?
        /// The range for a server without support for `If-Range`.
        package var unconditional: Asked { Asked(range: range, ifRange: nil, authorization: authorization) }
    }

    private final class Record: Sendable {
        let asked = Mutex<[Asked]>([])
        let sent = Atomic<Int>(0)
    }

    private let origin: ScriptedOrigin
    private let record: Record

    package var url: String { origin.url + "/file" }
    package var port: UInt16 { origin.port }
    package var requests: [Asked] { record.asked.withLock { $0 } }
    package var connectionCount: Int { origin.connectionCount }
    /// Bytes of bodies passed to the kernel.
    package var sentByteCount: Int { record.sent.load(ordering: .relaxed) }

    /// `change` gets the correct response, the request, and the number of earlier requests.
    package init(
        _ bytes: [UInt8], tag: String? = "\"one\"",
        _ change: @escaping @Sendable (inout Answer, Asked, Int) -> Void = { _, _, _ in }
    ) throws {
        let record = Record()
        self.record = record
        origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let asked = Asked(
                    range: Self.range(request.header("range"), bytes.count),
                    ifRange: request.header("if-range"), authorization: request.header("authorization"))
                let number = record.asked.withLock {
                    $0.append(asked)
                    return $0.count - 1
                }
                var answer = Self.proper(bytes, tag, asked)
                change(&answer, asked, number)
                guard Self.send(answer, connection, record) else { return }
            }
        }
    }

    package func stop() { origin.stop() }

    /// Parses `bytes=5-9` or `bytes=5-`; `nil` for other text.
    private static func range(_ text: String?, _ count: Int) -> Range<Int>? {
        guard let text, text.hasPrefix("bytes=") else { return nil }
        let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Int(ends[0]), first < count else { return nil }
        let last = ends[1].isEmpty ? count - 1 : min(Int(ends[1]) ?? 0, count - 1)
        return first <= last ? first..<(last + 1) : nil
    }

    /// Returns the correct response.
    package static func proper(_ bytes: [UInt8], _ tag: String?, _ asked: Asked) -> Answer {
        var answer = Answer()
        answer.headers = ["Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"]
        answer.headers["ETag"] = tag
        if let range = asked.range?.clamped(to: 0..<bytes.count), !range.isEmpty,
            asked.ifRange == nil || asked.ifRange == tag
        {
            answer.status = 206
            answer.headers["Content-Range"] =
                "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(bytes.count)"
            answer.body = bytes[range]
        } else {
            answer.body = bytes[...]
        }
        return answer
    }

    /// Returns the correct response for the whole request.
    package static func answer(to request: ScriptedOrigin.Request, _ bytes: [UInt8]) -> [UInt8] {
        let asked = Asked(
            range: range(request.header("range"), bytes.count), ifRange: request.header("if-range"),
            authorization: nil)
        let answer = proper(bytes, "\"one\"", asked)
        return Array(head(answer).utf8) + answer.body
    }

    private static func head(_ answer: Answer) -> String {
        var head = "HTTP/1.1 \(answer.status) X\r\n"
        for (name, value) in answer.headers { head += "\(name): \(value)\r\n" }
        if answer.headers["Transfer-Encoding"] == nil, answer.headers["Content-Length"] == nil {
            head += "Content-Length: \(answer.body.count)\r\n"
        }
        return head + "\r\n"
    }

    /// `true` if the connection may be reused.
    private static func send(_ answer: Answer, _ connection: OriginConnection, _ record: Record) -> Bool {
        answer.beforeHead?()
        guard connection.send(head(answer)) else { return false }
        if let whenClosed = answer.whenClosed {
            _ = sendBody(answer, connection, record)
            if connection.waitUntilClosed() { whenClosed() }
            return false
        }
        return sendBody(answer, connection, record)
    }

    private static func sendBody(_ answer: Answer, _ connection: OriginConnection, _ record: Record) -> Bool {
        let isChunked = answer.headers["Transfer-Encoding"] != nil
        var halfway = answer.halfway
        var rest = answer.body
        var sent = 0
        while !rest.isEmpty {
            let next = Array(rest.prefix(min(16_384, max(1, (answer.cutAfter ?? .max) - sent))))
            if let point = halfway, sent + next.count > point.after {
                halfway = nil
                point.body()
            }
            if answer.pause > 0 { usleep(answer.pause) }
            if let most = answer.cutAfter, sent >= most { return false }
            let framed =
                isChunked ? Array("\(String(next.count, radix: 16))\r\n".utf8) + next + [13, 10] : next
            guard connection.send(framed) else { return false }
            sent += next.count
            record.sent.wrappingAdd(next.count, ordering: .relaxed)
            rest = rest.dropFirst(next.count)
        }
        if isChunked { return connection.send("0\r\n\r\n") }
        return answer.cutAfter == nil
    }
}
