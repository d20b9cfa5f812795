import FerryCore
import Logging
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Steps of bulk operations: crashes between them, several nodes, and changes by others.
@Suite("Steps of bulk operations", .onOwnThread)
struct BulkStepTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// A node that accepts commands, but carries no operation out and runs no jobs.
    private func idleNode() throws -> TestNode { try TestNode(database.url, isWorker: false, works: false) }

    private func submit(_ count: Int) throws -> [NewJob] {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let jobs = (0..<count).map { newJob(path: "\($0)") }
        _ = try node.submit(jobs).get()
        return jobs
    }

    @Test("a node continues after a crash where the last committed step has ended")
    func crash() throws {
        let jobs = try submit(25)
        let dead = try idleNode()
        let started = try dead.start(.cancel, .filter(JobFilter())).get().record
        var steps = try StepConnection(database.url)
        #expect(try steps.step(dead))
        let first = try dead.operation(started.id)
        #expect(first.state == .running && first.counts.changed == 10 && first.counts.examined == 10)
        // A step that is not committed leaves nothing.
        #expect(try steps.step(dead, thenFails: true))
        #expect(try dead.operation(started.id) == first)
        #expect(try jobs.count { try dead.state($0) == .cancelled } == 10)
        // The newest come first.
        #expect(try dead.state(jobs[24]) == .cancelled && dead.state(jobs[0]) == .queued)
        dead.store.stop()
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let ended = try node.end(of: started.id)
        #expect(ended.state == .succeeded && ended.counts.changed == 25 && ended.counts.examined == 25)
        try eventually("each job has ended once") {
            try EventLog(database.url).events.count { $0.record.type == .jobCancelled } == 25
        }
    }

    @Test("identifiers are worked off in steps as well")
    func identifiers() throws {
        let jobs = try submit(25)
        let node = try idleNode()
        defer { node.store.stop() }
        let ids = jobs.map(\.id).sorted(by: >)
        let started = try node.start(.suspend, .jobs(ids)).get().record
        var steps = try StepConnection(database.url)
        for changed in [10, 20, 25] {
            #expect(try steps.step(node))
            #expect(try node.operation(started.id).counts.changed == Int64(changed))
        }
        #expect(try node.operation(started.id).state == .succeeded)
        #expect(try !steps.step(node))
    }

    @Test("while one node works on an operation, no other does")
    func twoNodes() throws {
        _ = try submit(5)
        let idle = try idleNode()
        defer { idle.store.stop() }
        var holder = try StepConnection(database.url)
        let started = try idle.start(.cancel, .filter(JobFilter())).get().record
        try holder.connection.execute(script: "BEGIN")
        var claim = Parameters()
        claim.append(idle.store.context.clock.now())
        claim.append(int32: 10)
        #expect(try holder.connection.execute(Statements.claimBulkOperation, claim).rowCount == 1)
        var other = try StepConnection(database.url)
        #expect(try !other.step(idle))
        #expect(try idle.operation(started.id).counts.changed == 0)
        try holder.connection.execute(script: "ROLLBACK")
        // Two nodes, which take turns or not.
        let nodes = try (0..<2).map { _ in try TestNode(database.url, isWorker: false) }
        defer { for node in nodes { node.store.stop() } }
        let ended = try nodes[0].end(of: started.id)
        #expect(ended.counts.changed == 5 && ended.counts.matched == 5)
    }

    @Test("two retries at once submit each job once")
    func concurrentRetries() throws {
        let worker = try TestNode(database.url)
        let jobs = (0..<4).map { _ in newJob(attemptCountMax: 1) }
        _ = try worker.submit(jobs).get()
        for attempt in try worker.attempts(4) { worker.end(attempt, failure(isRetryable: false)) }
        try eventually("the jobs have failed") { try jobs.allSatisfy { try worker.state($0) == .failed } }
        worker.store.stop()
        let idle = try idleNode()
        defer { idle.store.stop() }
        let first = try idle.start(.retry, .filter(JobFilter())).get().record
        let second = try idle.start(.retry, .filter(JobFilter())).get().record
        let nodes = try (0..<2).map { _ in try TestNode(database.url, isWorker: false) }
        defer { for node in nodes { node.store.stop() } }
        let ended = [try nodes[0].end(of: first.id), try nodes[1].end(of: second.id)]
        #expect(ended.reduce(0) { $0 + $1.counts.changed } == 4)
        #expect(ended.reduce(0) { $0 + ($1.counts.reasons[.alreadyRetried] ?? 0) } == 4)
    }

    @Test("a job that another transaction changes meanwhile is looked at again")
    func changesMeanwhile() throws {
        let jobs = try submit(2)
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        var other = try Connection(url: database.url)
        try other.execute(
            script: """
                BEGIN;
                UPDATE jobs SET state = 'suspended', revision = revision + 1
                WHERE id = '\(jobs[0].id.uuidText)';
                \(countRows("queued", -1)) \(countRows("suspended", 1))
                """)
        let started = try node.start(.suspend, .filter(JobFilter())).get().record
        try eventually("the step waits for the job") { try isBlocked("bulk", database.url) }
        try other.execute(script: "COMMIT")
        let ended = try node.end(of: started.id)
        #expect(ended.counts.changed == 1 && ended.counts.reasons == [.invalidState: 1])
        #expect(try node.job(jobs[0].id).get().record.revision == 2)
        #expect(try node.job(jobs[1].id).get().record.revision == 2)
    }

    @Test("an operation leaves jobs alone that were created after it")
    func laterJobs() throws {
        let before = try submit(1)
        let idle = try idleNode()
        defer { idle.store.stop() }
        let started = try idle.start(.cancel, .filter(JobFilter())).get().record
        // The row is locked, so that the submitting node does not begin with the operation.
        var holder = try Connection(url: database.url)
        try holder.execute(script: "BEGIN; SELECT FROM bulk_operations FOR UPDATE")
        let after = try submit(1)
        try holder.execute(script: "COMMIT")
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let ended = try node.end(of: started.id)
        #expect(ended.counts.matched == 1 && ended.counts.changed == 1)
        #expect(try node.state(before[0]) == .cancelled && node.state(after[0]) == .queued)
    }

    @Test("a job whose change the database refuses counts as failed, and the others are changed")
    func refusedChange() throws {
        let jobs = try submit(5)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    RAISE EXCEPTION 'refused' USING ERRCODE = '23514';
                END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON jobs FOR EACH ROW
                WHEN (OLD.id = '\(jobs[2].id.uuidText)') EXECUTE FUNCTION refuse()
                """)
        let node = try TestNode(database.url, isWorker: false) { $0.logger.logLevel = .critical }
        defer { node.store.stop() }
        let ended = try node.run(.suspend, .filter(JobFilter()))
        #expect(ended.state == .failed && ended.counts.changed == 4)
        #expect(ended.counts.reasons == [.internalError: 1] && ended.counts.failed == 1)
        for (number, job) in jobs.enumerated() {
            #expect(try node.state(job) == (number == 2 ? .queued : .suspended))
        }
    }

    @Test("a cancelled operation changes nothing more, and too many running ones are refused")
    func cancelOperation() throws {
        let jobs = try submit(15)
        let idle = try idleNode()
        defer { idle.store.stop() }
        let started = try idle.start(.cancel, .filter(JobFilter())).get().record
        var steps = try StepConnection(database.url)
        #expect(try steps.step(idle))
        let cancelled = try wait {
            idle.store.bulkCommands.cancelBulkOperation(started.id, tenant: "acme", reply: $0)
        }.get()
        #expect(cancelled.state == .cancelled && cancelled.counts.changed == 10)
        #expect(cancelled.finishedAt != nil)
        #expect(try !steps.step(idle))
        #expect(try jobs.count { try idle.state($0) == .queued } == 5)
        // Of one that has ended nothing changes.
        let again = try wait {
            idle.store.bulkCommands.cancelBulkOperation(started.id, tenant: "acme", reply: $0)
        }.get()
        #expect(again == cancelled)
        for _ in 0..<Limits.bulkOperationCountMax { _ = try idle.start(.resume, .filter(JobFilter())).get() }
        let refused = idle.start(.resume, .filter(JobFilter()), key: key("one too many"))
        guard case .failure(.tooManyBulkOperations) = refused else {
            Issue.record("\(refused)")
            return
        }
    }

    @Test("housekeeping removes operations whose retention is over")
    func retention() throws {
        let idle = try idleNode()
        defer { idle.store.stop() }
        var steps = try StepConnection(database.url)
        let old = try idle.start(.cancel, .filter(JobFilter())).get().record
        #expect(try steps.step(idle))
        try steps.connection.execute(
            script: "UPDATE bulk_operations SET finished_at = now() - interval '8 days'")
        let young = try idle.start(.cancel, .filter(JobFilter())).get().record
        #expect(try steps.step(idle))
        let running = try idle.start(.cancel, .filter(JobFilter())).get().record
        var parameters = Parameters()
        parameters.append(float64: Limits.bulkOperationSeconds)
        parameters.append(int32: 10)
        let removed = try steps.connection.execute(Statements.removeOldBulkOperations, parameters)
        #expect(removed.int64(0, 0) == 1)
        let left = try wait {
            idle.store.bulkCommands.bulkOperations(tenant: "acme", before: nil, limit: 10, reply: $0)
        }.get()
        #expect(left.map(\.id) == [running.id, young.id] && !left.map(\.id).contains(old.id))
    }
}
