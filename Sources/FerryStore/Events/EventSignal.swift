import Synchronization
import Sys

/// Tells the relay that there are events, and those who read the log that there are more. Any thread.
final class EventSignal: Sendable {
    enum Message: Sendable {
        case wake
        /// Somebody listens: a moment later is early enough.
        case soon
        /// Called once everything that was committed before it has its number, or that is not possible now:
        /// the database is away, or the tenant has more than fits into a pass.
        case pass(done: @Sendable () -> Void)
    }

    let mailbox = Mailbox<Message>()
    /// Whether somebody reads the log as it grows.
    let hasListeners = Atomic<Bool>(false)
    /// Whether endpoints wait for events, of any job; the relay looks now and then.
    let hasEndpoints = Atomic<Bool>(false)
    /// Whether sessions have drained, and only deliveries that are on their way keep them from being told.
    let awaitsDeliveries = Atomic<Bool>(false)
    private let haveDeliveriesEnded = Atomic<Bool>(false)
    /// Something was written that the relay has not looked for.
    private let isPending = Atomic<Bool>(false)
    private enum Hurry: UInt8 { case none, soon, now }
    /// What the relay was told since it last began to look.
    private let told = Atomic<UInt8>(Hurry.none.rawValue)
    private let whenNumbered = Mutex<(@Sendable () -> Void)?>(nil)

    /// To be called after a commit with events. `isWanted`: somebody is to be told at once.
    func written(isWanted: Bool) {
        isPending.store(true, ordering: .releasing)
        if isWanted || hasEndpoints.load(ordering: .relaxed) {
            tell(.now)
        } else if hasListeners.load(ordering: .relaxed) {
            tell(.soon)
        }
    }

    /// Once is enough, until it has begun to look.
    private func tell(_ hurry: Hurry) {
        let before = told.max(hurry.rawValue, ordering: .acquiringAndReleasing).oldValue
        guard before < hurry.rawValue else { return }
        mailbox.send(hurry == .now ? .wake : .soon)
    }

    /// To be called after deliveries were accepted or given up.
    func deliveriesEnded() {
        guard awaitsDeliveries.load(ordering: .sequentiallyConsistent) else { return }
        haveDeliveriesEnded.store(true, ordering: .sequentiallyConsistent)
        tell(.soon)
    }

    /// Whether deliveries have ended since the last call. The relay's, before it looks.
    func takeEndedDeliveries() -> Bool {
        haveDeliveriesEnded.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// Whether something was written since the last call. The relay's, before it looks.
    func takePending() -> Bool {
        told.store(Hurry.none.rawValue, ordering: .sequentiallyConsistent)
        return isPending.exchange(false, ordering: .acquiringAndReleasing)
    }

    /// Who is told that the log has grown.
    func onNumbered(_ body: @escaping @Sendable () -> Void) { whenNumbered.withLock { $0 = body } }

    /// To be called after a pass of this node.
    func numbered() {
        if hasListeners.load(ordering: .relaxed) { whenNumbered.withLock { $0 }?() }
    }
}
