import Glibc
import Synchronization
import Sys
import TestSupport

/// An origin that sends one file, with entity tag and ranges, slowly, and records the maximum of concurrent
/// requests. Usable on any thread.
final class CountingOrigin: Sendable {
    static let bytes = patternBytes(8 << 20, seed: 5)

    private struct State {
        var active = 0
        var maximum = 0
        var total = 0
        /// New requests that are not yet counted in `maximum`. No body is sent meanwhile.
        var pending = 0
    }
    private final class RequestCounter: Sendable {
        let state = Mutex(State())
        let isStopped = Atomic<Bool>(false)
        /// Number of concurrent requests before which a response does not pass 64 KiB.
        let minimum: Int
        let limit: Int

        init(limit: Int, minimum: Int) {
            self.limit = limit
            self.minimum = minimum
        }

        private var isOver: Bool { state.withLock { $0.active > limit } }

        func begin() {
            state.withLock { state in
                state.active += 1
                state.total += 1
                state.pending += 1
            }
            // An aborted request leaves the count only when its thread notices the closed connection, so a
            // short excess is not an error.
            let end = monotonicNanoseconds() + 120_000_000_000
            while isOver, monotonicNanoseconds() < end, !isStopped.load(ordering: .relaxed) {
                poll(nil, 0, 1)
            }
            state.withLock { state in
                state.maximum = max(state.maximum, state.active)
                state.pending -= 1
            }
        }

        func end() { state.withLock { $0.active -= 1 } }

        /// Waits until the response may continue. Returns `false` if the client has closed the connection or
        /// the test has ended.
        func waitToSend(_ sent: Int, _ connection: OriginConnection) -> Bool {
            while !isStopped.load(ordering: .relaxed), !connection.isClosed {
                let isHeld = state.withLock { $0.pending > 0 || sent >= 65_536 && $0.maximum < minimum }
                if !isHeld { return true }
                poll(nil, 0, 1)
            }
            return false
        }
    }

    private let origin: ScriptedOrigin
    private let counter: RequestCounter

    var url: String { origin.url }
    var maximum: Int { counter.state.withLock { $0.maximum } }
    var requestCount: Int { counter.state.withLock { $0.total } }

    /// `limit`: allowed number of concurrent requests. `minimum`: number of concurrent requests before which
    /// a response does not pass 64 KiB.
    init(limit: Int, minimum: Int = 0) throws {
        let counter = RequestCounter(limit: limit, minimum: minimum)
        self.counter = counter
        origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                guard Self.respond(request, connection, counter) else { return }
            }
        }
    }

    func stop() {
        counter.isStopped.store(true, ordering: .relaxed)
        origin.stop()
    }

    private static func respond(
        _ request: ScriptedOrigin.Request, _ connection: OriginConnection, _ counter: RequestCounter
    ) -> Bool {
        counter.begin()
        var isActive = true
        defer { if isActive { counter.end() } }
        let range = request.header("range").flatMap { text -> Range<Int>? in
            let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
            guard let first = Int(ends[0]) else { return nil }
            return
                first..<min(bytes.count, (ends.count > 1 ? Int(ends[1]) : nil).map { $0 + 1 } ?? bytes.count)
        }
        let part = range ?? 0..<bytes.count
        var head = "HTTP/1.1 \(range == nil ? "200 OK" : "206 Partial")\r\nETag: \"5\"\r\n"
        if range != nil {
            head += "Content-Range: bytes \(part.lowerBound)-\(part.upperBound - 1)/\(bytes.count)\r\n"
        }
        head += "Accept-Ranges: bytes\r\nContent-Length: \(part.count)\r\n\r\n"
        guard connection.send(head) else { return false }
        var offset = part.lowerBound
        while offset < part.upperBound {
            guard counter.waitToSend(offset - part.lowerBound, connection) else { return false }
            let end = min(part.upperBound, offset + 65_536)
            // A client that has the last byte may send its next request at once.
            if end == part.upperBound {
                counter.end()
                isActive = false
            }
            guard connection.send(Array(bytes[offset..<end])) else { return false }
            offset = end
            poll(nil, 0, 2)
        }
        return true
    }
}
