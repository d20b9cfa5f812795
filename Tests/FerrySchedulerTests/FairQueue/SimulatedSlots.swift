import FerryCore
import FerryScheduler

/// Slots that lots without an end claim from, on a clock of its own: each job holds one for a while. A slot
/// that is free is claimed at once.
struct SimulatedSlots {
    private struct Running {
        let lot: ClaimQueue
        let end: Double
        let seconds: Double
        let cost: Double
    }
    private let count: Int
    private var schedule = ClaimSchedule()
    private var running: [Running] = []
    private var seconds: [Int64: Double] = [:]
    private var now = 0.0
    /// Seconds of slots by lot.
    var held: [Int64: Double] = [:]

    init(count: Int) { self.count = count }

    mutating func add(_ lot: ClaimQueue, seconds: Double, weight: Double = 1) {
        self.seconds[lot.id] = seconds
        schedule.add(lot, head: Timestamp(microseconds: 0), weight: weight)
    }

    mutating func change(_ lot: Int64, seconds: Double) { self.seconds[lot] = seconds }

    mutating func run(until end: Double) {
        while now < end {
            claim()
            guard let next = running.map(\.end).min() else { return }
            let until = min(next, end)
            for one in running { held[one.lot.id, default: 0] += until - now }
            now = until
            for one in running where one.end <= now {
                schedule.ended(
                    tenant: one.lot.tenant, session: one.lot.session, seconds: one.seconds, charged: one.cost)
            }
            running.removeAll { $0.end <= now }
        }
    }

    private mutating func claim() {
        guard running.count < count else { return }
        for ask in schedule.plan(count - running.count) {
            let length = seconds[ask.lot.id] ?? 1
            for _ in 0..<ask.count {
                running.append(
                    Running(lot: ask.lot, end: now + length, seconds: length, cost: ask.cost))
            }
            schedule.settle(ask, claimed: ask.count, .more)
        }
    }
}
