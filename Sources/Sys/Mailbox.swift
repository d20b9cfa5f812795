import CSys
import Glibc
import Synchronization

/// Queue with many senders and one receiving thread, the owner. The owner takes all messages at once, so
/// batches form without a timer.
///
/// The mailbox has no limit of its own: each sender holds a permit (a slot, a suspended request) for the
/// messages it sends. Sending to an owner that is awake makes no system call.
public final class Mailbox<Message: Sendable>: Sendable {
    private struct State {
        var messages: [Message] = []
        var isClosed = false
        /// Number of messages that the sleeping owner waits for; 0 while it is awake.
        var awaitedCount = 0
        /// Created by the first use of `descriptor`.
        var event: EventDescriptor?
        /// `true` from the decision to signal `event` until `wasWoken`.
        var isEventSignalled = false
    }
    private let state = Mutex(State())
    private let futex = FutexWord()

    /// Creates an open, empty mailbox.
    public init() {}

    /// Descriptor that is readable while messages wait or the mailbox is closed, for an owner that sleeps in
    /// epoll(7). Owned by the mailbox and valid for its life.
    public var descriptor: Int32 {
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

    /// Number of messages that have not been taken.
    public var count: Int { state.withLock { $0.messages.count } }

    /// Adds a message and wakes the owner. With `wakes: false` the message waits for the next one that wakes.
    /// Returns `false` and drops the message if the mailbox is closed.
    @discardableResult
    public func send(_ message: consuming sending Message, wakes: Bool = true) -> Bool {
        let (accepted, wake) = state.withLock { [message] state in
            guard !state.isClosed else { return (false, Wake.nobody) }
            state.messages.append(message)
            return (true, wakes ? Self.wake(&state) : .nobody)
        }
        perform(wake)
        return accepted
    }

    /// Resets `descriptor`. The owner calls it before `take` after the descriptor became readable.
    public func wasWoken() {
        // In this order: a message sent in between is not signalled, but the following `take` returns it.
        state.withLock { $0.event }?.clear()
        state.withLock { $0.isEventSignalled = false }
    }

    /// Returns all messages without waiting. Owner only.
    public func take() -> [Message] {
        state.withLock { state in
            let taken = state.messages
            state.messages = []
            return taken
        }
    }

    /// Returns all messages, after waiting until there is one, the mailbox is closed or `milliseconds` are
    /// over (−1: no limit). Owner only; its thread sleeps in futex(2).
    public func wait(milliseconds: Int32) -> [Message] {
        sleep(until: 1, microseconds: milliseconds < 0 ? -1 : Int64(milliseconds) * 1_000)
        return take()
    }

    /// Like `wait`, and after the first message waits for at most `microseconds` more until there are
    /// `expected` messages. Owner only.
    public func gather(milliseconds: Int32, expected: Int, microseconds: Int) -> [Message] {
        sleep(until: 1, microseconds: milliseconds < 0 ? -1 : Int64(milliseconds) * 1_000)
        if expected > 1, count > 0 { sleep(until: expected, microseconds: Int64(microseconds)) }
        return take()
    }

    /// Returns when there are `count` messages, the mailbox is closed or the time is over. May return
    /// earlier.
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

    /// Refuses further messages and wakes the owner. Messages sent before can still be taken. Calling it
    /// again does nothing.
    public func close() {
        let event = state.withLock { state in
            state.isClosed = true
            return state.event
        }
        event?.signal()
        futex.wake()
    }

    /// `true` after `close`.
    public var isClosed: Bool { state.withLock { $0.isClosed } }

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

/// A futex(2) word. Unchecked: only the atomic operations of CSys access it.
private final class FutexWord: @unchecked Sendable {
    private let word: UnsafeMutablePointer<UInt32>

    init() {
        word = .allocate(capacity: 1)
        word.initialize(to: 0)
    }

    deinit { word.deallocate() }

    var value: UInt32 { csys_futex_load(word) }
    /// Sleeps without a limit if `microseconds` is negative.
    func wait(while expected: UInt32, microseconds: Int64) { csys_futex_wait(word, expected, microseconds) }
    func wake() { csys_futex_wake(word) }
}

/// An eventfd(2), non-blocking and closed on exec. Owns the descriptor. Usable on any thread.
public final class EventDescriptor: Sendable {
    /// Readable after `signal` until `clear`.
    public let descriptor: Int32

    /// Creates an unsignalled event. Ends the process if it has no more descriptors.
    public init() {
        descriptor = makeEventDescriptor()
        // No input reaches this: requests create no descriptor of this kind.
        precondition(descriptor >= 0, "eventfd failed: the process is out of file descriptors")
    }

    deinit { close(descriptor) }

    /// Makes the descriptor readable. Repeated calls count as one.
    public func signal() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// Makes the descriptor unreadable. Does not block.
    public func clear() {
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }
}
