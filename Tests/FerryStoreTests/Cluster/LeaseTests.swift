import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("The lease of a node", .onOwnThread)
struct LeaseTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Its lease ends only when a test says so, however slow the machine.
    private func makeNode() throws -> TestNode {
        try TestNode(database.url, leaseSeconds: 300) { $0.heartbeatSeconds = 0.1 }
    }

    /// From now on no heartbeat gets through, and it is as if none had for longer than a lease.
    private func endLease(of node: TestNode, _ connection: inout Connection) throws {
        try connection.execute(script: "SELECT pg_advisory_lock(\(Heartbeat.reclaimLock))")
        // Those before it have been counted.
        try eventually("a heartbeat waits") { try isBlocked("heartbeat", database.url) }
        node.store.nodeState.lease.confirm(sentAt: .min / 2)
        #expect(!node.store.heartbeat.holdsLease)
    }

    private func letHeartbeatsGo(_ connection: inout Connection) throws {
        try connection.execute(script: "SELECT pg_advisory_unlock_all()")
    }

    @Test("a lease that lapses while a heartbeat is under way has a new number afterwards")
    func lapseOnTheWay() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let attempt = try node.attempt()
        let heartbeat = node.store.heartbeat
        var connection = try Connection(url: database.url)
        try endLease(of: node, &connection)
        // Another node may have taken the job by then.
        try connection.execute(
            script: """
                UPDATE jobs SET state = 'waiting', waiting_for = 'begin_date', node = NULL,
                    next_attempt_at = now() + interval '1 day', revision = revision + 1;
                \(countRows("running", -1)) \(countRows("waiting", 1))
                """)
        try letHeartbeatsGo(&connection)
        eventually("it is held again") { heartbeat.holdsLease }
        #expect(!heartbeat.holdsLease(of: attempt.job, attempt: attempt.number))
    }

    @Test("the lease ends before a stopping node gives back its jobs")
    func goodbye() throws {
        let node = try TestNode(database.url)
        _ = try node.submit(newJob())
        let attempt = try node.attempt()
        node.store.stop()
        #expect(try countedStates(database.url) == ["queued": 1])
        #expect(!node.store.heartbeat.holdsLease(of: attempt.job, attempt: attempt.number))
    }

    @Test("without a lease no job is leased, neither by a submission nor by a claim")
    func unknownOutcome() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        try endLease(of: node, &connection)
        let soon = Timestamp(microseconds: Sys.wallMicroseconds()) + 0.2
        let jobs = [newJob(), newJob(beginAt: soon)]
        let accepted = try node.submit(jobs).get().jobs
        #expect(accepted.allSatisfy { $0.state != .running })
        // The second one by the dispatcher, which has looked at the queue by then.
        try eventually("the other one is queued as well") {
            try countedStates(database.url) == ["queued": 2]
        }
        try letHeartbeatsGo(&connection)
        #expect(Set(try node.attempts(2).map(\.job)) == Set(jobs.map(\.id)))
    }

    /// Writer of a lease.
    enum Writer: String, CaseIterable { case submissions, dispatcher }

    @Test(
        "jobs that were being leased when the lease lapsed do not begin",
        arguments: Writer.allCases)
    func beingWritten(_ writer: Writer) throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let job = newJob()
        eventually("the first jobs begin with their acceptance") { !node.store.hasBacklog }
        if writer == .dispatcher {
            node.downloads.set(.noSpace)
            #expect(try node.submit(job).state == .queued)
        }
        var connection = try Connection(url: database.url)
        var gate = try Connection(url: database.url)
        // Whoever writes a lease waits before the commit.
        try gate.execute(
            script: """
                CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_advisory_xact_lock(42);
                    RETURN NULL;
                END $$;
                CREATE TRIGGER hold AFTER INSERT OR UPDATE ON jobs
                FOR EACH ROW WHEN (NEW.state = 'running') EXECUTE FUNCTION hold();
                SELECT pg_advisory_lock(42)
                """)
        let answers = Mailbox<JobState?>()
        switch writer {
        case .submissions:
            node.store.submissions.submit(
                Submission(jobs: [job], idempotency: nil) { answers.send(try? $0.get().jobs.first?.state) })
        case .dispatcher: node.downloads.set(nil)
        }
        try eventually("it is being written") { try isBlocked(writer.rawValue, database.url) }
        try endLease(of: node, &connection)
        try letHeartbeatsGo(&connection)
        eventually("it is held again") { node.store.heartbeat.holdsLease }
        try gate.execute(script: "SELECT pg_advisory_unlock_all()")
        if writer == .submissions { #expect(answers.wait(milliseconds: 60_000) == [JobState.running]) }
        // It is given back, and nothing is lost of it.
        let attempt = try node.attempt()
        #expect(attempt.job == job.id && attempt.number == 2 && attempt.failedAttemptCount == 0)
        eventually("that one is held") { node.store.heartbeat.holdsLease(of: job.id, attempt: 2) }
        node.end(attempt, success)
        #expect(try node.job(job.id).get().record.state == .succeeded)
        eventually("every slot and lease is free") {
            node.slots.busyCount == 0 && node.slots.leaseCount == 0
        }
    }

    @Test("an expected lease is known, but neither held nor compared with the database")
    func registry() {
        let registry = LeaseRegistry()
        let jobs: [JobID] = (0..<3).map { _ in TestNode.identifiers.make() }
        registry.expect(jobs)
        #expect(jobs.allSatisfy { registry.contains($0) && !registry.holds($0, attempt: 1) })
        #expect(registry.all.isEmpty)
        registry.insert([(jobs[0], Int32(1))])
        registry.dismiss([jobs[1]])
        #expect(registry.all == [jobs[0]: 1] && registry.holds(jobs[0], attempt: 1))
        #expect(!registry.contains(jobs[1]) && registry.contains(jobs[2]))
        registry.remove([(jobs[0], Int32(1))])
        #expect(!registry.contains(jobs[0]))
    }
}
