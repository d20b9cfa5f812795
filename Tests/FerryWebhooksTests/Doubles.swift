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
final class MemoryQueue: DeliveryQueue {
    private struct Row {
        var delivery: Delivery
        var dueAt: Timestamp
    }
    private struct State {
        var rows: [Row] = []
        var claimCount = 0
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

    var unfinishedCount: Int { state.withLock { $0.rows.count } }
    var claimCount: Int { state.withLock { $0.claimCount } }

    func claim(limit: Int, leaseSeconds: Double, reply: @escaping @Sendable ([Delivery], Timestamp?) -> Void)
    {
        let now = clock.now()
        let (due, next) = state.withLock { state in
            state.claimCount += 1
            var due: [Delivery] = []
            for index in state.rows.indices where due.count < limit && state.rows[index].dueAt <= now {
                due.append(state.rows[index].delivery)
                state.rows[index].dueAt = now + leaseSeconds
            }
            return (due, state.rows.map(\.dueAt).min())
        }
        reply(due, next)
    }

    func record(_ tries: [DeliveryTry]) {
        state.withLock { state in
            for one in tries {
                guard let index = state.rows.firstIndex(where: { $0.delivery.id == one.delivery }) else {
                    continue
                }
                switch one.verdict {
                case .accepted, .givenUp: state.rows.remove(at: index)
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
    var nextTry: Delivery {
        Delivery(
            id: id, event: event, type: type, tenant: tenant, session: session, job: job, sequence: sequence,
            occurredAt: occurredAt, url: url, secret: secret, jobJSON: jobJSON, traceparent: traceparent,
            tryNumber: tryNumber + 1)
    }

    static func example(
        _ number: UInt64 = 1, url: String, secret: String? = nil, tryNumber: Int32 = 1,
        traceparent: String? = nil
    ) -> Delivery {
        Delivery(
            id: DeliveryID(high: 1, low: number), event: EventID(high: 2, low: number), type: .jobSucceeded,
            tenant: "default", session: "default", job: JobID(high: 3, low: number), sequence: Int64(number),
            occurredAt: Timestamp(microseconds: 1_763_762_400_000_000), url: url, secret: secret,
            jobJSON: Array(#"{"id":"job_x","state":"succeeded","note":"ä\n"}"#.utf8),
            traceparent: traceparent,
            tryNumber: tryNumber)
    }
}

/// Messages until `count` have come or ten seconds are over.
func take<Message>(_ count: Int, from box: Mailbox<Message>) -> [Message] {
    var messages: [Message] = []
    let deadline = monotonicNanoseconds() + 10_000_000_000
    while messages.count < count, monotonicNanoseconds() < deadline {
        messages += box.wait(milliseconds: 100)
    }
    return messages
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
        change(&configuration)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        sender = try WebhookSender(
            queue: queue, clock: clock, configuration: configuration, logger: logger, jitter: { 0.5 })
    }

    /// Adds, wakes, and waits for as many tries.
    func deliver(_ deliveries: [Delivery]) -> [DeliveryTry] {
        queue.add(deliveries)
        sender.wake()
        return take(deliveries.count, from: queue.tries)
    }
}
