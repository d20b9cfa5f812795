import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Gives events their sequence numbers and creates their deliveries. Has its own thread and connection. A
/// *pass* is one `RelayTransaction`; one pass at a time runs in the whole cluster.
///
/// The way of an event:
/// 1. The transaction that records a result, or makes any other change with an event, also inserts the event
///    into `event_inbox` (for example finish_jobs.sql). Change and event commit together.
/// 2. After the commit, `EventSignal.written` wakes this node's relay: at once if a webhook may want the
///    event, within 20 ms if only an event stream does. All other events are found within 0.5 s,
///    those of other nodes and of crashed processes within 1 s.
///    On a nearly idle node, the transaction of a result that a webhook waits for runs a pass itself
///    (`DispatcherState.numbersEvents`), unless another pass is under way: one commit less.
/// 3. A pass takes the advisory lock, then rows of the inbox in the order of their positions
///    (take_events.sql).
/// 4. `EventRouter.plan` finds the endpoints and job webhooks that want each event. Events whose deliveries
///    are too many for one pass go back to the inbox.
/// 5. number_events.sql gives each event the next sequence number of its session, and keep_events.sql adds
///    the events to the log.
/// 6. `EventRouter.commit` adds the deliveries to the outbox (table `deliveries`). `DeliveryHandover` leases
///    deliveries to job webhooks at once if this node's sender has credits for the receiver.
/// 7. After the commit, leased deliveries go to the sender directly. `CommitObserver.deliveriesAdded` makes
///    it claim all others through `DeliveryOutbox`. `EventSignal.numbered` and a notification to the other
///    nodes wake `EventTail`, which feeds event streams.
/// 8. The sender posts the delivery and records each try (`DeliveryOutbox.record`) until it is accepted or
///    given up.
/// 9. After the last delivery of a drained session, `SessionEnds` writes the session's final event.
///
/// A crash before a commit leaves the event where it was; the next pass on any node continues.
final class EventRelay: Sendable {
    /// Nanoseconds between checks for events of this node, and for events of others.
    private static let writtenInterval: Int64 = 500_000_000
    private static let lookInterval: Int64 = 1_000_000_000
    /// Nanoseconds between passes if only event streams wait.
    private static let soonInterval: Int64 = 20_000_000

    private let numbering: EventNumbering

    init(_ numbering: EventNumbering) {
        self.numbering = numbering
    }

    func close() { numbering.signals.events.mailbox.close() }

    /// Body of the thread; returns after `close()`. Events left in the inbox are found by the next process or
    /// another node.
    func run() {
        let database = numbering.context.connection(
            "events", counts: true,
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
        let mailbox = numbering.signals.events.mailbox
        let handover = DeliveryHandover(numbering.context, numbering.nodeState)
        var ends = SessionEnds(numbering)
        var lowWatermark = InboxLowWatermark()
        var rowMax = InboxSelection.rowMax
        var delay = RelayDelay()
        var nextPass: Int64 = 0
        var nextLook: Int64 = 0
        var lastPass: Int64 = 0
        var isDue = false
        while true {
            let pause = max(Int64(database.retryIn / .nanoseconds(1)), nextPass - Sys.monotonicNanoseconds())
            let messages = mailbox.wait(milliseconds: Int32(max(0, pause + 999_999) / 1_000_000))
            let isClosed = mailbox.isClosed
            let now = Sys.monotonicNanoseconds()
            for message in messages {
                switch message {
                case .wake: nextPass = min(nextPass, delay.earliest)
                case .soon: nextPass = min(nextPass, lastPass + Self.soonInterval)
                case .pass: nextPass = now
                }
                isDue = true
            }
            if !isClosed, now >= nextPass {
                if numbering.signals.events.takePending() { isDue = true }
                var found = (eventCount: 0, isMore: false)
                if isDue || now >= nextLook {
                    found = relay(
                        database, handover, &ends, &lowWatermark, &rowMax, isDue: isDue,
                        looks: now >= nextLook)
                    if now >= nextLook { nextLook = now + Self.lookInterval }
                }
                isDue = found.isMore
                lastPass = Sys.monotonicNanoseconds()
                delay.ended(lastPass, eventCount: found.eventCount)
                nextPass = lastPass + (found.isMore ? 0 : Self.writtenInterval)
            }
            for case .pass(let done) in messages { done() }
            if isClosed { return }
        }
    }

    /// Runs the passes that are due. `isDue`: events are known to be in the inbox. `looks`: also checks for
    /// events of other nodes. Returns how many events were numbered, and whether known events are left.
    private func relay(
        _ database: ReconnectingConnection, _ handover: DeliveryHandover, _ ends: inout SessionEnds,
        _ lowWatermark: inout InboxLowWatermark, _ rowMax: inout Int32, isDue: Bool, looks: Bool
    ) -> (eventCount: Int, isMore: Bool) {
        do {
            return try database.withConnection { connection throws(PostgresError) in
                lowWatermark.connected(database.connectionCount)
                var isFound = false
                if looks { isFound = try look(&connection, &ends, &lowWatermark) }
                numbering.signals.events.lowWatermark.store(lowWatermark.position, ordering: .relaxed)
                var found = (eventCount: 0, isMore: false)
                if isDue || isFound {
                    found = try passes(&connection, handover, &ends, lowWatermark.position, &rowMax)
                }
                if numbering.signals.events.takeEndedDeliveries() { ends.isDue = true }
                // After the passes, since each drained session is looked up among the events without a
                // number.
                found.eventCount += try ends.writeFinalEvents(
                    &connection, handover, lowWatermark: lowWatermark.position)
                return found
            }
        } catch {
            // The events stay in the inbox; the next check finds them.
            if !error.isConnectionLost, !error.isRetryable {
                numbering.context.logger.error("numbering events failed", metadata: ["error": "\(error)"])
            }
            return (0, false)
        }
    }

    /// Checks for events that other nodes or an earlier process have left.
    private func look(
        _ connection: inout Connection, _ ends: inout SessionEnds, _ lowWatermark: inout InboxLowWatermark
    ) throws(PostgresError) -> Bool {
        let now = Sys.monotonicNanoseconds()
        let found = try Self.look(lowWatermark.question(now), &connection)
        lowWatermark.note(found.look, at: now)
        let isEmpty = found.look.first == nil
        if isEmpty { numbering.context.metrics.relayLagMicroseconds.store(0, ordering: .relaxed) }
        numbering.signals.events.hasEndpoints.store(found.hasEndpoints, ordering: .relaxed)
        if found.hasDrained { ends.isDue = true }
        return !isEmpty
    }

    static func look(
        _ question: InboxLowWatermark.Question, _ connection: inout Connection
    ) throws(PostgresError) -> (look: InboxLowWatermark.Look, hasDrained: Bool, hasEndpoints: Bool) {
        var parameters = Parameters.int64(question.position)
        parameters.append(bool: question.isNumbered)
        let found = try connection.execute(Statements.hasEvents, parameters)
        let look = InboxLowWatermark.Look(
            first: found.isNull(0, 0) ? nil : found.int64(0, 0), drawn: found.int64(0, 3),
            oldest: found.int64(0, 4), number: found.isNull(0, 5) ? nil : found.int64(0, 5))
        return (look, found.bool(0, 1), found.bool(0, 2))
    }

    /// Runs passes until the inbox is empty. A tenant whose deliveries do not fit into one pass gets one
    /// pass; its other events are left for later (`isMore`), so that other tenants do not wait. If the
    /// database refuses a pass, smaller ones are tried until the refused row is found and set aside: one row
    /// must not delay all others.
    private func passes(
        _ connection: inout Connection, _ handover: DeliveryHandover, _ ends: inout SessionEnds,
        _ lowWatermark: Int64, _ rowMax: inout Int32
    ) throws(PostgresError) -> (eventCount: Int, isMore: Bool) {
        var busy: [String] = []
        var eventCount = 0
        while true {
            let outcome: RelayTransaction.Outcome
            do throws(PostgresError) {
                let selection = InboxSelection(rowMax: rowMax, lowWatermark: lowWatermark, except: busy)
                outcome = try RelayTransaction.commit(&connection, numbering, selection, handover: handover)
            } catch {
                handover.discard()
                // Whatever the error is: the pass may have been too large.
                let isSmallest = rowMax == 1
                rowMax = max(1, rowMax / 2)
                guard error.isOfData else { throw error }
                if isSmallest, try !reject(&connection, error, except: busy) { throw error }
                continue
            }
            numbering.note(outcome, handedCount: handover.commit())
            if outcome.hasDrained { ends.isDue = true }
            eventCount += outcome.eventCount
            rowMax = min(InboxSelection.rowMax, rowMax * 2)
            if let tenant = outcome.busyTenant { busy.append(tenant) }
            if !outcome.isFull { return (eventCount, !busy.isEmpty) }
        }
    }

    /// Sets the first row of the inbox aside. Returns `false` if there is none.
    private func reject(
        _ connection: inout Connection, _ error: PostgresError, except busy: [String]
    ) throws(PostgresError) -> Bool {
        var isNumbered = true
        let outcome: RelayTransaction.Outcome?
        do throws(PostgresError) {
            outcome = try RelayTransaction.reject(
                &connection, numbering, except: busy, error: error, isNumbered: true)
        } catch {
            guard error.isOfData else { throw error }
            isNumbered = false
            outcome = try RelayTransaction.reject(
                &connection, numbering, except: busy, error: error, isNumbered: false)
        }
        guard let outcome, let rejected = outcome.rejected else { return false }
        numbering.context.metrics.rejectedEvents.add(1, ordering: .relaxed)
        numbering.context.logger.critical(
            "events were moved to rejected_events, since the database refuses them",
            metadata: [
                "tenant": "\(rejected.tenant)", "session": "\(rejected.session)", "error": "\(error)",
                "numbered": "\(isNumbered)",
            ])
        numbering.note(outcome, handedCount: 0)
        return true
    }

}
