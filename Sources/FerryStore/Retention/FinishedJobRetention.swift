import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Retention of finished jobs. Adds partitions ahead of time, drops old ones as a whole, and deletes in
/// batches the jobs that are kept for a shorter time. Used on the housekeeper's thread only.
struct FinishedJobRetention {
    /// Advisory lock "ferryhis": one node at a time changes the history.
    private static let lock: Int64 = 0x6665_7272_7968_6973
    private static let batchMax: Int32 = 500
    /// Maximum number of jobs that may be kept when their partition is dropped: those that ended long after
    /// they were submitted.
    private static let lateCountMax = 1_000
    /// Nanoseconds until a partition is scanned again that had to stay.
    private static let lateInterval: Int64 = 3_600_000_000_000
    private static let firstDelivery = DeliveryID(high: 0, low: 0)
    /// Pause after a scan of all deliveries, as a multiple of its duration.
    private static let deliveryScanPause: Int64 = 50
    /// Seconds; with a shorter retention, jobs are deleted in batches.
    private static let shortRetention = 86_400.0
    /// Seconds by which the clocks of nodes may differ.
    private static let clockSeconds = 60.0
    /// Maximum number of relay passes that one batch waits for, and milliseconds of each wait.
    private static let passMax = 5
    private static let passMilliseconds: Int32 = 1_000
    private static let keyLifetimeSeconds = 86_400.0
    private static let removalMax = 2_000
    /// Timeout of statements that scan a whole partition.
    private static let timeout = Duration.seconds(300)

    private struct Partition {
        let name: String
        /// End of the time range (exclusive) of its jobs' creation.
        let end: Timestamp
        let isAttached: Bool
        let rowCount: Int64

        init?(name: String, isAttached: Bool, rowCount: Int64) {
            guard let milliseconds = Int64(name.suffix(12), radix: 16) else { return nil }
            self.name = name
            end = Timestamp(microseconds: milliseconds * 1_000)
            self.isAttached = isAttached
            self.rowCount = rowCount
        }
    }

    private let context: StoreContext
    private let signals: StoreSignals
    /// Called after each batch and each partition, outside of any transaction: runs urgent work while the
    /// history keeps the thread busy for hours.
    private let runUrgent: (ReconnectingConnection) throws(PostgresError) -> Void
    /// Next scan by partition, in monotonic nanoseconds.
    private var nextScans: [String: Int64] = [:]
    /// Deliveries up to this id were scanned; those that were pending are checked again by the next scan of
    /// all deliveries.
    private var deliveryPosition = firstDelivery
    /// Monotonic nanoseconds.
    private var nextDeliveryScan: Int64 = 0

    init(
        _ context: StoreContext, _ signals: StoreSignals,
        runUrgent: @escaping (ReconnectingConnection) throws(PostgresError) -> Void
    ) {
        self.context = context
        self.signals = signals
        self.runUrgent = runUrgent
    }

    private var retention: Double { context.configuration.retentionSeconds }

    /// Does everything that is due.
    mutating func keep(_ database: ReconnectingConnection) throws(PostgresError) {
        // First, since the other parts may take long: jobs without a partition go to `finished_jobs_rest`.
        try Self.part(context) { () throws(PostgresError) in
            var isAdded = true
            while isAdded { isAdded = try addNext(database) }
        }
        try Self.part(context) { () throws(PostgresError) in try deleteExpired(database) }
        try Self.part(context) { () throws(PostgresError) in try dropOld(database) }
        try Self.part(context) { () throws(PostgresError) in
            try removeOld(Statements.removeOldKeys, seconds: Self.keyLifetimeSeconds, database)
        }
        try Self.part(context) { () throws(PostgresError) in
            try removeOld(
                Statements.removeOldBulkOperations, seconds: Limits.bulkOperationSeconds, database)
        }
        try Self.part(context) { () throws(PostgresError) in
            try removeOld(Statements.removeOldJobGroups, seconds: retention, database)
        }
        try Self.part(context) { () throws(PostgresError) in
            try removeOld(Statements.removeOldTransfers, seconds: Self.transferSeconds, database)
        }
    }

    /// Runs one part. If it fails, the next part runs all the same; only a lost connection is thrown.
    private static func part(
        _ context: StoreContext, _ body: () throws(PostgresError) -> Void
    ) throws(PostgresError) {
        do throws(PostgresError) {
            try body()
        } catch {
            if error.isConnectionLost { throw error }
            // A long read holds a lock; the next run comes soon.
            if error.sqlState == lockNotAvailable { return }
            context.logger.error("housekeeping failed", metadata: ["error": "\(error)"])
        }
    }

    private static let lockNotAvailable = "55P03"
    /// Seconds for which the sums of transfers are kept: longer than the day that they count for.
    private static let transferSeconds = 172_800.0

    // MARK: Partitions

    /// Adds a partition if one is due. Returns `true` if another one may be due.
    private func addNext(_ database: ReconnectingConnection) throws(PostgresError) -> Bool {
        let width = context.configuration.historyWidthSeconds
        let now = context.clock.now()
        return try exclusively(database) { connection throws(PostgresError) in
            guard let last = try Self.partitions(&connection).last(where: \.isAttached),
                last.end < now + 2 * width
            else { return false }
            // After a long stop, `finished_jobs_rest` has jobs after the end of the last partition.
            let since = last.end > now ? last.end : now + Self.clockSeconds
            var parameters = Parameters()
            parameters.append(JobID.first(at: since))
            parameters.append(JobID.first(at: since + width))
            _ = try connection.execute(Statements.addHistory, parameters)
            return true
        } ?? false
    }

    private mutating func dropOld(_ database: ReconnectingConnection) throws(PostgresError) {
        let since = context.clock.now() + -retention
        let partitions = try database.withConnection { connection throws(PostgresError) in
            try Self.partitions(&connection)
        }
        for partition in partitions where partition.isAttached && partition.end < since {
            try detach(partition, since, database)
            try runUrgent(database)
        }
        for partition in partitions where partition.end < since {
            try drop(partition, since, database)
            try runUrgent(database)
        }
    }

    private mutating func detach(
        _ partition: Partition, _ since: Timestamp, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        let now = Sys.monotonicNanoseconds()
        guard nextScans[partition.name, default: 0] <= now else { return }
        var look = Parameters()
        look.append(text: partition.name)
        look.append(since)
        look.append(int32: Int32(Self.lateCountMax) + 1)
        let late: [JobID] = try database.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.lateHistory, look, timeout: Self.timeout).identifiers()
        }
        guard late.count <= Self.lateCountMax else {
            nextScans[partition.name] = now + Self.lateInterval
            return try thin(partition, since, database)
        }
        var parameters = Parameters()
        parameters.append(text: partition.name)
        parameters.appendArray(.uuid, late) { $0.append($1) }
        _ = try exclusively(database) { [parameters] connection throws(PostgresError) in
            guard
                try Self.partitions(&connection).contains(where: {
                    $0.name == partition.name && $0.isAttached
                })
            else { return }
            _ = try connection.execute(Statements.detachHistory, parameters)
        }
    }

    /// Deletes jobs from a partition that has to stay, if their retention is over.
    private func thin(
        _ partition: Partition, _ since: Timestamp, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(JobID.first(at: partition.end))
        parameters.append(since)
        parameters.append(int32: Self.batchMax)
        try delete(Statements.oldJobs, parameters, since: since, database)
    }

    private mutating func drop(
        _ partition: Partition, _ since: Timestamp, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(text: partition.name)
        parameters.append(since)
        let isDropped =
            try exclusively(database) { [parameters] connection throws(PostgresError) in
                guard
                    try Self.partitions(&connection).contains(where: {
                        $0.name == partition.name && !$0.isAttached
                    })
                else { return false }
                _ = try connection.execute(Statements.dropHistory, parameters, timeout: Self.timeout)
                return true
            } ?? false
        guard isDropped else { return }
        nextScans[partition.name] = nil
        context.metrics.removedJobs.add(partition.rowCount, ordering: .relaxed)
        context.logger.info(
            "finished jobs were removed with their partition",
            metadata: ["partition": "\(partition.name)", "count": "\(partition.rowCount)"])
    }

    private static func partitions(_ connection: inout Connection) throws(PostgresError) -> [Partition] {
        let rows = try connection.execute(Statements.readHistory)
        return (0..<rows.rowCount).compactMap { row in
            Partition(name: rows.text(row, 0), isAttached: rows.bool(row, 1), rowCount: rows.int64(row, 2))
        }
    }

    /// Runs a transaction under the advisory lock. Returns `nil` if another node holds it.
    private func exclusively<Value>(
        _ database: ReconnectingConnection, _ body: (inout Connection) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value? {
        try database.withConnection { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) -> Value? in
                guard try connection.execute(Statements.tryLock, .int64(Self.lock)).bool(0, 0) else {
                    return nil
                }
                return try body(&connection)
            }
        }
    }

    // MARK: Batches

    private mutating func deleteExpired(_ database: ReconnectingConnection) throws(PostgresError) {
        let now = context.clock.now()
        for record in context.sessions.current.records.values {
            guard let own = record.configuration.retention, own < retention else { continue }
            let isDefault = record.key.name == SessionName.standard
            var parameters = Parameters()
            parameters.append(text: record.key.tenant)
            if !isDefault { parameters.append(text: record.key.name) }
            parameters.append(JobID.first(at: now + -own))
            parameters.append(now + -own)
            parameters.append(int32: Self.batchMax)
            let statement = isDefault ? Statements.oldDefaultJobs : Statements.oldSessionJobs
            try delete(statement, parameters, since: now + -own, database)
        }
        var parameters = Parameters()
        // With a short retention, partitions are too wide, and there are few jobs.
        let isShort = retention < Self.shortRetention
        if isShort { parameters.append(JobID.first(at: now + -retention)) }
        parameters.append(now + -retention)
        parameters.append(int32: Self.batchMax)
        let statement = isShort ? Statements.oldJobs : Statements.oldRestJobs
        try delete(statement, parameters, since: now + -retention, database)
        try deleteDeliveries(before: DeliveryID.first(at: now + -retention), database)
    }

    /// Removes old rows in small transactions: a day may have millions. `statement` returns how many it has
    /// removed.
    private func removeOld(
        _ statement: Statement, seconds: Double, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(float64: seconds)
        parameters.append(int32: Int32(Self.removalMax))
        while !signals.chores.isClosed {
            let removed = try database.withConnection { connection throws(PostgresError) in
                try connection.execute(statement, parameters).int64(0, 0)
            }
            if removed < Int64(Self.removalMax) { return }
            try runUrgent(database)
        }
    }

    /// Deletes jobs in batches. Each batch begins where the one before ended, so that jobs which stay are
    /// read once. The last parameter of `statement` is that id.
    private func delete(
        _ statement: Statement, _ parameters: Parameters, since: Timestamp, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        var last = JobID(high: 0, low: 0)
        while !signals.chores.isClosed {
            var next = parameters
            next.append(last)
            let (old, position) = try database.withConnection {
                [next] connection throws(PostgresError) -> ([JobID], Int64?) in
                let rows = try connection.execute(statement, next)
                let hasEvents = rows.rowCount > 0 && !rows.isNull(0, 1)
                return (rows.identifiers(), hasEvents ? rows.int64(0, 1) : nil)
            }
            guard let greatest = old.max() else { return }
            // The relay needs the rows of jobs to create the deliveries of their events.
            if let position, try !awaitNumbers(upTo: position, database) { return }
            var removal = Parameters()
            removal.appendArray(.uuid, old) { $0.append($1) }
            removal.append(since)
            let gone: [JobID] =
                try exclusively(database) { [removal] connection throws(PostgresError) in
                    try connection.execute(Statements.removeJobs, removal).identifiers()
                } ?? []
            context.metrics.removedJobs.add(Int64(gone.count), ordering: .relaxed)
            try runUrgent(database)
            if old.count < Int(Self.batchMax) { return }
            last = greatest
        }
    }

    /// Waits until all events up to a position of the inbox have their numbers. Returns `false` if that takes
    /// too long.
    private func awaitNumbers(upTo position: Int64, _ database: ReconnectingConnection) throws(PostgresError)
        -> Bool
    {
        for _ in 0..<Self.passMax {
            let done = Mailbox<Void>()
            guard signals.events.mailbox.send(.pass(done: { done.send(()) })) else { return false }
            _ = done.wait(milliseconds: Self.passMilliseconds)
            let areLeft = try database.withConnection { connection throws(PostgresError) in
                try connection.execute(Statements.hasEventsUntil, .int64(position)).bool(0, 0)
            }
            if !areLeft { return true }
            if signals.chores.isClosed { return false }
        }
        return false
    }

    /// Deletes old deliveries. Pending ones stay and are skipped until the next scan of all deliveries: there
    /// may be millions.
    private mutating func deleteDeliveries(
        before end: DeliveryID, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        let start = Sys.monotonicNanoseconds()
        let isWhole = start >= nextDeliveryScan
        if isWhole { deliveryPosition = Self.firstDelivery }
        while !signals.chores.isClosed {
            var parameters = Parameters()
            parameters.append(end)
            parameters.append(int32: Self.batchMax)
            parameters.append(deliveryPosition)
            let gone: [DeliveryID]? = try exclusively(database) {
                [parameters] connection throws(PostgresError) in
                try connection.execute(Statements.expireDeliveries, parameters).identifiers()
            }
            guard let gone else { return }
            guard gone.count == Int(Self.batchMax), let last = gone.max() else { break }
            deliveryPosition = last
            try runUrgent(database)
        }
        deliveryPosition = max(deliveryPosition, end)
        guard isWhole else { return }
        let now = Sys.monotonicNanoseconds()
        nextDeliveryScan = now + (now - start) * Self.deliveryScanPause
    }
}

extension Identifier {
    /// Returns the lowest id of that time.
    static func first(at instant: Timestamp) -> Self {
        Self(high: UInt64(max(0, instant.microseconds / 1_000)) << 16, low: 0)
    }
}
