import Curl
package import FerryCore
package import Logging
import Synchronization
import Sys

/// Sends deliveries until they are accepted or given up: claims what is due, signs and posts it, reports what
/// came back.
///
/// Owns one libcurl loop; every method may be called from any thread. A delivery that this sender loses
/// (stop, crash) is claimed again after its lease, so receivers hear of every event at least once.
package final class WebhookSender: Sendable {
    package struct Configuration: Sendable {
        /// Signs what has no secret of its own. Several during a rotation: the new one first, all of them
        /// sign.
        package var secrets: [WebhookSecret]
        package var policy: EgressPolicy
        /// `User-Agent` is `Ferry/` and this.
        package var version: String
        /// Requests at once, in all.
        package var concurrency = 256
        /// Claimed deliveries that may wait in memory, and those of one claim, by their weights: together
        /// 32 MiB of jobs' JSON.
        package var waitingMax = 2_048
        package var claimMax = 512
        /// Milliseconds for a whole try, for an answer to begin (to the second), and for connecting.
        package var totalTimeout = 20_000
        package var answerTimeout = 15_000
        package var connectTimeout = 5_000
        /// Seconds for which a claimed delivery is ours.
        package var leaseSeconds = Limits.deliveryLeaseSeconds
        /// The lease of this node, for which others leave alone what it has claimed: another number after
        /// each lapse. Nil: it has none. Any thread, at once.
        package var lease: @Sendable () -> Int? = { 1 }
        /// Where the sender says what may be handed to it.
        package var places = DeliveryCredits()
        /// Seconds after which the queue is asked even if nothing woke us.
        package var pollSeconds = 5.0
        /// Gets the bodies of accepting answers to events that ask something, on the loop's thread. Calls
        /// `done` once, on any thread; false: the answer could not be kept, and is to be asked for again.
        package typealias TakeAnswer =
            @Sendable (Delivery, [UInt8], _ done: @escaping @Sendable (Bool) -> Void) -> Void
        package var takeAnswer: TakeAnswer = { $2(true) }

        package init(secrets: [WebhookSecret], policy: EgressPolicy, version: String) {
            self.secrets = secrets
            self.policy = policy
            self.version = version
        }
    }

    private let loop: CurlLoop
    private let desk: LoopBound<DeliveryDispatcher>
    private let gauge = MetricsGauge()
    private let isWakePending = Atomic(false)

    /// Starts the loop's thread and asks the queue for what is due. `jitter` draws from 0 to 1.
    ///
    /// Throws `UnusableCurl`, `CurlError` or `SystemError`; nothing runs then. End it with `stop()`.
    package init(
        queue: any DeliveryStore, clock: any WallClock, configuration: Configuration, logger: Logger,
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
    ) throws {
        let loop = try CurlLoop(name: "webhooks", keptConnections: configuration.concurrency)
        self.loop = loop
        let desk = DispatcherReference()
        let doors = DeliveryDispatcher.Doors(
            queue: queue, clock: clock, gauge: gauge, logger: logger, jitter: jitter,
            post: { exchange, completion in
                exchange.start(on: loop) { result in
                    // A turn of its own: what ends in one turn of the loop is reported together.
                    loop.perform { multi in
                        guard let desk = desk.bound?.get(multi) else { return }
                        completion(desk, result)
                    }
                }
            },
            defer: { action in
                loop.perform { multi in
                    guard let desk = desk.bound?.get(multi) else { return }
                    action(desk)
                }
            })
        configuration.places.connect { handed in
            let isTaken = loop.perform { multi in desk.bound?.get(multi).take(handed) }
            // Made for this sender when it had ended: another one may have them at once.
            if !isTaken { queue.record(handed.deliveries.map { .returned($0, at: clock.now()) }) }
        }
        self.desk = LoopBound(on: loop) { multi in
            let desk = DeliveryDispatcher(configuration: configuration, doors: doors)
            multi.everySecond { _ in desk.secondPassed() }
            return desk
        }
        desk.set(self.desk)
        wake()
    }

    /// Something may be due: after a commit that added deliveries. Many calls make one claim.
    package func wake() {
        guard !isWakePending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        loop.perform { [self] multi in
            isWakePending.store(false, ordering: .releasing)
            desk.get(multi).claim()
        }
    }

    package var metrics: WebhookMetrics { gauge.metrics }

    /// Seconds since the loop last came round; more than one mean that something blocks it.
    package var loopAgeSeconds: Double { Double(monotonicNanoseconds() - loop.lastTurnNanoseconds) / 1e9 }

    /// Starts nothing more, gives requests on their way up to `graceSeconds`, reports what came back, and
    /// ends the loop. What was cut off or had not started becomes due again after its lease. Twice is once.
    package func stop(graceSeconds: Double = 5) {
        let idle = Mailbox<Bool>()
        let accepted = loop.perform { [self] multi in
            desk.get(multi).stop { idle.send(true) }
        }
        if accepted { _ = idle.wait(milliseconds: Int32(min(max(graceSeconds, 0), 60) * 1_000)) }
        loop.stop()
    }
}

/// The way back from a completion to the loop's state, which exists only after the doors it is made with.
private final class DispatcherReference: Sendable {
    private struct Reference: Sendable {
        weak var desk: LoopBound<DeliveryDispatcher>?
    }
    private let reference = Mutex(Reference())
    var bound: LoopBound<DeliveryDispatcher>? { reference.withLock { $0.desk } }
    func set(_ desk: LoopBound<DeliveryDispatcher>) { reference.withLock { $0.desk = desk } }
}

/// The metrics, written by the loop and read by anyone.
final class MetricsGauge: Sendable {
    private let state = Mutex(WebhookMetrics())
    var metrics: WebhookMetrics { state.withLock { $0 } }
    func update(_ body: (inout WebhookMetrics) -> Void) { state.withLock { body(&$0) } }
}
