import Synchronization
import Sys

/// Tells the relay that there are events, and those who read the log that there are more. Any thread.
final class EventSignal: Sendable {
    enum Message: Sendable {
        case wake
        /// Somebody listens: a moment later is early enough.
        case soon
        /// Called once everything that was committed before it has its number, or that is not possible now.
        case pass(done: @Sendable () -> Void)
    }

    let mailbox = Mailbox<Message>()
    /// Whether webhooks wait for every event, and not only those of single jobs.
    let isEager = Atomic<Bool>(false)
    /// Whether somebody reads the log as it grows.
    let hasListeners = Atomic<Bool>(false)
    /// Whether some endpoint waits for events.
    let hasEndpoints = Atomic<Bool>(false)
    /// Whether sessions have drained, and only deliveries that are on their way keep them from being told.
    let awaitsDeliveries = Atomic<Bool>(false)
    /// Something was written that the relay has not looked for.
    private let isPending = Atomic<Bool>(false)
    private let whenNumbered = Mutex<(@Sendable () -> Void)?>(nil)

    /// To be called after a commit with events. `isWanted`: somebody is to be told at once.
    func written(isWanted: Bool) {
        isPending.store(true, ordering: .releasing)
        let isHurried = isEager.load(ordering: .relaxed) || hasEndpoints.load(ordering: .relaxed)
        if isWanted || isHurried {
            mailbox.send(.wake)
        } else if hasListeners.load(ordering: .relaxed) {
            mailbox.send(.soon)
        }
    }

    /// To be called after deliveries were accepted or given up.
    func deliveriesEnded() {
        if awaitsDeliveries.load(ordering: .relaxed) { mailbox.send(.wake) }
    }

    /// Whether something was written since the last call.
    func takePending() -> Bool { isPending.exchange(false, ordering: .acquiring) }

    /// Who is told that the log has grown.
    func onNumbered(_ body: @escaping @Sendable () -> Void) { whenNumbered.withLock { $0 = body } }

    /// To be called after a pass of this node.
    func numbered() {
        if hasListeners.load(ordering: .relaxed) { whenNumbered.withLock { $0 }?() }
    }
}
