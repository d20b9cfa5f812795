import Glibc
import Synchronization
import TestSupport

/// An origin of one file with an entity tag. The test sets the offset up to which bytes are sent.
final class MeteredOrigin: Sendable {
    static let byteCount = 20_000_000
    static let bytes = patternBytes(byteCount, seed: 77)

    private final class Meter: Sendable {
        private let allowed = Atomic(0)
        private let sent = Atomic(0)
        private let isStopped = Atomic(false)

        var sentByteCount: Int { sent.load(ordering: .relaxed) }
        func allow(upTo count: Int) { allowed.store(count, ordering: .relaxed) }
        func stop() { isStopped.store(true, ordering: .relaxed) }
        func count(_ more: Int) { sent.add(more, ordering: .relaxed) }

        /// Waits until the limit is beyond `offset` and returns it, or `nil` if the test has ended.
        func limit(beyond offset: Int) -> Int? {
            while !isStopped.load(ordering: .relaxed) {
                let limit = allowed.load(ordering: .relaxed)
                if limit > offset { return limit }
                poll(nil, 0, 1)
            }
            return nil
        }
    }

    private let origin: ScriptedOrigin
    private let meter: Meter

    var url: String { origin.url }
    /// Sum of the body bytes of all responses.
    var sentByteCount: Int { meter.sentByteCount }
    var ranges: [String?] { origin.requests.map { $0.header("range") } }

    init(upTo count: Int) throws {
        let meter = Meter()
        meter.allow(upTo: count)
        self.meter = meter
        origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let range = request.header("range").flatMap { Int($0.dropFirst(6).dropLast()) }
                let isSame = request.header("if-range").map { $0 == #""77""# } ?? true
                guard Self.respond(connection, isSame ? range : nil, meter) else { return }
            }
        }
    }

    /// Sets the offset in the file up to which bytes are sent.
    func allow(upTo count: Int) { meter.allow(upTo: count) }

    func stop() {
        meter.stop()
        origin.stop()
    }

    private static func respond(_ connection: OriginConnection, _ range: Int?, _ meter: Meter) -> Bool {
        var offset = range ?? 0
        let head =
            range == nil
            ? "HTTP/1.1 200 OK\r\n"
            : "HTTP/1.1 206 Partial\r\nContent-Range: bytes \(offset)-\(byteCount - 1)/\(byteCount)\r\n"
        let length = "Content-Length: \(byteCount - offset)\r\nETag: \"77\"\r\n\r\n"
        guard connection.send(head + length) else { return false }
        while offset < byteCount {
            guard let limit = meter.limit(beyond: offset) else { return false }
            let end = min(limit, offset + 65_536)
            guard !connection.isClosed, connection.send(Array(bytes[offset..<end])) else { return false }
            meter.count(end - offset)
            offset = end
        }
        return true
    }
}
