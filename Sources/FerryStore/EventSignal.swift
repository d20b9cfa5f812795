import Synchronization
import Sys

/// Tells the relay that there are events, and those who read the log that there are more. Any thread.
final class EventSignal: Sendable {
    enum Message: Sendable {
        case wake
        /// Called once everything that was committed before it has its number, or that is not possible now.
        case pass(done: @Sendable () -> Void)
    }

    let mailbox = Mailbox<Message>()
    /// Whether somebody waits for every event: a listener, a webhook that is no job's.
    let isEager = Atomic<Bool>(false)
    /// Whether sessions have drained, and only deliveries that are on their way keep them from being told.
    let awaitsDeliveries = Atomic<Bool>(false)
    /// Something was written that the relay has not looked for.
    private let isPending = Atomic<Bool>(false)

    /// To be called after a commit with events. `isWanted`: somebody is to be told at once.
    func written(isWanted: Bool) {
        isPending.store(true, ordering: .releasing)
        if isWanted || isEager.load(ordering: .relaxed) { mailbox.send(.wake) }
    }

    /// To be called after deliveries were accepted or given up.
    func deliveriesEnded() {
        if awaitsDeliveries.load(ordering: .relaxed) { mailbox.send(.wake) }
    }

    /// Whether something was written since the last call.
    func takePending() -> Bool { isPending.exchange(false, ordering: .acquiring) }
}
