import FerryCore
import Postgres

/// Hands deliveries to this node's sender as they are made: leased in the transaction that makes them, and
/// sent after its commit, so that nobody has to look for them and claim them. Only those to the webhooks of
/// jobs: what an endpoint gets depends on how it is when it is sent. Lives on the relay's thread.
final class DeliveryHandover {
    /// Receivers whose lanes are remembered.
    private static let laneMax = 10_000

    private let context: StoreContext
    private let places: DeliveryCredits
    private var lanes: [String: ReceiverQueueID] = [:]
    private var handed: LeasedDeliveries?

    init(_ context: StoreContext) {
        self.context = context
        places = context.configuration.places
    }

    /// Says of each of the drafts whether it is to be leased, until `leaseSeconds` from now.
    func offer(
        _ drafts: ArraySlice<DeliveryDraft>, _ connection: inout Connection
    ) throws(PostgresError) -> [Bool] {
        guard places.isOpen else { return Array(repeating: false, count: drafts.count) }
        try learnLanes(drafts, &connection)
        return drafts.map { take($0) }
    }

    private func take(_ draft: DeliveryDraft) -> Bool {
        guard draft.endpoint == nil, let lane = lanes[Self.receiver(of: draft)] else { return false }
        var secret: String?
        if let sealed = draft.secrets {
            guard let opened = context.configuration.openSecrets(sealed) else { return false }
            secret = opened.webhookSecret
        }
        // The earliest of a transaction: a lease that seems shorter than it is harms nobody.
        var handed =
            handed ?? LeasedDeliveries(leasedUntil: context.clock.now() + Limits.deliveryLeaseSeconds)
        defer { self.handed = handed }
        let (event, record) = (draft.event, draft.event.record)
        let delivery = Delivery(
            id: draft.id, lane: lane, event: event.id, type: record.type.rawValue, tenant: event.tenant,
            session: event.session, job: record.job, sequence: event.sequence,
            occurredAt: record.occurredAt, url: draft.url, secret: secret, jobJSON: draft.jobJSON,
            traceparent: draft.traceparent, tryNumber: 1)
        guard places.reserve(delivery) else {
            handed.overflowing.insert(lane)
            return false
        }
        handed.deliveries.append(delivery)
        return true
    }

    /// After the commit: the sender has them. Returns how many.
    func commit() -> Int {
        guard let handed else { return 0 }
        self.handed = nil
        places.hand(handed)
        return handed.deliveries.count
    }

    /// After a failure: those that were made all the same are claimed when their lease is over.
    func discard() {
        places.release(handed?.deliveries ?? [])
        handed = nil
    }

    // MARK: Lanes

    private func learnLanes(
        _ drafts: ArraySlice<DeliveryDraft>, _ connection: inout Connection
    ) throws(PostgresError) {
        var unknown: [String: DeliveryDraft] = [:]
        for draft in drafts where draft.endpoint == nil {
            let receiver = Self.receiver(of: draft)
            if lanes[receiver] == nil { unknown[receiver] = draft }
        }
        guard !unknown.isEmpty else { return }
        var parameters = Parameters()
        let asked = Array(unknown)
        parameters.appendArray(.text, asked) { $0.append(text: $1.value.event.tenant) }
        parameters.appendArray(.text, asked) { $0.append(text: $1.value.url) }
        let rows = try connection.execute(Statements.readLanes, parameters)
        if lanes.count + asked.count > Self.laneMax { lanes = [:] }
        for (row, one) in asked.enumerated() where !rows.isNull(row, 0) {
            lanes[one.key] = rows.identifier(row, 0)
        }
    }

    /// The tenant, and the URL up to its path.
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
