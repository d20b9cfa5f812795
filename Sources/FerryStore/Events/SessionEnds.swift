import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Writes the final event of sessions that have drained, once none of their deliveries is pending. Runs in
/// transactions of its own after those that number events, and for a limited time, so that it does not delay
/// events. Used on the relay's thread only.
struct SessionEnds {
    /// Maximum number of sessions of one transaction.
    private static let batchMax = 100
    /// Nanoseconds after which a call ends, so that events are numbered first; the next call continues.
    private static let timeMax: Int64 = 100_000_000

    /// `true` if sessions may have drained, or deliveries of drained sessions have ended.
    var isDue = false
    private let numbering: EventNumbering
    /// The session after which the next batch begins.
    private var position = (tenant: "", session: "")

    init(_ numbering: EventNumbering) {
        self.numbering = numbering
    }

    /// Writes the final event of drained sessions if `isDue`. Returns the number of sessions whose final
    /// event was written. `lowWatermark`: low watermark of the inbox.
    mutating func writeFinalEvents(
        _ connection: inout Connection, _ handover: DeliveryHandover, lowWatermark: Int64
    ) throws(PostgresError) -> Int {
        guard isDue else { return 0 }
        isDue = false
        let end = Sys.monotonicNanoseconds() + Self.timeMax
        let isFromStart = position.tenant.isEmpty
        // Set before the scan, so that a delivery that ends during it is noticed.
        numbering.signals.events.awaitsDeliveries.store(true, ordering: .sequentiallyConsistent)
        var (count, areAllWritten) = (0, true)
        while true {
            let sessions = try next(&connection)
            let written = try writeFinalEvents(sessions[...], &connection, handover, lowWatermark)
            count += written
            if written < sessions.count { areAllWritten = false }
            if sessions.count < Self.batchMax {
                position = ("", "")
                break
            }
            position = sessions[sessions.count - 1]
            guard Sys.monotonicNanoseconds() < end else {
                isDue = true
                return count
            }
        }
        if areAllWritten, isFromStart {
            numbering.signals.events.awaitsDeliveries.store(false, ordering: .sequentiallyConsistent)
        } else if !isFromStart {
            isDue = true
        }
        return count
    }

    private func next(
        _ connection: inout Connection
    ) throws(PostgresError) -> [(tenant: String, session: String)] {
        var parameters = Parameters()
        parameters.append(text: position.tenant)
        parameters.append(text: position.session)
        parameters.append(int32: Int32(Self.batchMax))
        let rows = try connection.execute(Statements.drainedSessions, parameters)
        return (0..<rows.rowCount).map { (rows.text($0, 0), rows.text($0, 1)) }
    }

    /// If the database refuses a batch, halves it until only the refused session is left out.
    private func writeFinalEvents(
        _ sessions: ArraySlice<(tenant: String, session: String)>, _ connection: inout Connection,
        _ handover: DeliveryHandover, _ lowWatermark: Int64
    ) throws(PostgresError) -> Int {
        guard let first = sessions.first else { return 0 }
        do throws(PostgresError) {
            let outcome = try RelayTransaction.drain(
                Array(sessions), &connection, numbering, lowWatermark: lowWatermark, handover: handover)
            let handedCount = handover.commit()
            guard outcome.eventCount > 0 else { return 0 }
            numbering.context.metrics.numberedEvents.add(Int64(outcome.eventCount), ordering: .relaxed)
            numbering.signals.events.numbered()
            let waitingCount = outcome.deliveryCount - handedCount
            if waitingCount > 0 { numbering.signals.commitObserver?.deliveriesAdded(waitingCount) }
            return outcome.eventCount
        } catch {
            handover.discard()
            if error.isConnectionLost || error.isRetryable { throw error }
            if error.isOfData, sessions.count > 1 {
                let middle = sessions.startIndex + sessions.count / 2
                let before = try writeFinalEvents(sessions[..<middle], &connection, handover, lowWatermark)
                return before
                    + (try writeFinalEvents(sessions[middle...], &connection, handover, lowWatermark))
            }
            numbering.context.logger.error(
                "writing the final event of sessions failed",
                metadata: [
                    "tenant": "\(first.tenant)", "session": "\(first.session)",
                    "count": "\(sessions.count)", "error": "\(error)",
                ])
            return 0
        }
    }
}
