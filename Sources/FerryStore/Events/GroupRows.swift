import FerryCore
import Logging
import Postgres

extension JobGroup {
    /// Reads the columns of read_job_group.sql. A definition that is damaged is logged, and shown without its
    /// optional fields.
    init(_ rows: borrowing ResultSet, _ row: Int, _ context: StoreContext) {
        let name = rows.text(row, 2)
        var draft = GroupDraft(name: name)
        if let json = rows.bytesOrNil(row, 3) {
            do throws(StoredJSONError) {
                draft = try GroupDraft(storedJSON: json)
            } catch {
                context.logger.error(
                    "a group cannot be read", metadata: ["group": "\(name)", "error": "\(error)"])
            }
        }
        self.init(
            id: rows.identifier(row, 0), tenant: rows.text(row, 1), draft, createdAt: rows.instant(row, 6))
        sealedSecrets = rows.bytesOrNil(row, 4)
        round = rows.int32(row, 5)
        closedAt = rows.instantOrNil(row, 7)
        finishedAt = rows.instantOrNil(row, 8)
        counts.waiting = rows.int64(row, 9)
        counts.queued = rows.int64(row, 10)
        counts.running = rows.int64(row, 11)
        counts.suspended = rows.int64(row, 12)
        counts.succeeded = rows.int64(row, 13)
        counts.failed = rows.int64(row, 14)
        counts.cancelled = rows.int64(row, 15)
        openFailureCount = rows.int64(row, 16)
        bytesReceived = rows.int64(row, 17)
        bytesSent = rows.int64(row, 18)
        // A young group has had less than a minute.
        let age = Double(context.clock.now().microseconds - createdAt.microseconds) / 1e6
        let seconds = min(60, max(1, age))
        jobsPerSecond = rows.float64(row, 19) / seconds
        bytesPerSecond = rows.float64(row, 20) / seconds
    }
}
