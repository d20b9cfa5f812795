import FerryCore
import Postgres

extension OperatorSettings {
    /// Reads the row of read_operations.sql; `nil` if there is none.
    init?(_ rows: borrowing ResultSet) {
        guard rows.rowCount == 1 else { return nil }
        self.init(
            revision: rows.int64(0, 0), isPaused: rows.bool(0, 1), drains: rows.bool(0, 2),
            isHeld: rows.bool(0, 3))
    }
}

extension Parameters {
    /// The parameters of read_operations.sql.
    static func operatorSettings(_ context: StoreContext) -> Parameters {
        var parameters = Parameters()
        parameters.append(context.configuration.node)
        parameters.append(context.startedAt)
        return parameters
    }
}
