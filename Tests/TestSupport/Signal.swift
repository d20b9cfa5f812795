import Glibc
import Synchronization
import Sys

/// Values sent by other threads, awaited with a deadline.
package final class Signal<Value: Sendable>: Sendable {
    private let mailbox = Mailbox<Value>()
    package init() {}
    package func fire(_ value: Value) { mailbox.send(value) }

    /// Returns the values sent so far: at least `count`, unless `seconds` pass first.
    package func wait(for count: Int = 1, seconds: Double = 120) -> [Value] {
        let end = monotonicNanoseconds() + Int64(seconds * 1e9)
        var values: [Value] = []
        while values.count < count {
            let left = end - monotonicNanoseconds()
            guard left > 0 else { return values + mailbox.take() }
            values += mailbox.wait(milliseconds: Int32(left / 1_000_000 + 1))
        }
        return values
    }
}

/// A gate that opens once and stays open. Usable on any thread.
package final class Gate: Sendable {
    // Never cleared, so it stays readable for later waits.
    private let event = EventDescriptor()

    package init() {}
    package func open() { event.signal() }

    /// Waits until the gate is open. Returns `false` after the timeout.
    package func pass(seconds: Double = 600) -> Bool {
        var descriptors = pollfd(fd: event.descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&descriptors, 1, Int32(seconds * 1000)) > 0
    }
}

/// Lets one thread continue after a number of others have arrived.
package final class Countdown: Sendable {
    private let gate = Gate()
    private let left: Atomic<Int>

    package init(_ count: Int) { left = Atomic(count) }

    package func arrive() {
        if left.wrappingSubtract(1, ordering: .sequentiallyConsistent).newValue == 0 { gate.open() }
    }

    package func wait() { _ = gate.pass() }
}

/// Returns `true` if the condition becomes true within the time. Checks it every millisecond.
package func eventually(seconds: Double = 120, _ condition: () -> Bool) -> Bool {
    let end = monotonicNanoseconds() + Int64(seconds * 1e9)
    while monotonicNanoseconds() < end {
        if condition() { return true }
        usleep(1_000)
    }
    return condition()
}
