import CSys
import Glibc
import Synchronization

/// Many senders, one owner: the owner takes everything that has gathered, so batches form by themselves.
///
/// Bounded by whoever sends: each sender holds a permit (a slot, a suspended request) for what it sends. An
/// owner that is awake costs its senders no system call.
package final class Mailbox<Message: Sendable>: Sendable {
    private struct State {
        var messages: [Message] = []
        var isClosed = false
        /// The owner sleeps, until so many messages are there; 0: it is awake.
        var awaitedCount = 0
        /// Made when an owner wants to sleep elsewhere.
        var event: EventDescriptor?
        /// It is readable, or about to be, until `wasWoken`.
        var isEventSignalled = false
    }
    private let state = Mutex(State())
    private let futex = FutexWord()

    package init() {}

    /// Readable whenever something waits; for an owner that sleeps in epoll. Valid for the life of the
    /// mailbox.
    package var descriptor: Int32 {
        state.withLock { state in
            if let event = state.event { return event.descriptor }
            let event = EventDescriptor()
            if !state.messages.isEmpty || state.isClosed {
                event.signal()
                state.isEventSignalled = true
            }
            state.event = event
            return event.descriptor
        }
    }

    /// The number of messages nobody has taken yet.
    package var count: Int { state.withLock { $0.messages.count } }

    /// Adds a message and wakes the owner, unless it is not urgent and can wait for the next one that is.
    /// Returns false, and drops the message, when the box is closed.
    @discardableResult
    package func send(_ message: consuming sending Message, wakes: Bool = true) -> Bool {
        let (accepted, wake) = state.withLock { [message] state in
            guard !state.isClosed else { return (false, Wake.nobody) }
            state.messages.append(message)
            return (true, wakes ? Self.wake(&state) : .nobody)
        }
        perform(wake)
        return accepted
    }

    /// To be called before `take` by an owner whom the descriptor has woken.
    package func wasWoken() {
        // In this order: who sends in between is not signalled, but taken.
        state.withLock { $0.event }?.clear()
        state.withLock { $0.isEventSignalled = false }
    }

    /// Takes what is there, without waiting. Owner only.
    package func take() -> [Message] {
        state.withLock { state in
            let taken = state.messages
            state.messages = []
            return taken
        }
    }

    /// Waits until something is there, the box is closed or `milliseconds` are over (−1: for ever), and
    /// takes it. Owner only; the owner's thread sleeps in futex(2).
    package func wait(milliseconds: Int32) -> [Message] {
        sleep(until: 1, microseconds: milliseconds < 0 ? -1 : Int64(milliseconds) * 1_000)
        return take()
    }

    /// `wait`, and then a moment more while others are likely to send: until `expected` messages are there,
    /// at most so many microseconds. Owner only.
    package func gather(milliseconds: Int32, expected: Int, microseconds: Int) -> [Message] {
        sleep(until: 1, microseconds: milliseconds < 0 ? -1 : Int64(milliseconds) * 1_000)
        if expected > 1, count > 0 { sleep(until: expected, microseconds: Int64(microseconds)) }
        return take()
    }

    /// Returns when so many messages are there, the box is closed or the time is over; sometimes earlier.
    private func sleep(until count: Int, microseconds: Int64) {
        guard microseconds != 0 else { return }
        let expected = futex.value
        let sleeps = state.withLock { state in
            guard state.messages.count < count, !state.isClosed else { return false }
            state.awaitedCount = count
            return true
        }
        guard sleeps else { return }
        futex.wait(while: expected, microseconds: microseconds)
        state.withLock { $0.awaitedCount = 0 }
    }

    /// Refuses further messages and wakes the owner. What was sent before can still be taken.
    package func close() {
        let event = state.withLock { state in
            state.isClosed = true
            return state.event
        }
        event?.signal()
        futex.wake()
    }

    package var isClosed: Bool { state.withLock { $0.isClosed } }

    private enum Wake { case nobody, sleeper, descriptor(EventDescriptor) }

    private static func wake(_ state: inout State) -> Wake {
        if state.awaitedCount > 0 {
            guard state.messages.count >= state.awaitedCount else { return .nobody }
            state.awaitedCount = 0
            return .sleeper
        }
        guard let event = state.event, !state.isEventSignalled else { return .nobody }
        state.isEventSignalled = true
        return .descriptor(event)
    }

    private func perform(_ wake: Wake) {
        switch wake {
        case .nobody: break
        case .sleeper: futex.wake()
        case .descriptor(let event): event.signal()
        }
    }
}

/// A word that a thread sleeps on. Unchecked: it is touched by the atomic operations of CSys alone.
private final class FutexWord: @unchecked Sendable {
    private let word: UnsafeMutablePointer<UInt32>

    init() {
        word = .allocate(capacity: 1)
        word.initialize(to: 0)
    }

    deinit { word.deallocate() }

    var value: UInt32 { csys_futex_load(word) }
    /// Negative: without a limit.
    func wait(while expected: UInt32, microseconds: Int64) { csys_futex_wait(word, expected, microseconds) }
    func wake() { csys_futex_wake(word) }
}

/// An eventfd(2): non-blocking, closed on exec.
package final class EventDescriptor: Sendable {
    package let descriptor: Int32

    package init() {
        descriptor = makeEventDescriptor()
        precondition(descriptor >= 0, "eventfd failed: the process is out of file descriptors")
    }

    deinit { close(descriptor) }

    package func signal() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    package func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }
}
