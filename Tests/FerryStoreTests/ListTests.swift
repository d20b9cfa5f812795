import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import Testing

@Suite("Lists of a long history")
struct ListTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        // Nothing runs by itself here.
        node = try TestNode(database.url, isWorker: false)
    }

    @Test(
        "a list by time looks no further back than jobs of that time may lie",
        arguments: ["jobs", "finished_jobs", "unacknowledged_jobs"])
    func timeBound(table: String) throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob(acknowledgement: AcknowledgementRules())).id
        if table != "jobs" {
            _ = try wait { node.store.control.cancel(id, tenant: "acme", reply: $0) }.get()
        }
        var connection = try Connection(url: database.url)
        let made = Double(id.millisecondsSince1970) / 1_000
        var query = JobQuery(tenant: "acme")
        query.isUnacknowledged = table == "unacknowledged_jobs"
        var seen: [[JobID]] = []
        // The first one has waited for its transaction. Nobody waits for an hour: what is found then shows
        // how far the look went.
        for seconds in [240.0, 3_600] {
            try connection.execute(
                script: """
                    UPDATE jobs SET created_at = to_timestamp(\(made + seconds));
                    UPDATE finished_jobs SET created_at = to_timestamp(\(made + seconds))
                    """)
            query.createdAfter = Timestamp(microseconds: Int64((made + seconds - 1) * 1e6))
            let page = try wait { node.store.control.jobs(query, reply: $0) }.get()
            seen.append(page.map(\.id))
        }
        #expect(seen == [[id], []])
    }

    @Test("a page that takes long holds up no job that is read meanwhile")
    func slowPage() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob()).id
        // A table that only the list reads.
        var holder = try Connection(url: database.url)
        try holder.execute(script: "BEGIN; LOCK TABLE schedule_runs IN ACCESS EXCLUSIVE MODE")
        let pages = Mailbox<Result<[JobRecord], StoreError>>()
        node.store.control.jobs(JobQuery(tenant: "acme")) { pages.send($0) }
        try eventually("the list waits") { try isBlocked("control", at: "schedule_runs", database.url) }
        #expect(try node.job(id).get().record.id == id)
        try holder.execute(script: "ROLLBACK")
        // Behind it the read would have waited until the list was given up.
        #expect(try pages.wait(milliseconds: 60_000).first?.get().map(\.id) == [id])
    }
}
