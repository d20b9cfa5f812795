package import FerryCore
import Postgres

/// Reads and changes the limits of the service. Any thread.
package final class LimitCommands: Sendable {
    private let commands: CommandQueue
    private let settings: Settings
    private let cache: LimitsCache
    private let signals: StoreSignals

    init(_ commands: CommandQueue, _ settings: Settings, _ cache: LimitsCache, _ signals: StoreSignals) {
        self.commands = commands
        self.settings = settings
        self.cache = cache
        self.signals = signals
    }

    /// Reads the limits of the service.
    package func limits(reply: @escaping Reply<TransferLimits>) {
        let cache = cache
        settings.value(of: LimitsCache.setting) { reply($0.map { cache.limits($0) }) }
    }

    /// Changes the limits of all nodes: this node at once, other nodes when they are notified.
    package func changeLimits(
        if isAllowed: @escaping @Sendable (TransferLimits) -> Bool,
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>
    ) {
        let (cache, signals) = (cache, signals)
        commands.perform("change_limits", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<TransferLimits, StoreError> in
            // An iteration fails only if another transaction has changed the limits meanwhile.
            for _ in 0..<10 {
                var parameters = Parameters()
                parameters.append(text: LimitsCache.setting)
                let rows = try connection.execute(Statements.readSetting, parameters)
                let before = rows.rowCount == 1 ? rows.bytes(0, 0) : nil
                let current = cache.limits(before)
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
                cache.apply(limits.json, reading: cache.beginReading(), to: signals.attemptRunner)
                var notification = Parameters()
                notification.append(text: LimitsCache.notification)
                _ = try connection.execute(Statements.notify, notification)
                return .success(limits)
            }
            return .failure(.unavailable)
        }
    }

    /// Reloads the limits. Called when another node has changed them.
    func adopt() {
        let (cache, signals) = (cache, signals)
        let reading = cache.beginReading()
        settings.value(of: LimitsCache.setting) { result in
            guard case .success(let stored) = result else { return }
            cache.apply(stored, reading: reading, to: signals.attemptRunner)
        }
    }
}
