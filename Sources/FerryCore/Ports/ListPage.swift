/// A page of a list as read from the database, newest first.
public struct ListPage<Record: Sendable, Kind: IdentifierKind>: Sendable {
    /// The records.
    public let records: [Record]
    /// Identifier at which a bounded scan stopped before the page was full: the next page begins below it.
    /// `nil` if the page is full or the list ends with it.
    public let stoppedAt: Identifier<Kind>?

    /// Creates a page.
    public init(_ records: [Record], stoppedAt: Identifier<Kind>? = nil) {
        self.records = records
        self.stoppedAt = stoppedAt
    }
}

/// Limits how many rows one request for a page may read if no index serves its filter.
///
/// One turn of a connection reads at most `Limits.listTurnRowCount` rows, so that no list delays the reads of
/// other tenants. Further turns follow until the page is full, the list ends, or `Limits.listScanRowCount`
/// rows have been read.
public struct ListScan: Sendable, Equatable {
    private var rowCount = 0

    /// Creates a scan that has read no rows.
    public init() {}

    /// Rows that the next turn may read.
    public var turnRowCount: Int { min(Limits.listTurnRowCount, Limits.listScanRowCount - rowCount) }

    /// Adds rows that a turn has read. Returns `false` if the scan must stop.
    public mutating func add(_ count: Int) -> Bool {
        rowCount += count
        return rowCount < Limits.listScanRowCount
    }
}
