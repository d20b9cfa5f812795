import FerryCore
import Postgres

/// A row of the inbox: events of one session that have no numbers yet.
struct InboxRow {
    let position: Int64
    let tenant: String
    let session: String
    let packed: [UInt8]
    /// Of `packed`, as far as it can be understood.
    let entries: [EventRecord.Packed]

    /// Some of its entries. The last of them has with it what cannot be understood.
    func part(_ range: Range<Int>) -> InboxRow {
        let start = range.lowerBound == 0 ? 0 : entries[range.lowerBound].range.lowerBound
        let isLast = range.upperBound == entries.count
        let end = isLast ? packed.count : entries[range.upperBound].range.lowerBound
        return InboxRow(
            position: position, tenant: tenant, session: session, packed: Array(packed[start..<end]),
            entries: entries[range].map { $0.moved(by: -start) })
    }
}

extension [InboxRow] {
    /// The first so many events, and the others.
    func split(after eventCount: Int) -> (first: [InboxRow], rest: [InboxRow]) {
        var (first, rest) = ([InboxRow](), [InboxRow]())
        var left = eventCount
        for row in self {
            let count = Swift.min(left, row.entries.count)
            left -= count
            if count > 0 { first.append(row.part(0..<count)) }
            if count < row.entries.count { rest.append(row.part(count..<row.entries.count)) }
        }
        return (first, rest)
    }
}

/// Which rows of the inbox a pass takes, the earliest first.
struct InboxSelection {
    /// Rows that a pass takes at most.
    static let rowMax: Int32 = 200
    /// Bytes of events, some thousands of them: a pass holds locks.
    private static let byteCountMax: Int64 = 300_000

    var rowMax = Self.rowMax
    /// `InboxLowWatermark.position`.
    var floor: Int64 = 0
    /// Tenants whose rows are left alone.
    var except: [String] = []
    /// Nil: those of all other tenants.
    var tenant: String?

    /// The parameters of take_events.sql.
    var parameters: Parameters {
        var parameters = Parameters.int32(rowMax)
        parameters.append(int64: Self.byteCountMax)
        parameters.append(int64: floor)
        parameters.appendArray(.text, except) { $0.append(text: $1) }
        parameters.append(text: tenant)
        return parameters
    }
}

extension Parameters {
    /// The parameters of put_back_events.sql.
    static func inbox(_ rows: [InboxRow]) -> Parameters {
        var parameters = Parameters(capacity: rows.reduce(256) { $0 + $1.packed.count + 160 })
        parameters.appendArray(.int64, rows) { $0.append(int64: $1.position) }
        parameters.appendArray(.text, rows) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, rows) { $0.append(text: $1.session) }
        parameters.appendArray(.bytea, rows) { $0.append(bytea: $1.packed) }
        return parameters
    }
}
