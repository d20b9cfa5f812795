import FerryCore
import Postgres
import Synchronization

/// Hands new deliveries to this node's sender (step 6 of `EventRelay`): it leases them in the transaction
/// that creates them and passes them on after its commit, so that the sender need not claim them. Only for
/// job webhooks: what is sent to an endpoint depends on its settings at that time. Used on one thread,
/// the relay's or the dispatcher's.
final class DeliveryHandover {
    /// Maximum number of receivers whose queue ids are cached.
    private static let queueMax = 10_000

    private let context: StoreContext
    private let credits: DeliveryCredits
    private let nodeState: NodeState
    private var queues: [String: ReceiverQueueID] = [:]
    private var leased: LeasedDeliveries?

    init(_ context: StoreContext, _ nodeState: NodeState) {
        self.context = context
        self.nodeState = nodeState
        credits = context.configuration.credits
    }

    /// Returns for each draft whether it is to be inserted as leased for `Limits.deliveryLeaseSeconds`.
    func offer(
        _ drafts: ArraySlice<DeliveryDraft>, _ connection: inout Connection
    ) throws(PostgresError) -> [Bool] {
        guard credits.isOpen, !nodeState.isHeld.load(ordering: .relaxed) else {
            return Array(repeating: false, count: drafts.count)
        }
        try readQueues(drafts, &connection)
        return drafts.map { take($0) }
    }

    private func take(_ draft: DeliveryDraft) -> Bool {
        guard draft.endpoint == nil, let queue = queues[Self.receiver(of: draft)] else { return false }
        var secrets = JobSecrets()
        if let sealed = draft.secrets {
            guard let opened = context.configuration.openSecrets(sealed) else { return false }
            secrets = opened
        }
        // One time for all deliveries of the transaction, the earliest: the sender may stop too early, which
        // does no harm.
        var leased =
            leased ?? LeasedDeliveries(leasedUntil: context.clock.now() + Limits.deliveryLeaseSeconds)
        defer { self.leased = leased }
        let (event, record) = (draft.event, draft.event.record)
        var delivery = Delivery(
            id: draft.id, receiverQueue: queue, event: event.id, type: record.type.rawValue,
            tenant: event.tenant, session: event.session, job: record.job, sequence: event.sequence,
            occurredAt: event.timestamp, url: draft.url, secret: secrets.webhookSecret,
            headers: secrets.webhookHeaders, payload: draft.payload, tls: secrets.webhookTLS,
            jobJSON: draft.jobJSON, traceparent: draft.traceparent, tryNumber: 1)
        delivery.secretByteCount = draft.secrets?.count ?? 0
        guard credits.reserve(delivery) else {
            leased.unreserved.insert(queue)
            return false
        }
        leased.deliveries.append(delivery)
        return true
    }

    /// Passes the leased deliveries to the sender and returns their number. Call after the commit.
    func commit() -> Int {
        guard let leased else { return 0 }
        self.leased = nil
        credits.hand(leased)
        return leased.deliveries.count
    }

    /// Returns the credits. Call if the transaction has failed. If it has committed nevertheless, the
    /// deliveries are claimed when their lease is over.
    func discard() {
        credits.release(leased?.deliveries ?? [])
        leased = nil
    }

    // MARK: Receiver queues

    private func readQueues(
        _ drafts: ArraySlice<DeliveryDraft>, _ connection: inout Connection
    ) throws(PostgresError) {
        var unknown: [String: DeliveryDraft] = [:]
        for draft in drafts where draft.endpoint == nil {
            let receiver = Self.receiver(of: draft)
            if queues[receiver] == nil { unknown[receiver] = draft }
        }
        guard !unknown.isEmpty else { return }
        var parameters = Parameters()
        let asked = Array(unknown)
        parameters.appendArray(.text, asked) { $0.append(text: $1.value.event.tenant) }
        parameters.appendArray(.text, asked) { $0.append(text: $1.value.url) }
        let rows = try connection.execute(Statements.hashReceiverQueues, parameters)
        if queues.count + asked.count > Self.queueMax { queues = [:] }
        for (row, one) in asked.enumerated() where !rows.isNull(row, 0) {
            queues[one.key] = rows.identifier(row, 0)
        }
    }

    /// Returns the key of a receiver: the tenant, and the URL up to its path.
    private static func receiver(of draft: DeliveryDraft) -> String {
        let url = draft.url.utf8
        var slashCount = 0
        let end = url.firstIndex { byte in
            if byte == UInt8(ascii: "/") { slashCount += 1 }
            return slashCount > 2 || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#")
        }
        return "\(draft.event.tenant) \(draft.url[..<(end ?? url.endIndex)])"
    }
}
