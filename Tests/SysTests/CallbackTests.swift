import Synchronization
import Sys
import Testing

@Suite struct CallbackTests {
    /// Address of a local variable of the function that is called last.
    private final class StackDepth: Sendable {
        let address = Atomic<UInt>(0)

        func note() {
            var local = 0
            withUnsafePointer(to: &local) { address.store(UInt(bitPattern: $0), ordering: .relaxed) }
        }
    }

    @Test("a callback without a function does nothing")
    func unset() {
        Callback<Void>()()
        Callback<Int?>()(1)
    }

    @Test("100,000 calls of one callback use no more stack than the first call")
    func stackDepth() {
        let depth = StackDepth()
        let callback = Callback<Int?>()
        callback.set { _ in depth.note() }
        callback(nil)
        let first = depth.address.load(ordering: .relaxed)
        for number in 0..<100_000 { callback(number) }
        let last = depth.address.load(ordering: .relaxed)
        #expect(max(first, last) - min(first, last) < 4_096)
    }

    @Test("a function that was set later replaces the earlier one")
    func replaces() {
        let received = Mutex<[Int]>([])
        let callback = Callback<Int>()
        callback.set { value in received.withLock { $0.append(value) } }
        callback(1)
        callback.set { value in received.withLock { $0.append(-value) } }
        callback(2)
        #expect(received.withLock { $0 } == [1, -2])
    }
}
