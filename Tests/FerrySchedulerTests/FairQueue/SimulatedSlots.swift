import FerryCore
import FerryScheduler

/// Slots for jobs of queues that never become empty, under a simulated clock. Each job holds a slot for a
/// while; a free slot is claimed at once.
struct SimulatedSlots {
    private struct Running {
        let queue: ClaimQueue
        let end: Double
        let seconds: Double
        let cost: Double
    }
    private let count: Int
    private var schedule = ClaimSchedule()
    private var running: [Running] = []
    private var seconds: [Int64: Double] = [:]
    private var now = 0.0
    /// Seconds of slot time by queue.
    var held: [Int64: Double] = [:]

    init(count: Int) { self.count = count }

    mutating func add(_ queue: ClaimQueue, seconds: Double, weight: Double = 1) {
        self.seconds[queue.id] = seconds
        schedule.add(queue, head: Timestamp(microseconds: 0), weight: weight)
    }

    mutating func change(_ queue: Int64, seconds: Double) { self.seconds[queue] = seconds }

    mutating func run(until end: Double) {
        while now < end {
            claim()
            guard let next = running.map(\.end).min() else { return }
            let until = min(next, end)
            for one in running { held[one.queue.id, default: 0] += until - now }
            now = until
            for one in running where one.end <= now {
                schedule.ended(
                    tenant: one.queue.tenant, session: one.queue.session, seconds: one.seconds,
                    charged: one.cost)
            }
            running.removeAll { $0.end <= now }
        }
    }

    private mutating func claim() {
        guard running.count < count else { return }
        for request in schedule.plan(count - running.count) {
            let length = seconds[request.queue.id] ?? 1
            for _ in 0..<request.count {
                running.append(
                    Running(queue: request.queue, end: now + length, seconds: length, cost: request.cost))
            }
            schedule.settle(request, claimed: request.count, .more)
        }
    }
}
