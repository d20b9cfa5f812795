import FerryCore
import Postgres

extension RelayTransaction {
    /// Finishes those of the groups that are closed and whose last job has ended, and writes the event about
    /// it. `groups`: those of the rows that the pass has taken; the events of a group that are left in the
    /// inbox make a later pass look at it.
    mutating func finish(
        _ groups: Set<JobGroupID>, _ connection: inout Connection
    ) throws(PostgresError) {
        let now = numbering.context.clock.now()
        var parameters = Parameters.identifiers(Array(groups))
        parameters.append(now)
        let ended = try connection.execute(Statements.finishJobGroups, parameters)
        guard ended.rowCount > 0 else { return }
        for row in 0..<ended.rowCount where ended.bool(row, 1) { outcome.hasDependencyWork = true }
        let finished: [JobGroupID] = ended.identifiers()
        // A snapshot after the lock of the groups: the counts cannot change until the commit.
        let rows = try connection.execute(Statements.readJobGroups, .identifiers(finished))
        var (found, ends): ([JobGroup], [InboxRow]) = ([], [])
        for row in 0..<rows.rowCount {
            let group = JobGroup(rows, row, numbering.context)
            var packed: [UInt8] = []
            EventRecord(.groupFinished, job: nil, at: now, detail: group.shown()).pack(into: &packed)
            found.append(group)
            ends.append(
                InboxRow(
                    position: 0, tenant: group.tenant, session: "", group: nil, packed: packed,
                    entries: EventRecord.unpack(packed)))
        }
        var router = EventRouter(numbering.context, handover)
        _ = try router.plan(ends, byteCountMax: .max, &connection)
        for (place, group) in found.enumerated() { router.plan(ownWebhookOf: group, event: place) }
        var numbered = self.group(ends)
        try number(&numbered, &connection)
        try keep(numbered, router, &connection)
    }
}
