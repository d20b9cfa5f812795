package import FerryCore
import Postgres

/// Reads and changes the off-peak windows. Any thread.
package final class WindowCommands: Sendable {
    private let commands: CommandQueue
    private let settings: Settings
    private let signals: StoreSignals

    init(_ commands: CommandQueue, _ settings: Settings, _ signals: StoreSignals) {
        self.commands = commands
        self.settings = settings
        self.signals = signals
    }

    /// Name of the setting that holds the off-peak windows.
    static let setting = "windows"

    /// Reads the off-peak windows.
    package func windows(reply: @escaping Reply<OffPeakWindows>) {
        settings.value(of: Self.setting) { reply($0.map { OffPeakWindows(stored: $0) }) }
    }

    /// Changes the off-peak windows of all nodes; each node reads them within seconds. `change` may be called
    /// more than once; the inner failure is what it throws.
    package func changeWindows(
        if isAllowed: @escaping @Sendable (OffPeakWindows) -> Bool,
        _ change: @escaping @Sendable (OffPeakWindows) throws(InvalidFields) -> OffPeakWindows,
        reply: @escaping Reply<Result<OffPeakWindows, InvalidFields>>
    ) {
        commands.perform("change_windows", signals.waking(reply)) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Result<OffPeakWindows, InvalidFields>, StoreError
            > in
            // An iteration fails only if another transaction has changed the windows meanwhile.
            for _ in 0..<10 {
                let before = try Self.stored(&connection)
                let current = OffPeakWindows(stored: before)
                let finding = ChangeCheck { () throws(InvalidFields) in try change(current) }
                    .matching { isAllowed(current) }
                let windows: OffPeakWindows
                switch finding {
                case .invalid(let fields): return .success(.failure(fields))
                case .refused(let error): return .failure(error)
                case .allowed(let changed): windows = changed
                }
                var changed = Parameters()
                changed.append(text: Self.setting)
                changed.append(bytea: windows.json)
                changed.append(bytea: before)
                if try connection.execute(Statements.changeSetting, changed).rowCount == 1 {
                    return .success(.success(windows))
                }
            }
            return .failure(.unavailable)
        }
    }

    static func stored(_ connection: inout Connection) throws(PostgresError) -> [UInt8]? {
        var parameters = Parameters()
        parameters.append(text: setting)
        let rows = try connection.execute(Statements.readSetting, parameters)
        return rows.rowCount == 1 ? rows.bytes(0, 0) : nil
    }
}

extension OffPeakWindows {
    /// A missing or unreadable setting means no windows.
    init(stored: [UInt8]?) { self = stored.flatMap { OffPeakWindows(storedJSON: $0) } ?? OffPeakWindows() }
}
