import FerryCore
import Postgres

/// Object that the first request with an idempotency key created: a schedule, its run, or a bulk operation.
struct FirstResponse {
    fileprivate let identifier: (high: UInt64, low: UInt64)
    /// Time of the request.
    let at: Timestamp

    /// Returns the identifier of the created object.
    func id<Kind>(_ kind: Kind.Type = Kind.self) -> Identifier<Kind> {
        Identifier(high: identifier.high, low: identifier.low)
    }
}

extension FirstResponse {
    /// Returns what the first request with this key created, or `nil` if there is no such key. A key of
    /// another request is `idempotencyKeyReused`.
    static func read(
        _ key: Submission.Idempotency, _ connection: inout Connection
    ) throws(PostgresError) -> Result<FirstResponse?, StoreError> {
        var parameters = Parameters()
        parameters.append(keys: [key], numbered: [0])
        let rows = try connection.execute(Statements.readKeys, parameters)
        guard rows.rowCount == 1, let identifier = rows.uuidArray(0, 2).first ?? nil else {
            return .success(nil)
        }
        guard rows.bytes(0, 1) == key.fingerprint else { return .failure(.idempotencyKeyReused) }
        return .success(FirstResponse(identifier: identifier, at: rows.instant(0, 6)))
    }
}
