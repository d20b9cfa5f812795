import FerryCore
import HTTPServer
import Testing

@testable import FerryAPI

@Suite("Progress broadcast")
struct ProgressBroadcastTests {
    private func stream(_ number: UInt64, session: String? = nil, tenant: String = "a") -> EventStream {
        var query = EventQuery(tenant: tenant)
        query.session = session
        let stream = EventStream(
            .init(query: query, job: nil, showsProgress: true), number: number, readPage: { _, _ in },
            onEnd: { _ in })
        stream.add([], isWhole: true)
        return stream
    }

    private func transfer(
        _ number: UInt64, _ byteCount: Int64, session: String = "s", tenant: String = "a"
    ) -> RunningTransfer {
        RunningTransfer(
            job: JobID(high: 1, low: number), tenant: tenant, session: session,
            progress: TransferProgress(bytesReceived: byteCount))
    }

    /// Returns the jobs whose progress a stream has sent since the last call.
    private func received(_ stream: EventStream) -> [UInt64] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1_000)
        while case .bytes(let count) = buffer.withUnsafeMutableBytes({ stream.read(into: $0) }) {
            bytes += buffer[..<count]
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("data: ") }
            .compactMap {
                try? JSON.parse(Array($0.utf8.dropFirst(6)))["job"]?.string.flatMap { JobID($0) }?.low
            }
    }

    @Test("a stream gets the changed progress of its tenant and session, a new stream all progress")
    func audiences() {
        var broadcast = ProgressBroadcast()
        let (all, session, other) = (stream(1), stream(2, session: "s"), stream(3, tenant: "b"))
        var running = [
            transfer(1, 0), transfer(2, 0, session: "t"), transfer(3, 0, tenant: "b"),
        ]
        broadcast.send([all, session, other], running)
        #expect(received(all) == [1, 2] && received(session) == [1] && received(other) == [3])
        running[1] = transfer(2, 5, session: "t")
        broadcast.send([all, session, other], running)
        #expect(received(all) == [2] && received(session).isEmpty && received(other).isEmpty)
        let late = stream(4)
        broadcast.send([all, session, other, late], running)
        #expect(received(late).sorted() == [1, 2] && received(session).isEmpty)
    }

    @Test("the progress that is sent at a time is bounded, and jobs take turns")
    func bound() {
        var broadcast = ProgressBroadcast()
        let streams = (1...1_000).map { stream($0) }
        var eventCounts: [UInt64: Int] = [:]
        for turn in 1...100 {
            broadcast.send(streams, (1...200).map { transfer($0, Int64(turn)) })
            var text: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while case .bytes(let count) = buffer.withUnsafeMutableBytes({ streams[0].read(into: $0) }) {
                text += buffer[..<count]
            }
            // Each stream gets at least one event of progress, even if it exceeds its share.
            #expect(text.count * streams.count <= Limits.eventProgressTotalByteCountMax + 1_000 * 400)
            for line in String(decoding: text, as: UTF8.self).split(separator: "\n")
            where line.hasPrefix("data: ") {
                let job = try? JSON.parse(Array(line.utf8.dropFirst(6)))["job"]?.string.flatMap { JobID($0) }
                if let job { eventCounts[job.low, default: 0] += 1 }
            }
            for other in streams.dropFirst() { _ = received(other) }
        }
        #expect(eventCounts.count == 200)
        let counts = eventCounts.values.sorted()
        #expect((counts.last ?? 0) - (counts.first ?? 0) <= 1, "\(counts)")
    }

    @Test("a slow stream misses progress, but no events")
    func slow() {
        var broadcast = ProgressBroadcast()
        let slow = stream(1)
        for turn in 1...1_000 { broadcast.send([slow], [transfer(1, Int64(turn))]) }
        #expect(received(slow) == [1])
    }
}
