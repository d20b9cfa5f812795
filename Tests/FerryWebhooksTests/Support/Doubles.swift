import FerryCore
import FerryWebhooks
import Logging
import Synchronization
import Sys

/// A clock that a test sets.
final class ManualClock: WallClock {
    private let time = Mutex(Timestamp(microseconds: 1_790_000_000_000_000))
    func now() -> Timestamp { time.withLock { $0 } }
    func advance(_ seconds: Double) { time.withLock { $0 = $0 + seconds } }
}

/// A queue in memory with the leases of the real one.
final class MemoryQueue: DeliveryStore {
    private struct Row {
        var delivery: Delivery
        var dueAt: Timestamp
    }
    private struct State {
        var rows: [Row] = []
        var claimCount = 0
        var revisions: [ReceiverQueueID: Int32] = [:]
    }
    private let state = Mutex(State())
    private let clock: ManualClock
    /// Every try that was recorded.
    let tries = Mailbox<DeliveryTry>()
    /// The sizes of the batches in which they came.
    let batches = Mailbox<Int>()

    init(_ clock: ManualClock) { self.clock = clock }

    func add(_ deliveries: [Delivery]) {
        let now = clock.now()
        state.withLock { $0.rows += deliveries.map { Row(delivery: $0, dueAt: now) } }
    }

    /// The endpoint is changed: what is claimed from now on has it as it is.
    func change(_ endpoint: Delivery.Endpoint) {
        state.withLock { state in
            for index in state.rows.indices where state.rows[index].delivery.endpoint?.id == endpoint.id {
                let delivery = state.rows[index].delivery
                state.rows[index].delivery = delivery.copy(endpoint: endpoint)
                state.revisions[delivery.receiverQueue] = endpoint.revision
            }
        }
    }

    var unfinishedCount: Int { state.withLock { $0.rows.count } }
    var claimCount: Int { state.withLock { $0.claimCount } }

    func claim(
        _ demand: DeliveryDemand, leaseSeconds: Double, reply: @escaping @Sendable (ClaimedDeliveries) -> Void
    ) {
        let now = clock.now()
        reply(
            state.withLock { state in
                state.claimCount += 1
                var found = ClaimedDeliveries()
                found.revisions = state.revisions.filter { demand.queues[$0.key] != nil }
                var counts: [ReceiverQueueID: Int] = [:]
                // Ordered receiver queues in which something is pending that is not due.
                var held: Set<ReceiverQueueID> = []
                for index in state.rows.indices {
                    let (delivery, dueAt) = (state.rows[index].delivery, state.rows[index].dueAt)
                    guard dueAt <= now, !held.contains(delivery.receiverQueue) else {
                        if dueAt > now { found.next = min(found.next ?? dueAt, dueAt) }
                        if delivery.isOrdered { held.insert(delivery.receiverQueue) }
                        continue
                    }
                    let capacity = demand.queues[delivery.receiverQueue] ?? demand.other
                    guard counts[delivery.receiverQueue, default: 0] < capacity else { continue }
                    guard found.due.count < demand.total else {
                        found.isMore = true
                        break
                    }
                    counts[delivery.receiverQueue, default: 0] += 1
                    found.due.append(delivery)
                    state.rows[index].dueAt = now + leaseSeconds
                }
                return found
            })
    }

    func record(_ tries: [DeliveryTry]) {
        state.withLock { state in
            for one in tries {
                guard let index = state.rows.firstIndex(where: { $0.delivery.id == one.delivery }) else {
                    continue
                }
                switch one.verdict {
                case .accepted, .givenUp: state.rows.remove(at: index)
                case .returned: state.rows[index].dueAt = clock.now()
                case .retry(let at):
                    state.rows[index].dueAt = at
                    state.rows[index].delivery = state.rows[index].delivery.nextTry
                }
            }
        }
        batches.send(tries.count)
        for one in tries { self.tries.send(one) }
    }
}

extension Delivery {
    var nextTry: Delivery { copy(endpoint: endpoint, tryNumber: tryNumber + 1) }

    func copy(endpoint: Endpoint?, jobJSON: [UInt8]? = nil, tryNumber: Int32? = nil) -> Delivery {
        Delivery(
            id: id, receiverQueue: receiverQueue, event: event, type: type, tenant: tenant, session: session,
            job: job, sequence: sequence, occurredAt: occurredAt, url: url, secret: secret,
            headers: headers, payload: payload, tls: tls, endpoint: endpoint,
            jobJSON: jobJSON ?? self.jobJSON,
            traceparent: traceparent,
            tryNumber: tryNumber ?? self.tryNumber)
    }

    static func example(
        _ number: UInt64 = 1, url: String, secret: String? = nil, tryNumber: Int32 = 1,
        traceparent: String? = nil, headers: [JobSpec.Pair] = [], payload: WebhookPayload = .full,
        endpoint: Endpoint? = nil, type: String = "job.succeeded", tenant: String = "default"
    ) -> Delivery {
        let origin = UInt64(bitPattern: Int64((try? WebURL.parse(url).origin)?.hashValue ?? 0))
        return Delivery(
            id: DeliveryID(high: 1, low: number),
            receiverQueue: endpoint.map { ReceiverQueueID(high: $0.id.high, low: $0.id.low) }
                ?? ReceiverQueueID(high: 4, low: origin),
            event: EventID(high: 2, low: number), type: type,
            tenant: tenant, session: "default", job: JobID(high: 3, low: number), sequence: Int64(number),
            occurredAt: Timestamp(microseconds: 1_763_762_400_000_000), url: url, secret: secret,
            headers: headers, payload: payload, endpoint: endpoint,
            jobJSON: Array(#"{"id":"job_x","state":"succeeded","note":"ä\n"}"#.utf8),
            traceparent: traceparent,
            tryNumber: tryNumber)
    }
}

/// Messages until `count` have come or two minutes are over.
func take<Message>(_ count: Int, from box: Mailbox<Message>) -> [Message] {
    var messages: [Message] = []
    let deadline = monotonicNanoseconds() + 120_000_000_000
    while messages.count < count, monotonicNanoseconds() < deadline {
        messages += box.wait(milliseconds: 100)
    }
    return messages
}

/// The one entry of `webhook-signature` that a secret alone makes.
func signature(_ secret: WebhookSecret, id: String, timestamp: String, body: [UInt8]) -> String {
    WebhookSigner(secret).signatures(of: Array("\(id).\(timestamp).".utf8) + body).joined(separator: " ")
}

let serviceSecret = WebhookSecret(key: Array(0..<32))

/// A sender with its clock and queue; loopback is allowed unless told otherwise.
struct Bench {
    let clock = ManualClock()
    let queue: MemoryQueue
    let sender: WebhookSender

    init(
        allowing networks: String? = "127.0.0.0/8",
        change: (inout WebhookSender.Configuration) -> Void = { _ in }
    ) throws {
        queue = MemoryQueue(clock)
        var configuration = WebhookSender.Configuration(
            secrets: [serviceSecret].compactMap { $0 },
            policy: EgressPolicy(allowing: [networks.flatMap { IPNetwork(cidr: $0) }].compactMap { $0 }),
            version: "1.2.3")
        // Nothing stands still for so long, and the manual clock shows none of it. A lease lasts longer.
        (configuration.totalTimeout, configuration.responseTimeout) = (600_000, 600_000)
        configuration.connectTimeout = 600_000
        configuration.leaseSeconds = 100_000
        change(&configuration)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        sender = try WebhookSender(
            store: queue, clock: clock, configuration: configuration, logger: logger, jitter: { 0.5 })
    }

    /// Adds, wakes, and waits for as many tries.
    func deliver(_ deliveries: [Delivery]) -> [DeliveryTry] {
        queue.add(deliveries)
        sender.wake()
        return take(deliveries.count, from: queue.tries)
    }
}
