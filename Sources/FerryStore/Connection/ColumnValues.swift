import FerryCore
import Postgres

extension ResultSet {
    func identifier<Kind>(_ row: Int, _ column: Int) -> Identifier<Kind> {
        let value = uuid(row, column)
        return Identifier(high: value.high, low: value.low)
    }

    func identifierOrNil<Kind>(_ row: Int, _ column: Int) -> Identifier<Kind>? {
        isNull(row, column) ? nil : identifier(row, column)
    }

    func instant(_ row: Int, _ column: Int) -> Timestamp {
        Timestamp(microseconds: timestamp(row, column))
    }

    func instantOrNil(_ row: Int, _ column: Int) -> Timestamp? {
        isNull(row, column) ? nil : instant(row, column)
    }

    /// Returns the identifiers of the first column.
    func identifiers<Kind>(_ kind: Kind.Type = Kind.self) -> [Identifier<Kind>] {
        var all: [Identifier<Kind>] = []
        all.reserveCapacity(rowCount)
        for row in 0..<rowCount { all.append(identifier(row, 0)) }
        return all
    }
}

extension Parameters {
    mutating func append<Kind>(_ identifier: Identifier<Kind>?) {
        guard let identifier else { return appendNull() }
        append(uuid: identifier.high, identifier.low)
    }

    mutating func append(_ instant: Timestamp?) {
        append(timestamp: instant?.microseconds)
    }

    static func int32(_ value: Int32) -> Parameters {
        var parameters = Parameters()
        parameters.append(int32: value)
        return parameters
    }

    static func int64(_ value: Int64) -> Parameters {
        var parameters = Parameters()
        parameters.append(int64: value)
        return parameters
    }

    static func identifier<Kind>(_ value: Identifier<Kind>) -> Parameters {
        var parameters = Parameters()
        parameters.append(value)
        return parameters
    }

    static func identifiers<Kind>(_ values: [Identifier<Kind>]) -> Parameters {
        var parameters = Parameters(capacity: values.count * 20)
        parameters.appendArray(.uuid, values) { $0.append($1) }
        return parameters
    }
}
