import Synchronization
import Sys

/// Wakes the relay when events were written, and readers of the log when events were numbered. May be used
/// from any thread.
final class EventSignal: Sendable {
    enum Message: Sendable {
        case wake
        /// Only event streams wait: 20 ms later is early enough.
        case soon
        /// Runs a pass and calls `done` when all events committed before have their numbers, or when that is
        /// not possible now: the database is unreachable, or the tenant has more events than fit into a pass.
        case pass(done: @Sendable () -> Void)
    }

    let mailbox = Mailbox<Message>()
    /// `true` while event streams read the log on this node.
    let hasListeners = Atomic<Bool>(false)
    /// `true` if any endpoint is enabled, of any tenant; updated by the relay.
    let hasEndpoints = Atomic<Bool>(false)
    /// `InboxLowWatermark.position` of the relay.
    let lowWatermark = Atomic<Int64>(0)
    /// `true` if the final event of a drained session waits for its deliveries to end.
    let awaitsDeliveries = Atomic<Bool>(false)
    private let haveDeliveriesEnded = Atomic<Bool>(false)
    /// `true` if events were written that the relay has not looked for.
    private let isPending = Atomic<Bool>(false)
    private enum Urgency: UInt8 { case none, soon, now }
    /// Highest urgency sent to the relay since it last began to look.
    private let sentUrgency = Atomic<UInt8>(Urgency.none.rawValue)
    private let numberedBody = Mutex<Callback?>(nil)

    /// Call after a commit with events. `isWanted`: `true` if a webhook wants one of them.
    func written(isWanted: Bool) {
        isPending.store(true, ordering: .releasing)
        if isUrgent(isWanted: isWanted) {
            wakeRelay(.now)
        } else if hasListeners.load(ordering: .relaxed) {
            wakeRelay(.soon)
        }
    }

    /// `true` if an endpoint or a webhook waits for events that were written now. `isWanted` as in `written`.
    func isUrgent(isWanted: Bool) -> Bool { isWanted || hasEndpoints.load(ordering: .relaxed) }

    /// Call after a pass outside of the relay's thread, in which sessions have drained.
    func sessionsDrained() {
        haveDeliveriesEnded.store(true, ordering: .sequentiallyConsistent)
        wakeRelay(.now)
    }

    /// Wakes the relay, once until it begins to look.
    private func wakeRelay(_ urgency: Urgency) {
        let before = sentUrgency.max(urgency.rawValue, ordering: .acquiringAndReleasing).oldValue
        guard before < urgency.rawValue else { return }
        mailbox.send(urgency == .now ? .wake : .soon)
    }

    /// Call after deliveries were accepted or given up.
    func deliveriesEnded() {
        guard awaitsDeliveries.load(ordering: .sequentiallyConsistent) else { return }
        haveDeliveriesEnded.store(true, ordering: .sequentiallyConsistent)
        wakeRelay(.soon)
    }

    /// Returns whether deliveries have ended, or sessions have drained, since the last call. Called by the
    /// relay before it looks.
    func takeEndedDeliveries() -> Bool {
        haveDeliveriesEnded.exchange(false, ordering: .sequentiallyConsistent)
    }

    /// Returns whether events were written since the last call. Called by the relay before it looks.
    func takePending() -> Bool {
        sentUrgency.store(Urgency.none.rawValue, ordering: .sequentiallyConsistent)
        return isPending.exchange(false, ordering: .acquiringAndReleasing)
    }

    /// Sets the function that is called when the log has grown.
    func onNumbered(_ body: @escaping @Sendable () -> Void) {
        let callback = Callback(body)
        numberedBody.withLock { $0 = callback }
    }

    /// Call after a pass of this node.
    func numbered() {
        if hasListeners.load(ordering: .relaxed) { numberedBody.withLock { $0 }?() }
    }
}
