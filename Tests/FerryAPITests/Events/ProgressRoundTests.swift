import FerryCore
import HTTPServer
import Testing

@testable import FerryAPI

@Suite("News of progress")
struct ProgressRoundTests {
    private func listener(_ number: UInt64, session: String? = nil, tenant: String = "a") -> EventStream {
        var query = EventQuery(tenant: tenant)
        query.session = session
        let stream = EventStream(
            .init(query: query, job: nil, showsProgress: true), number: number, readPage: { _, _ in },
            whenOver: { _ in })
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

    /// The jobs of which a listener has heard since it was asked last.
    private func heard(_ stream: EventStream) -> [UInt64] {
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

    @Test("each hears of its tenant and session, of what has changed, and a new one of everything")
    func audiences() {
        var round = ProgressRound()
        let (all, session, other) = (listener(1), listener(2, session: "s"), listener(3, tenant: "b"))
        var running = [
            transfer(1, 0), transfer(2, 0, session: "t"), transfer(3, 0, tenant: "b"),
        ]
        round.tell([all, session, other], running)
        #expect(heard(all) == [1, 2] && heard(session) == [1] && heard(other) == [3])
        running[1] = transfer(2, 5, session: "t")
        round.tell([all, session, other], running)
        #expect(heard(all) == [2] && heard(session).isEmpty && heard(other).isEmpty)
        let late = listener(4)
        round.tell([all, session, other, late], running)
        #expect(heard(late).sorted() == [1, 2] && heard(session).isEmpty)
    }

    @Test("however many listen and however much runs, a round has a bound, and jobs take turns")
    func bound() {
        var round = ProgressRound()
        let listeners = (1...1_000).map { listener($0) }
        var newsCounts: [UInt64: Int] = [:]
        for turn in 1...100 {
            round.tell(listeners, (1...200).map { transfer($0, Int64(turn)) })
            var text: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while case .bytes(let count) = buffer.withUnsafeMutableBytes({ listeners[0].read(into: $0) }) {
                text += buffer[..<count]
            }
            // One more than fits, so that there is news at all.
            #expect(text.count * listeners.count <= Limits.eventProgressTotalByteCountMax + 1_000 * 400)
            for line in String(decoding: text, as: UTF8.self).split(separator: "\n")
            where line.hasPrefix("data: ") {
                let job = try? JSON.parse(Array(line.utf8.dropFirst(6)))["job"]?.string.flatMap { JobID($0) }
                if let job { newsCounts[job.low, default: 0] += 1 }
            }
            for other in listeners.dropFirst() { _ = heard(other) }
        }
        #expect(newsCounts.count == 200)
        let counts = newsCounts.values.sorted()
        #expect((counts.last ?? 0) - (counts.first ?? 0) <= 1, "\(counts)")
    }

    @Test("who reads slowly misses news and keeps its events")
    func slow() {
        var round = ProgressRound()
        let slow = listener(1)
        for turn in 1...1_000 { round.tell([slow], [transfer(1, Int64(turn))]) }
        #expect(heard(slow) == [1])
    }
}
