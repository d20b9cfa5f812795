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
        /// The owner sleeps in `wait`.
        var isOwnerAsleep = false
        /// Made when an owner wants to sleep elsewhere.
        var event: EventDescriptor?
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
            if !state.messages.isEmpty || state.isClosed { event.signal() }
            state.event = event
            return event.descriptor
        }
    }

    /// The number of messages nobody has taken yet.
    package var count: Int { state.withLock { $0.messages.count } }

    /// Adds a message and wakes the owner. Returns false, and drops the message, when the box is closed.
    @discardableResult
    package func send(_ message: consuming sending Message) -> Bool {
        let (accepted, wake) = state.withLock { [message] state in
            guard !state.isClosed else { return (false, Wake.nobody) }
            state.messages.append(message)
            return (true, Self.wake(&state, wasEmpty: state.messages.count == 1))
        }
        perform(wake)
        return accepted
    }

    /// Adds several messages with one wake-up.
    @discardableResult
    package func send(contentsOf messages: [Message]) -> Bool {
        guard !messages.isEmpty else { return true }
        let (accepted, wake) = state.withLock { state in
            guard !state.isClosed else { return (false, Wake.nobody) }
            let wasEmpty = state.messages.isEmpty
            state.messages.append(contentsOf: messages)
            return (true, Self.wake(&state, wasEmpty: wasEmpty))
        }
        perform(wake)
        return accepted
    }

    /// Takes what is there, without waiting. Owner only.
    package func take() -> [Message] {
        // First: what comes in between is taken all the same, and its signal only wakes once too often.
        state.withLock { $0.event }?.clear()
        return state.withLock { state in
            let taken = state.messages
            state.messages = []
            return taken
        }
    }

    /// Waits until something is there, the box is closed or `milliseconds` are over (−1: for ever), and
    /// takes it. Owner only; the owner's thread sleeps in futex(2).
    package func wait(milliseconds: Int32) -> [Message] {
        let expected = futex.value
        let sleeps = state.withLock { state in
            state.isOwnerAsleep = state.messages.isEmpty && !state.isClosed
            return state.isOwnerAsleep
        }
        if sleeps, milliseconds != 0 { futex.wait(while: expected, milliseconds: milliseconds) }
        state.withLock { $0.isOwnerAsleep = false }
        return take()
    }

    /// `wait`, and then a moment more while others are likely to send: when `isBusy`, up to `microseconds`
    /// pass before what has gathered is taken. Owner only.
    package func gather(milliseconds: Int32, isBusy: Bool, microseconds: Int) -> [Message] {
        var messages = wait(milliseconds: milliseconds)
        guard isBusy, !messages.isEmpty, !isClosed else { return messages }
        var pause = timespec(tv_sec: 0, tv_nsec: microseconds * 1_000)
        nanosleep(&pause, nil)
        messages += take()
        return messages
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

    private static func wake(_ state: inout State, wasEmpty: Bool) -> Wake {
        if state.isOwnerAsleep {
            state.isOwnerAsleep = false
            return .sleeper
        }
        if wasEmpty, let event = state.event { return .descriptor(event) }
        return .nobody
    }

    private func perform(_ wake: Wake) {
        switch wake {
        case .nobody: break
        case .sleeper: futex.wake()
        case .descriptor(let event): event.signal()
        }
    }
}

/// A word that a thread sleeps on.
private final class FutexWord: @unchecked Sendable {
    // The word is only touched by the atomic operations of CSys.
    private let word: UnsafeMutablePointer<UInt32>

    init() {
        word = .allocate(capacity: 1)
        word.initialize(to: 0)
    }

    deinit { word.deallocate() }

    var value: UInt32 { csys_futex_load(word) }
    func wait(while expected: UInt32, milliseconds: Int32) { csys_futex_wait(word, expected, milliseconds) }
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
