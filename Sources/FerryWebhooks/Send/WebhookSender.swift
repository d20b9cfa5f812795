import Curl
package import FerryCore
package import Logging
import Synchronization
import Sys

/// Sends deliveries until they are accepted or given up: claims due deliveries, signs and posts them, and
/// reports the results.
///
/// Owns a libcurl loop. All methods may be called on any thread. If the sender stops or crashes, its
/// deliveries are claimed again after their lease, so receivers get each event at least once.
package final class WebhookSender: Sendable {
    /// Settings of a sender.
    package struct Configuration: Sendable {
        /// Secrets for deliveries without a secret of their own. During a rotation there are several, the new
        /// one first, and all of them sign.
        package var secrets: [WebhookSecret]
        /// Addresses that the sender may connect to.
        package var policy: EgressPolicy
        /// Version in the field `User-Agent`, after `Ferry/`.
        package var version: String
        /// Largest number of requests in flight.
        package var concurrency = 256
        /// Claimed deliveries that may wait in memory, by weight. The default and `claimMax` together limit
        /// the JSON of jobs to 32 MiB.
        package var waitingMax = 2_048
        /// Deliveries of one claim, by weight.
        package var claimMax = 512
        /// Milliseconds for a whole delivery attempt.
        package var totalTimeout = 20_000
        /// Milliseconds until the response begins, checked once per second.
        package var responseTimeout = 15_000
        /// Milliseconds for name resolution, connection and TLS handshake.
        package var connectTimeout = 5_000
        /// Seconds of the lease on a claimed delivery.
        package var leaseSeconds = Limits.deliveryLeaseSeconds
        /// Returns the number of this node's current lease, or `nil` if it has expired. After each expiry the
        /// number changes. While it is valid, other nodes do not claim this node's deliveries. Called on the
        /// loop's thread; must not block.
        package var lease: @Sendable () -> Int? = { 1 }
        /// Number of new deliveries that may be leased to the sender, as published by it.
        package var credits = DeliveryCredits()
        /// Seconds after which the sender claims again even without a wake-up.
        package var pollSeconds = 5.0
        /// Stores the answer to a job's question, taken from the body of an accepting response. Called on the
        /// loop's thread. Must call `done` once, on any thread; with `false` if the answer could not be
        /// stored, and the question is sent again.
        package typealias TakeAnswer =
            @Sendable (Delivery, [UInt8], _ done: @escaping @Sendable (Bool) -> Void) -> Void
        /// See `TakeAnswer`.
        package var takeAnswer: TakeAnswer = { $2(true) }

        /// Creates settings with default limits.
        package init(secrets: [WebhookSecret], policy: EgressPolicy, version: String) {
            self.secrets = secrets
            self.policy = policy
            self.version = version
        }
    }

    private let loop: CurlLoop
    private let dispatcher: LoopBound<DeliveryDispatcher>
    private let gauge = MetricsGauge()
    private let isWakePending = Atomic(false)

    /// Starts the thread of the loop and claims due deliveries. `jitter` returns values from 0 to 1.
    ///
    /// Throws `UnusableCurl`, `CurlError` or `SystemError`; nothing runs then. Call `stop()` to end it.
    package init(
        store: any DeliveryStore, clock: any WallClock, configuration: Configuration, logger: Logger,
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0...1) }
    ) throws {
        let loop = try CurlLoop(name: "webhooks", keptConnections: configuration.concurrency)
        self.loop = loop
        let reference = DispatcherReference()
        let dependencies = DeliveryDispatcher.Dependencies(
            store: store, clock: clock, gauge: gauge, logger: logger, jitter: jitter,
            post: { request, completion in
                request.start(on: loop) { result in
                    // In a later turn, so that all results of one turn of the loop are reported together.
                    loop.perform { multi in
                        guard let dispatcher = reference.bound?.get(multi) else { return }
                        completion(dispatcher, result)
                    }
                }
            },
            defer: { action in
                loop.perform { multi in
                    guard let dispatcher = reference.bound?.get(multi) else { return }
                    action(dispatcher)
                }
            })
        configuration.credits.connect { handed in
            let isTaken = loop.perform { multi in reference.bound?.get(multi).take(handed) }
            // The sender has stopped: return the deliveries, so that another sender can have them at once.
            if !isTaken { store.record(handed.deliveries.map { .returned($0, at: clock.now()) }) }
        }
        self.dispatcher = LoopBound(on: loop) { multi in
            let dispatcher = DeliveryDispatcher(configuration: configuration, dependencies: dependencies)
            multi.everySecond { _ in dispatcher.secondPassed() }
            return dispatcher
        }
        reference.set(self.dispatcher)
        wake()
    }

    /// Claims due deliveries. Call after a commit that added deliveries. Many calls lead to one claim.
    package func wake() {
        guard !isWakePending.exchange(true, ordering: .acquiringAndReleasing) else { return }
        loop.perform { [self] multi in
            isWakePending.store(false, ordering: .releasing)
            dispatcher.get(multi).claim()
        }
    }

    /// Counters and current numbers. Any thread.
    package var metrics: WebhookMetrics { gauge.metrics }

    /// Seconds since the last turn of the loop; more than 1 means that something blocks it.
    package var loopAgeSeconds: Double { Double(monotonicNanoseconds() - loop.lastTurnNanoseconds) / 1e9 }

    /// Starts no more requests, waits up to `graceSeconds` for those in flight, reports their results and
    /// ends the loop. Deliveries that were not sent become due again after their lease. Calling it again does
    /// nothing.
    package func stop(graceSeconds: Double = 5) {
        let idle = Mailbox<Bool>()
        let accepted = loop.perform { [self] multi in
            dispatcher.get(multi).stop { idle.send(true) }
        }
        if accepted { _ = idle.wait(milliseconds: Int32(min(max(graceSeconds, 0), 60) * 1_000)) }
        loop.stop()
    }
}

/// Reference to the dispatcher for completions, which are created before it. Set once.
private final class DispatcherReference: Sendable {
    private struct Reference: Sendable {
        weak var dispatcher: LoopBound<DeliveryDispatcher>?
    }
    private let reference = Mutex(Reference())
    var bound: LoopBound<DeliveryDispatcher>? { reference.withLock { $0.dispatcher } }
    func set(_ bound: LoopBound<DeliveryDispatcher>) { reference.withLock { $0.dispatcher = bound } }
}

/// The metrics. Written on the loop's thread, read on any thread.
final class MetricsGauge: Sendable {
    private let state = Mutex(WebhookMetrics())
    var metrics: WebhookMetrics { state.withLock { $0 } }
    func update(_ body: (inout WebhookMetrics) -> Void) { state.withLock { body(&$0) } }
}
