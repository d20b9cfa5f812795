import Sys
import Testing

@testable import FerryEngine

@Suite("File threads")
struct FileLaneTests {
    @Test("nobody queues behind a thread that is at something long while another one has time")
    func long() {
        let lane = FileLane(threadCount: 2)
        defer { lane.stop() }
        let (begun, end, done) = (Mailbox<Int>(), Mailbox<Int>(), Mailbox<Int>())
        lane.send(
            .run {
                begun.send(0)
                _ = end.wait(milliseconds: -1)
            })
        #expect(begun.wait(milliseconds: 10_000) == [0])
        let later = monotonicNanoseconds() + 1_000_000_000
        #expect(lane.busyNanoseconds(later) >= 1_000_000_000)
        for number in 0..<20 { lane.send(.run { done.send(number) }, now: later) }
        var numbers: [Int] = []
        while numbers.count < 20 {
            let more = done.wait(milliseconds: 10_000)
            if more.isEmpty { break }
            numbers += more
        }
        #expect(numbers == Array(0..<20))
        end.send(0)
    }
}
