import FerryCore
import Postgres

/// Row of `event_inbox`: events of one session without sequence numbers.
struct InboxRow {
    let position: Int64
    let tenant: String
    let session: String
    /// The group whose jobs have ended by these events; `nil` for none.
    let group: JobGroupID?
    let packed: [UInt8]
    /// The readable entries of `packed`.
    let entries: [EventRecord.Packed]

    /// Returns a row with some of the entries. The unreadable rest of `packed` stays with the last entry.
    func part(_ range: Range<Int>) -> InboxRow {
        let start = range.lowerBound == 0 ? 0 : entries[range.lowerBound].range.lowerBound
        let isLast = range.upperBound == entries.count
        let end = isLast ? packed.count : entries[range.upperBound].range.lowerBound
        return InboxRow(
            position: position, tenant: tenant, session: session, group: group,
            packed: Array(packed[start..<end]),
            entries: entries[range].map { $0.moved(by: -start) })
    }
}

extension [InboxRow] {
    /// Splits the rows after `eventCount` events.
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

/// The rows of the inbox that one pass takes, earliest first.
struct InboxSelection {
    /// Maximum number of rows of one pass.
    static let rowMax: Int32 = 200
    /// Maximum bytes of events of one pass, some thousands of events: a pass holds locks.
    private static let byteCountMax: Int64 = 300_000

    var rowMax = Self.rowMax
    /// `InboxLowWatermark.position`: rows up to it are not read.
    var lowWatermark: Int64 = 0
    /// Tenants whose rows are skipped.
    var except: [String] = []
    /// The only tenant whose rows are taken; `nil` for all except those skipped.
    var tenant: String?

    /// The parameters of take_events.sql.
    var parameters: Parameters {
        var parameters = Parameters.int32(rowMax)
        parameters.append(int64: Self.byteCountMax)
        parameters.append(int64: lowWatermark)
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
        parameters.appendArray(.uuid, rows) { $0.append($1.group) }
        return parameters
    }
}
