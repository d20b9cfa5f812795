import Synchronization
import Sys
import Testing

@testable import FerryEngine

@Suite("File threads")
struct FileThreadPoolTests {
    /// Monotonic nanoseconds that pass only when the test says so.
    private final class Hands: Sendable {
        let now = Atomic<Int64>(1)
    }

    @Test("work does not queue behind a thread with long work while another thread is free")
    func long() {
        let hands = Hands()
        let fileThreads = FileThreadPool(threadCount: 2) { hands.now.load(ordering: .sequentiallyConsistent) }
        defer { fileThreads.stop() }
        let (begun, end, done) = (Mailbox<Int>(), Mailbox<Int>(), Mailbox<Int>())
        fileThreads.send(
            .run {
                begun.send(0)
                _ = end.wait(milliseconds: -1)
            })
        defer { end.send(0) }
        #expect(begun.wait(milliseconds: 120_000) == [0])
        hands.now.store(300_000_001, ordering: .sequentiallyConsistent)
        #expect(fileThreads.busyNanoseconds(300_000_001) == 300_000_000)
        #expect(fileThreads.isSlow(300_000_001) && !fileThreads.isSlow(200_000_001))
        for number in 0..<20 {
            fileThreads.send(.run { done.send(number) })
            #expect(done.wait(milliseconds: 120_000) == [number])
        }
    }

    @Test("a stop does not wait forever for a thread that a disk blocks")
    func hanging() {
        let fileThreads = FileThreadPool(threadCount: 2)
        let (begun, end) = (Mailbox<Int>(), Mailbox<Int>())
        fileThreads.send(
            .run {
                begun.send(0)
                _ = end.wait(milliseconds: -1)
            })
        defer { end.send(0) }
        #expect(begun.wait(milliseconds: 120_000) == [0])
        #expect(fileThreads.stop(seconds: 0) > 0)
        #expect(fileThreads.stop() == 0, "a second call does nothing")
    }
}
