import FerryCore
import Synchronization
import Sys

/// Calls from any part of the store to the threads of the store, and to the other parts of this node. Any
/// thread.
final class StoreSignals: Sendable {
    let events = EventSignal()
    /// Times at which jobs must have ended, for the `Reaper`; closed to end the heartbeat thread.
    let expiries = Mailbox<Timestamp>()
    /// Wakes the `Housekeeper`; closed to end it.
    let chores = Mailbox<Void>()
    /// Wakes the `ScheduleRunner`; closed to end it.
    let scheduleWakes = Mailbox<Void>()
    /// Wakes the `BulkOperationRunner`; closed to end it.
    let bulkWakes = Mailbox<Void>()
    private let clock: DatabaseClock
    private let dispatcher = Mutex(ValueCallback<Timestamp?> { _ in })
    private let search = Mutex(Callback {})
    private let dependents = Mutex<Callback?>(nil)
    private let runner = Mutex<(any AttemptRunner)?>(nil)
    private let observer = Mutex<(any CommitObserver)?>(nil)
    private let prober = Mutex<(any HostProber)?>(nil)
    private let remover = Mutex<(any UploadRemover)?>(nil)
    /// `true` if there may be uploads to remove that the `Housekeeper` has not looked for.
    private let hasAbandonedUploads = Atomic<Bool>(true)

    init(_ clock: DatabaseClock) { self.clock = clock }

    /// Sets the functions that `wakeDispatcher`, `lookForJobs` and `noteDependencies` call.
    func connect(
        dispatcher wake: @escaping @Sendable (Timestamp?) -> Void,
        search look: @escaping @Sendable () -> Void, dependents note: @escaping @Sendable () -> Void
    ) {
        let (waking, looking, noting) = (ValueCallback(wake), Callback(look), Callback(note))
        dispatcher.withLock { $0 = waking }
        search.withLock { $0 = looking }
        dependents.withLock { $0 = noting }
    }

    /// Sets the other parts of this node.
    func connect(
        runner: (any AttemptRunner)?, observer: (any CommitObserver)?, prober: (any HostProber)?,
        remover: (any UploadRemover)?
    ) {
        self.remover.withLock { $0 = remover }
        self.runner.withLock { $0 = runner }
        self.prober.withLock { $0 = prober }
        self.observer.withLock { $0 = observer }
    }

    /// Wakes the dispatcher for queued jobs, or at the next begin date.
    func wakeDispatcher(at begin: Timestamp? = nil) {
        let wake = dispatcher.withLock { $0 }
        wake(begin)
    }

    /// Begins again what operators held: jobs, schedules and deliveries. The thread for hosts looks within
    /// seconds.
    func beginAgain() {
        wakeDispatcher()
        scheduleWakes.send(())
        commitObserver?.deliveriesAdded(1)
    }

    /// Makes the dispatcher look for queued jobs that this process does not know.
    func lookForJobs() { search.withLock { $0 }() }

    /// Wakes the reader of dependencies. Call after a commit that has written to `dependency_work`.
    func noteDependencies() { dependents.withLock { $0 }?() }

    /// Wakes the reaper for a job that must have ended at this time, if that is before the reaper reads the
    /// next such time from the database: at each heartbeat. Call after the commit.
    func noteExpiry(_ expiry: Timestamp) {
        if expiry - clock.now() < Limits.expiryNoticeSeconds { expiries.send(expiry) }
    }

    var attemptRunner: (any AttemptRunner)? { runner.withLock { $0 } }
    var commitObserver: (any CommitObserver)? { observer.withLock { $0 } }
    var hostProber: (any HostProber)? { prober.withLock { $0 } }
    var uploadRemover: (any UploadRemover)? { remover.withLock { $0 } }

    /// Payload of the notification about uploads that are to be removed (`abandon_uploads`).
    static let uploadsNotification = "abandoned_uploads"

    /// Lets the `Housekeeper` look for uploads that are to be removed.
    func noteAbandonedUploads() {
        hasAbandonedUploads.store(true, ordering: .relaxed)
        chores.send(())
    }

    /// Returns whether there may be uploads to remove, once for each note.
    func takeAbandonedUploads() -> Bool { hasAbandonedUploads.exchange(false, ordering: .relaxed) }
}
