import Glibc
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
        while lane.busyNanoseconds(monotonicNanoseconds()) < 300_000_000 { usleep(1_000) }
        var count = 0
        for number in 0..<20 {
            lane.send(.run { done.send(number) })
            count += done.wait(milliseconds: 2_000).count
        }
        // Half of them, if they took turns. On a busy machine the other thread may look as if it hung, too.
        #expect(count >= 17)
        end.send(0)
    }
}
