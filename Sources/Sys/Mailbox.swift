import Glibc
import Synchronization

/// Many senders, one owner: the owner takes everything that has gathered, so batches form by themselves.
///
/// Bounded by whoever sends: each sender holds a permit (a slot, a suspended request) for what it sends.
package final class Mailbox<Message: Sendable>: Sendable {
    private struct State {
        var messages: [Message] = []
        var isClosed = false
        var isWaiting = false
    }
    private let state = Mutex(State())
    private let event = EventDescriptor()

    package init() {}

    /// Readable whenever something waits; for an owner that sleeps in epoll.
    package var descriptor: Int32 { event.descriptor }

    /// The number of messages nobody has taken yet.
    package var count: Int { state.withLock { $0.messages.count } }

    /// Adds a message and wakes the owner. Returns false, and drops the message, when the box is closed.
    @discardableResult
    package func send(_ message: consuming sending Message) -> Bool {
        let (accepted, wake) = state.withLock { [message] state in
            guard !state.isClosed else { return (false, false) }
            state.messages.append(message)
            return (true, state.messages.count == 1)
        }
        if wake { event.signal() }
        return accepted
    }

    /// Adds several messages with one wake-up.
    @discardableResult
    package func send(contentsOf messages: [Message]) -> Bool {
        guard !messages.isEmpty else { return true }
        let (accepted, wake) = state.withLock { state in
            guard !state.isClosed else { return (false, false) }
            let wasEmpty = state.messages.isEmpty
            state.messages.append(contentsOf: messages)
            return (true, wasEmpty)
        }
        if wake { event.signal() }
        return accepted
    }

    /// Takes what is there, without waiting. Owner only.
    package func take() -> [Message] {
        event.clear()
        return state.withLock { state in
            let taken = state.messages
            state.messages = []
            return taken
        }
    }

    /// Waits until something is there, the box is closed or `milliseconds` are over (−1: for ever), and
    /// takes it. Owner only; the owner's thread sleeps in poll(2).
    package func wait(milliseconds: Int32) -> [Message] {
        var descriptors = pollfd(fd: event.descriptor, events: Int16(POLLIN), revents: 0)
        if state.withLock({ $0.messages.isEmpty && !$0.isClosed }) {
            _ = poll(&descriptors, 1, milliseconds)
        }
        return take()
    }

    /// Refuses further messages and wakes the owner. What was sent before can still be taken.
    package func close() {
        state.withLock { $0.isClosed = true }
        event.signal()
    }

    package var isClosed: Bool { state.withLock { $0.isClosed } }
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
