import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Numbers events and makes their deliveries: one pass at a time in the whole cluster. Woken when somebody is
/// to be told at once; what nobody waits for is taken in large steps.
final class EventRelay: Sendable {
    /// Between looks at what this node has written, and at what others have left.
    private static let writtenInterval: Int64 = 500_000_000
    private static let lookInterval: Int64 = 1_000_000_000
    /// Between passes for those who only listen.
    private static let soonInterval: Int64 = 20_000_000

    private let context: StoreContext

    init(_ context: StoreContext) { self.context = context }

    func close() { context.events.mailbox.close() }

    /// The thread's body. Whatever is left without a number is there for the next process, or another node.
    func run() {
        let lane = context.connection(
            "events", counts: true,
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
        let mailbox = context.events.mailbox
        let handover = DeliveryHandover(context)
        var ends = SessionEnds(context)
        var floor = InboxLowWatermark()
        var rowMax = InboxSelection.rowMax
        var pace = RelayDelay()
        var nextPass: Int64 = 0
        var nextLook: Int64 = 0
        var lastPass: Int64 = 0
        var isDue = false
        while true {
            let pause = max(Int64(lane.retryIn / .nanoseconds(1)), nextPass - Sys.monotonicNanoseconds())
            let messages = mailbox.wait(milliseconds: Int32(max(0, pause + 999_999) / 1_000_000))
            let isClosed = mailbox.isClosed
            let now = Sys.monotonicNanoseconds()
            for message in messages {
                switch message {
                case .wake: nextPass = min(nextPass, pace.earliest)
                case .soon: nextPass = min(nextPass, lastPass + Self.soonInterval)
                case .pass: nextPass = now
                }
                isDue = true
            }
            if !isClosed, now >= nextPass {
                if context.events.takePending() { isDue = true }
                var found = (eventCount: 0, isMore: false)
                if isDue || now >= nextLook {
                    found = relay(
                        lane, handover, &ends, &floor, &rowMax, isDue: isDue, looks: now >= nextLook)
                    if now >= nextLook { nextLook = now + Self.lookInterval }
                }
                isDue = found.isMore
                lastPass = Sys.monotonicNanoseconds()
                pace.ended(lastPass, eventCount: found.eventCount)
                nextPass = lastPass + (found.isMore ? 0 : Self.writtenInterval)
            }
            for case .pass(let done) in messages { done() }
            if isClosed { return }
        }
    }

    /// `isDue`: something is known to be there; `looks`: for what others have left as well. Returns how many
    /// events it found, and whether it has left some that are there.
    private func relay(
        _ lane: ReconnectingConnection, _ handover: DeliveryHandover, _ ends: inout SessionEnds,
        _ floor: inout InboxLowWatermark, _ rowMax: inout Int32, isDue: Bool, looks: Bool
    ) -> (eventCount: Int, isMore: Bool) {
        do {
            return try lane.withConnection { connection throws(PostgresError) in
                floor.connected(lane.connectionCount)
                var isFound = false
                if looks { isFound = try look(&connection, &ends, &floor) }
                var found = (eventCount: 0, isMore: false)
                if isDue || isFound {
                    found = try passes(&connection, handover, &ends, floor.position, &rowMax)
                }
                if context.events.takeEndedDeliveries() { ends.isDue = true }
                // After the passes: each session has to be looked for among what waits for its number.
                found.eventCount += try ends.tell(&connection, handover, floor: floor.position)
                return found
            }
        } catch {
            // What was written is still there, and is looked for when others are.
            if !error.isConnectionLost, !error.isRetryable {
                context.logger.error("events could not be numbered", metadata: ["error": "\(error)"])
            }
            return (0, false)
        }
    }

    /// Whether there is anything that other nodes, or an earlier process, have left.
    private func look(
        _ connection: inout Connection, _ ends: inout SessionEnds, _ floor: inout InboxLowWatermark
    ) throws(PostgresError) -> Bool {
        let now = Sys.monotonicNanoseconds()
        let found = try Self.look(floor.question(now), &connection)
        floor.note(found.look, at: now)
        let isEmpty = found.look.first == nil
        if isEmpty { context.metrics.relayLagMicroseconds.store(0, ordering: .relaxed) }
        context.events.hasEndpoints.store(found.hasEndpoints, ordering: .relaxed)
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

    /// Until the inbox is empty, but for the tenants that make more deliveries than fit into a pass: of each
    /// of them it makes one, so that nobody waits for all that theirs are. `isMore`: they have others. What
    /// the database refuses is looked for with ever smaller passes, and set aside: one row must not hold up
    /// all others.
    private func passes(
        _ connection: inout Connection, _ handover: DeliveryHandover, _ ends: inout SessionEnds,
        _ floor: Int64, _ rowMax: inout Int32
    ) throws(PostgresError) -> (eventCount: Int, isMore: Bool) {
        var busy: [String] = []
        var eventCount = 0
        while true {
            let outcome: RelayTransaction.Outcome
            do throws(PostgresError) {
                let selection = InboxSelection(rowMax: rowMax, floor: floor, except: busy)
                outcome = try RelayTransaction.commit(&connection, context, selection, handover: handover)
            } catch {
                handover.discard()
                // Whatever the reason is: it may be that there was too much at once.
                let isSmallest = rowMax == 1
                rowMax = max(1, rowMax / 2)
                guard error.isOfData else { throw error }
                if isSmallest, try !reject(&connection, error, except: busy) { throw error }
                continue
            }
            committed(outcome, handedCount: handover.commit())
            if outcome.hasDrained { ends.isDue = true }
            eventCount += outcome.eventCount
            rowMax = min(InboxSelection.rowMax, rowMax * 2)
            if let tenant = outcome.busyTenant { busy.append(tenant) }
            if !outcome.isFull { return (eventCount, !busy.isEmpty) }
        }
    }

    /// False: there is nothing to set aside.
    private func reject(
        _ connection: inout Connection, _ error: PostgresError, except busy: [String]
    ) throws(PostgresError) -> Bool {
        var isNumbered = true
        let outcome: RelayTransaction.Outcome?
        do throws(PostgresError) {
            outcome = try RelayTransaction.reject(
                &connection, context, except: busy, error: error, isNumbered: true)
        } catch {
            guard error.isOfData else { throw error }
            isNumbered = false
            outcome = try RelayTransaction.reject(
                &connection, context, except: busy, error: error, isNumbered: false)
        }
        guard let outcome, let rejected = outcome.rejected else { return false }
        context.metrics.rejectedEvents.add(1, ordering: .relaxed)
        context.logger.critical(
            "events were set aside that the database refuses",
            metadata: [
                "tenant": "\(rejected.tenant)", "session": "\(rejected.session)", "error": "\(error)",
                "numbered": "\(isNumbered)",
            ])
        committed(outcome, handedCount: 0)
        return true
    }

    private func committed(_ outcome: RelayTransaction.Outcome, handedCount: Int) {
        context.metrics.numberedEvents.add(Int64(outcome.eventCount), ordering: .relaxed)
        context.metrics.relayLagMicroseconds.store(outcome.lagMicroseconds, ordering: .relaxed)
        context.events.numbered()
        let waitingCount = outcome.deliveryCount - handedCount
        if waitingCount > 0 { context.commitObserver?.deliveriesAdded(waitingCount) }
    }
}
