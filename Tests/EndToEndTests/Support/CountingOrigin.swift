import Glibc
import Synchronization
import Sys
import TestSupport

/// A file with an entity tag and ranges that is sent slowly, and the most requests that were ever under way
/// at once. Any thread.
final class CountingOrigin: Sendable {
    static let bytes = patternBytes(8 << 20, seed: 5)

    private struct State {
        var active = 0
        var most = 0
        var total = 0
        /// Requests that were one too many when they came: nothing is sent until that is decided.
        var judging = 0
    }
    private final class Gauge: Sendable {
        let state = Mutex(State())
        let isStopped = Atomic<Bool>(false)
        /// Nothing but the beginning is sent before so many were under way at once.
        let floor: Int
        let limit: Int

        init(limit: Int, floor: Int) {
            self.limit = limit
            self.floor = floor
        }

        private var isOver: Bool { state.withLock { $0.active > limit } }

        func begin() {
            state.withLock { state in
                state.active += 1
                state.total += 1
                state.judging += 1
            }
            // Those whose other end has gone leave meanwhile.
            let end = monotonicNanoseconds() + 120_000_000_000
            while isOver, monotonicNanoseconds() < end, !isStopped.load(ordering: .relaxed) {
                poll(nil, 0, 1)
            }
            state.withLock { state in
                state.most = max(state.most, state.active)
                state.judging -= 1
            }
        }

        func end() { state.withLock { $0.active -= 1 } }

        /// Waits until more may be sent; false: the other end has gone, or the test is over.
        func passes(_ sent: Int, _ connection: OriginConnection) -> Bool {
            while !isStopped.load(ordering: .relaxed), !connection.isClosed {
                let isHeld = state.withLock { $0.judging > 0 || sent >= 65_536 && $0.most < floor }
                if !isHeld { return true }
                poll(nil, 0, 1)
            }
            return false
        }
    }

    private let origin: ScriptedOrigin
    private let gauge: Gauge

    var url: String { origin.url }
    var most: Int { gauge.state.withLock { $0.most } }
    var requestCount: Int { gauge.state.withLock { $0.total } }

    /// `limit`: requests that may be under way. `floor`: as many as must have been before much is sent.
    init(limit: Int, floor: Int = 0) throws {
        let gauge = Gauge(limit: limit, floor: floor)
        self.gauge = gauge
        origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                guard Self.answer(request, connection, gauge) else { return }
            }
        }
    }

    func stop() {
        gauge.isStopped.store(true, ordering: .relaxed)
        origin.stop()
    }

    private static func answer(
        _ request: ScriptedOrigin.Request, _ connection: OriginConnection, _ gauge: Gauge
    ) -> Bool {
        gauge.begin()
        var isActive = true
        defer { if isActive { gauge.end() } }
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
        var place = part.lowerBound
        while place < part.upperBound {
            guard gauge.passes(place - part.lowerBound, connection) else { return false }
            let end = min(part.upperBound, place + 65_536)
            // With the last byte the other end may ask anew.
            if end == part.upperBound {
                gauge.end()
                isActive = false
            }
            guard connection.send(Array(bytes[place..<end])) else { return false }
            place = end
            poll(nil, 0, 2)
        }
        return true
    }
}
