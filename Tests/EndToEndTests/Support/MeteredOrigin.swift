import Glibc
import Synchronization
import TestSupport

/// A file with an entity tag that is sent only as far as the test lets it; counts what it has sent.
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

        /// Up to where a byte may be sent, once that is beyond `place`; nil when the test is over.
        func limit(beyond place: Int) -> Int? {
            while !isStopped.load(ordering: .relaxed) {
                let limit = allowed.load(ordering: .relaxed)
                if limit > place { return limit }
                poll(nil, 0, 1)
            }
            return nil
        }
    }

    private let origin: ScriptedOrigin
    private let meter: Meter

    var url: String { origin.url }
    /// Body bytes of all answers together.
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
                guard Self.answer(connection, isSame ? range : nil, meter) else { return }
            }
        }
    }

    /// Sends no byte beyond this place of the file until it is moved.
    func allow(upTo count: Int) { meter.allow(upTo: count) }

    func stop() {
        meter.stop()
        origin.stop()
    }

    private static func answer(_ connection: OriginConnection, _ range: Int?, _ meter: Meter) -> Bool {
        var place = range ?? 0
        let head =
            range == nil
            ? "HTTP/1.1 200 OK\r\n"
            : "HTTP/1.1 206 Partial\r\nContent-Range: bytes \(place)-\(byteCount - 1)/\(byteCount)\r\n"
        let length = "Content-Length: \(byteCount - place)\r\nETag: \"77\"\r\n\r\n"
        guard connection.send(head + length) else { return false }
        while place < byteCount {
            guard let limit = meter.limit(beyond: place) else { return false }
            let end = min(limit, place + 65_536)
            guard !connection.isClosed, connection.send(Array(bytes[place..<end])) else { return false }
            meter.count(end - place)
            place = end
        }
        return true
    }
}
