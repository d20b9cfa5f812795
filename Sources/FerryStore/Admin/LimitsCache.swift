package import FerryCore
import Postgres
import Synchronization

/// The limits of the service as this node knows them, and to whom they are told. Any thread.
final class LimitsCache: Sendable {
    /// The name of the setting that holds them once somebody has changed them.
    static let setting = "limits"
    /// What is notified when they have changed.
    static let notification = "limits"

    private let fallback: TransferLimits
    private let demand = Mutex((shares: RateShares(), told: RateDemand()))
    /// What an open window says in place of the service's rates; 0: none is open, or says anything.
    private let windowRate = Atomic<Int64>(0)
    private let readings = Mutex((begun: 0, applied: 0))

    init(fallback: TransferLimits) { self.fallback = fallback }

    /// `stored`: the setting's value; nil, and what cannot be read, is what the configuration says.
    func limits(_ stored: [UInt8]?) -> TransferLimits {
        stored.flatMap { TransferLimits(storedJSON: $0) } ?? fallback
    }

    /// To be called before they are read, and once they have been written.
    func beginReading() -> Int {
        readings.withLock { readings in
            readings.begun += 1
            return readings.begun
        }
    }

    /// Tells them to `runner`, unless something newer was told before. `reading`: of `beginReading`.
    func apply(_ stored: [UInt8]?, reading: Int, to runner: (any AttemptRunner)?) {
        let rate = windowRate.load(ordering: .relaxed)
        let limits = limits(stored).replacing(serviceRate: rate > 0 ? rate : nil)
        readings.withLock { readings in
            guard reading >= readings.applied else { return }
            readings.applied = reading
            runner?.setLimits(limits, shares: demand.withLock { $0.shares })
        }
    }

    /// Whether it is another one than before.
    func note(windowRate rate: Int64?) -> Bool {
        windowRate.exchange(rate ?? 0, ordering: .relaxed) != rate ?? 0
    }

    /// To be called before the nodes are told `demand`: nobody may count with more of it than all of them
    /// know of, and whether they will hear this is not known yet.
    func beginTelling(_ demand: RateDemand) -> RateDemand {
        self.demand.withLock { state in
            state.told = state.told.common(with: demand)
            return state.told
        }
    }

    /// The nodes were told `demand`. `own`: of `beginTelling`; `others`: what they have said, nil for each
    /// that does not say it; `nodeCount`: workers that are alive, this one included.
    func endTelling(_ demand: RateDemand, own: RateDemand, others: [[UInt8]?], nodeCount: Int) {
        var sum: RateDemand? = RateDemand()
        for other in others {
            if let one = other.flatMap({ RateDemand(json: $0) }) { sum?.add(one) } else { sum = nil }
        }
        let shares = RateShares(nodeCount: nodeCount, own: own, others: sum)
        self.demand.withLock { $0 = (shares, demand) }
    }
}

extension ControlLane {
    /// The limits that hold.
    package func limits(reply: @escaping Reply<TransferLimits>) {
        let board = context.limits
        setting(LimitsCache.setting) { reply($0.map { board.limits($0) }) }
    }

    /// Changes the limits for every node: this one at once, the others when they hear of it.
    package func changeLimits(
        if isAllowed: @escaping @Sendable (TransferLimits) -> Bool,
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>
    ) {
        let context = context
        perform("change_limits", isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<TransferLimits, StoreError> in
            // Each round fails only because somebody else has changed them meanwhile.
            for _ in 0..<10 {
                var parameters = Parameters()
                parameters.append(text: LimitsCache.setting)
                let rows = try connection.execute(Statements.readSetting, parameters)
                let before = rows.rowCount == 1 ? rows.bytes(0, 0) : nil
                let current = context.limits.limits(before)
                let finding = ChangeCheck.allowed(current).matching { isAllowed(current) }
                if case .refused(let error) = finding { return .failure(error) }
                let limits = change(current)
                var changed = Parameters()
                changed.append(text: LimitsCache.setting)
                changed.append(bytea: limits.json)
                changed.append(bytea: before)
                guard try connection.execute(Statements.changeSetting, changed).rowCount == 1 else {
                    continue
                }
                context.limits.apply(
                    limits.json, reading: context.limits.beginReading(), to: context.attemptRunner)
                var notification = Parameters()
                notification.append(text: LimitsCache.notification)
                _ = try connection.execute(Statements.notify, notification)
                return .success(limits)
            }
            return .failure(.unavailable)
        }
    }

    /// Reads the limits anew: another node has changed them.
    func adoptLimits() {
        let context = context
        let reading = context.limits.beginReading()
        setting(LimitsCache.setting) { result in
            guard case .success(let stored) = result else { return }
            context.limits.apply(stored, reading: reading, to: context.attemptRunner)
        }
    }
}
