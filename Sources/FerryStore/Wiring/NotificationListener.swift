import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Receives the notifications of other nodes (LISTEN). They only save time: polling finds the same changes.
final class NotificationListener: Sendable {
    private let context: StoreContext
    private let nodeState: NodeState
    private let recentResults: RecentResults
    private let stopping = EventDescriptor()
    private let isStopping = Mailbox<Never>()
    private let onWork: @Sendable () -> Void
    private let onStop: @Sendable (JobID, AttemptStop) -> Void
    private let onLimits: @Sendable () -> Void
    private let onEdit: @Sendable (JobID) -> Void
    private let onReturn: @Sendable (JobID) -> Void
    private let onHosts: @Sendable () -> Void
    private let onEvents: @Sendable () -> Void
    private let onSessions: @Sendable () -> Void
    private let onOperations: @Sendable () -> Void
    private let onTenants: @Sendable () -> Void
    private let onPermits: @Sendable () -> Void
    private let onUploads: @Sendable () -> Void

    init(
        _ context: StoreContext, _ nodeState: NodeState, _ recentResults: RecentResults,
        onWork: @escaping @Sendable () -> Void,
        onStop: @escaping @Sendable (JobID, AttemptStop) -> Void, onLimits: @escaping @Sendable () -> Void,
        onEdit: @escaping @Sendable (JobID) -> Void, onReturn: @escaping @Sendable (JobID) -> Void,
        onHosts: @escaping @Sendable () -> Void,
        onEvents: @escaping @Sendable () -> Void, onSessions: @escaping @Sendable () -> Void,
        onOperations: @escaping @Sendable () -> Void, onTenants: @escaping @Sendable () -> Void,
        onPermits: @escaping @Sendable () -> Void, onUploads: @escaping @Sendable () -> Void
    ) {
        self.context = context
        self.nodeState = nodeState
        self.recentResults = recentResults
        self.onWork = onWork
        self.onStop = onStop
        self.onLimits = onLimits
        self.onEdit = onEdit
        self.onReturn = onReturn
        self.onHosts = onHosts
        self.onEvents = onEvents
        self.onSessions = onSessions
        self.onOperations = onOperations
        self.onTenants = onTenants
        self.onPermits = onPermits
        self.onUploads = onUploads
    }

    func close() {
        isStopping.close()
        stopping.signal()
    }

    /// Seconds after which a database that refuses LISTEN is asked again.
    private static let refusalSeconds: Int32 = 60

    /// The thread's body.
    func run() {
        var isRefused = false
        let database = context.connection(
            "listen",
            setUp: { connection throws(PostgresError) in
                isRefused = false
                do throws(PostgresError) {
                    try connection.listen("ferry")
                } catch {
                    // A pooler that shares sessions refuses LISTEN.
                    guard connection.isOpen, !error.isConnectionLost else { throw error }
                    isRefused = true
                }
            }, adjust: { $0.resultTimeout = .seconds(5) })
        var isLogged = false
        while !isStopping.isClosed {
            do {
                let arrived = try database.withConnection { connection throws(PostgresError) in
                    if isRefused { return [Notification]() }
                    nodeState.isListening.store(true, ordering: .relaxed)
                    return try connection.notifications(
                        timeout: .seconds(30), wakeDescriptor: stopping.descriptor)
                }
                handle(arrived)
            } catch {
                nodeState.isListening.store(false, ordering: .relaxed)
                _ = isStopping.wait(milliseconds: max(50, Int32(database.retryIn / .milliseconds(1))))
                continue
            }
            guard isRefused else { continue }
            if !isLogged { context.logger.notice("the database refuses LISTEN: this node polls") }
            isLogged = true
            database.close()
            _ = isStopping.wait(milliseconds: Self.refusalSeconds * 1_000)
        }
        nodeState.isListening.store(false, ordering: .relaxed)
    }

    private func handle(_ arrived: [Notification]) {
        var hasWork = false
        for notification in arrived {
            // The payload is `work`, a name of changed limits, hosts, tenants, events, sessions, settings,
            // permits or abandoned uploads, `edit:`, `return:` or `finished:` and a job, or how an attempt is
            // to end, a colon and its job.
            let words = notification.payload.split(separator: ":", maxSplits: 1)
            if words.count == 2, let how = AttemptStop(rawValue: String(words[0])) {
                if let job = JobID(uuidText: String(words[1])) { onStop(job, how) }
            } else if words.count == 2, words[0] == JobCommands.editNotification {
                if let job = JobID(uuidText: String(words[1])) { onEdit(job) }
            } else if words.count == 2, words[0] == RecentResults.changeNotification {
                if let job = JobID(uuidText: String(words[1])) { recentResults.forget(job) }
            } else if words.count == 2, words[0] == JobCommands.returnNotification {
                if let job = JobID(uuidText: String(words[1])) { onReturn(job) }
            } else if notification.payload == LimitsCache.notification {
                onLimits()
            } else if notification.payload == HostLimitsLoader.notification {
                onHosts()
            } else if notification.payload == EventNumbering.notification {
                onEvents()
            } else if notification.payload == SessionCache.notification {
                onSessions()
            } else if notification.payload == NodeState.operationsNotification {
                onOperations()
            } else if notification.payload == TenantLimitsLoader.notification {
                onTenants()
            } else if notification.payload == PermitTransaction.notification {
                onPermits()
            } else if notification.payload == StoreSignals.uploadsNotification {
                onUploads()
            } else {
                hasWork = true
            }
        }
        if hasWork { onWork() }
    }
}
