/// A page of a list as the store reads it, newest first.
package struct ListPage<Record: Sendable, Kind: IdentifierKind>: Sendable {
    package let records: [Record]
    /// Where a scan that is bounded stopped before the page was full: the next page begins below this
    /// identifier. `nil` if the page is full or the list ends with it.
    package let stoppedAt: Identifier<Kind>?

    package init(_ records: [Record], stoppedAt: Identifier<Kind>? = nil) {
        self.records = records
        self.stoppedAt = stoppedAt
    }
}

/// How far one request for a page may look through a list whose filter no index serves.
///
/// One turn of a connection looks at `Limits.listTurnRowCount` rows at most, so that no list holds up the
/// reads of other tenants. The page goes on in further turns until it is full, the list ends, or
/// `Limits.listScanRowCount` rows have been looked at.
package struct ListScan: Sendable, Equatable {
    private var rowCount = 0

    package init() {}

    /// Rows that the next turn may look at.
    package var turnRowCount: Int { min(Limits.listTurnRowCount, Limits.listScanRowCount - rowCount) }

    /// Counts rows that a turn has looked at. Returns `false` if the scan has to stop there.
    package mutating func add(_ count: Int) -> Bool {
        rowCount += count
        return rowCount < Limits.listScanRowCount
    }
}
