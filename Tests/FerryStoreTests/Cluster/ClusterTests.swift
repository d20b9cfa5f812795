import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Nodes and databases that die", .onOwnThread)
struct ClusterTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    /// Leaves the state of a killed process: a running job and a heartbeat `age` seconds ago.
    private func leaveRunning(
        _ node: NodeID, age: Double, cancelRequested: Bool = false, method: String = "GET"
    ) throws -> JobID {
        let api = try TestNode(database.url, isWorker: false)
        let job = try api.submit(newJob(kind: method == "GET" ? .download : .data, method: method)).id
        api.store.stop()
        var connection = try Connection(url: database.url)
        try leaveRunning(node, age: age, cancelRequested: cancelRequested, &connection)
        return job
    }

    /// As if the job that is there ran on it.
    private func leaveRunning(
        _ node: NodeID, age: Double, cancelRequested: Bool = false, _ connection: inout Connection
    ) throws {
        let text = uuidText(node)
        try connection.execute(
            script: """
                UPDATE jobs SET state = 'running', attempt = 1, revision = 2, node = '\(text)',
                    started_at = now(), cancel_requested = \(cancelRequested);
                INSERT INTO job_counts (shard, queued, running) VALUES ('\(text)/dispatcher', -1, 1);
                INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker)
                VALUES ('\(text)', 'dead', '0', now(), now() - interval '\(age) seconds', 1, false, true);
                """)
    }

    private func uuidText(_ id: NodeID) -> String {
        let digits = String(id.high, radix: 16).leftPadded + String(id.low, radix: 16).leftPadded
        return String(digits)
    }

    @Test("a restarted node reclaims its own jobs immediately")
    func restart() throws {
        let id: NodeID = TestNode.identifiers.make()
        let job = try leaveRunning(id, age: 0)
        let node = try TestNode(database.url, id: id)
        defer { node.store.stop() }
        let attempt = try node.attempt()
        #expect(attempt.job == job && attempt.number == 2)
    }

    @Test("after an outage no node is found dead before it had time for a heartbeat")
    func outage() throws {
        let other: NodeID = TestNode.identifiers.make()
        // Much longer than two heartbeats, however slow the machine.
        let node = try TestNode(database.url, isWorker: false, leaseSeconds: 6) { $0.heartbeatSeconds = 0.2 }
        defer { node.store.stop() }
        let job = try node.submit(newJob()).id
        var connection = try Connection(url: database.url)
        // No heartbeat gets through.
        try connection.execute(script: "SELECT pg_advisory_lock(\(Heartbeat.reclaimLock))")
        // Only now: before, it would hear the other one's silence, for as long as a slow test takes.
        try leaveRunning(other, age: 60, &connection)
        let age = Statement(
            "beat_age",
            """
            SELECT extract(epoch FROM clock_timestamp() - heartbeat_at)::double precision FROM nodes
            WHERE id = '\(node.id.uuidText)'
            """)
        try eventually("it was away for more than a lease") {
            try connection.execute(age).float64(0, 0) > 7
        }
        try connection.execute(script: "SELECT pg_advisory_unlock_all()")
        try node.waitForBeats(2, database.url)
        #expect(try node.job(job).get().record.node == other)
        #expect(node.store.metrics.reclaimedJobs == 0)
    }

    @Test("a node that has just started finds no node dead, however old the heartbeats are")
    func start() throws {
        let other: NodeID = TestNode.identifiers.make()
        let job = try leaveRunning(other, age: 60)
        let node = try TestNode(database.url, leaseSeconds: 50) { $0.heartbeatSeconds = 0.1 }
        defer { node.store.stop() }
        try node.waitForBeats(5, database.url)
        #expect(try node.job(job).get().record.node == other)
        #expect(node.store.metrics.reclaimedJobs == 0)
    }

    @Test("jobs of a node without heartbeats run elsewhere after its lease; those of a live node do not")
    func reclaim() throws {
        let dead: NodeID = TestNode.identifiers.make()
        let job = try leaveRunning(dead, age: 60)
        let node = try TestNode(database.url, leaseSeconds: 2)
        defer { node.store.stop() }
        let attempt = try node.attempt()
        // Once more where its own lease lapsed before it began.
        #expect(attempt.job == job && attempt.number >= 2 && attempt.failedAttemptCount == 0)
        eventually("it is counted") { node.store.metrics.reclaimedJobs == 1 }
        let other = try TestNode(database.url, leaseSeconds: 5) { $0.heartbeatSeconds = 0.1 }
        defer { other.store.stop() }
        // Longer than its lease.
        try other.waitForBeats(60, database.url)
        #expect(other.runner.begun.wait(milliseconds: 0).isEmpty)
        #expect(try node.job(job).get().record.node == node.id && other.store.metrics.reclaimedJobs == 0)
    }

    @Test(
        "running jobs whose node has no row are reclaimed, and a node with jobs keeps its row"
    )
    func noTrace() throws {
        let gone: NodeID = TestNode.identifiers.make()
        let job = try leaveRunning(gone, age: 10_000)
        var connection = try Connection(url: database.url)
        // What housekeeping and a goodbye say; it holds a job.
        _ = try connection.execute(Statements.removeNode, .identifier(gone))
        var lifetime = Parameters()
        lifetime.append(float64: 3_600)
        _ = try connection.execute(Statements.foldCounts, lifetime)
        let rows = Statement("count_nodes", "SELECT count(*) FROM nodes")
        #expect(try connection.execute(rows).int64(0, 0) == 1)
        try connection.execute(script: "DELETE FROM nodes")
        let node = try TestNode(database.url, leaseSeconds: 10)
        defer { node.store.stop() }
        #expect(try node.attempt().job == job)
    }

    @Test("a node knows the addresses of the others; one that has left is known by its last heartbeat")
    func peers() throws {
        let first = try TestNode(database.url) { $0.nodeURL = "http://10.0.0.1:80" }
        let second = try TestNode(database.url) { $0.heartbeatSeconds = 0.1 }
        defer { second.store.stop() }
        eventually("the address is known") { second.store.peers.all.first?.url == "http://10.0.0.1:80" }
        func peer(_ id: NodeID) -> Result<PeerNode, StoreError> {
            wait { second.store.peers.peer(id, reply: $0) }
        }
        #expect(try peer(first.id).get().url == "http://10.0.0.1:80")
        #expect(try !peer(first.id).get().hasLeft)
        first.store.stop()
        eventually("it has left") { second.store.peers.all.isEmpty }
        let left = try peer(first.id).get()
        #expect(left.hasLeft && left.url == nil && left.heartbeatAt > Timestamp(microseconds: 0))
        // Housekeeping moves a silent node in the same way, and forgets it much later. One transaction, or
        // `second` could learn of the silent node, and know it until its next heartbeat.
        let silent: NodeID = TestNode.identifiers.make()
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                BEGIN;
                INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker)
                VALUES ('\(uuidText(silent))', 'dead', '0', now(), now() - interval '3 hours', 0, false, true)
                """)
        var lifetime = Parameters()
        lifetime.append(float64: 3_600)
        _ = try connection.execute(Statements.foldCounts, lifetime)
        try connection.execute(script: "COMMIT")
        #expect(try peer(silent).get().hasLeft)
        _ = try connection.execute(Statements.removeFormerNodes, lifetime)
        #expect(throws: StoreError.self) { try peer(silent).get() }
        #expect(try peer(first.id).get().hasLeft, "it has not been away for so long")
    }

    @Test("a job whose cancellation was requested before its node died is cancelled, not run")
    func cancelledWhileDead() throws {
        let dead: NodeID = TestNode.identifiers.make()
        let job = try leaveRunning(dead, age: 60, cancelRequested: true)
        let node = try TestNode(database.url, leaseSeconds: 2)
        defer { node.store.stop() }
        node.waitUntilFinished(job)
        #expect(try node.job(job).get().record.state == .cancelled)
        #expect(node.runner.begun.count == 0)
    }

    @Test(
        "a job of a dead node goes on if its POST was not sent, or its server keeps the upload, else it fails"
    )
    func unsentRequest() throws {
        let upload = NextRequest.upload(UploadNoteTests.upload)
        for (wasSent, isRestart, isKept) in [
            (false, false, false), (true, false, false), (false, true, false), (true, true, false),
            (false, false, true), (false, true, true),
        ] {
            let dead: NodeID = TestNode.identifiers.make()
            let job = try leaveRunning(dead, age: isRestart ? 0 : 60, method: "POST")
            for next in (wasSent || isKept ? [nil] : []) + (isKept ? [upload.encode(.inverted)] : []) {
                var parameters = Parameters()
                parameters.append(dead)
                parameters.appendArray(.uuid, [job]) { $0.append($1) }
                parameters.appendArray(.int32, [Int32(1)]) { $0.append(int32: $1) }
                parameters.appendArray(.bytea, [job]) { values, _ in values.append(bytea: next) }
                var connection = try Connection(url: database.url)
                #expect(try connection.execute(Statements.markRequests, parameters).identifiers() == [job])
            }
            let node =
                try isRestart ? TestNode(database.url, id: dead) : TestNode(database.url, leaseSeconds: 2)
            defer { node.store.stop() }
            if wasSent {
                node.waitUntilFinished(job)
                let record = try node.job(job).get().record
                #expect(record.state == .failed && node.runner.begun.count == 0)
            } else {
                let attempt = try node.attempt()
                #expect(attempt.job == job && attempt.number == 2)
                #expect(attempt.upload == (isKept ? UploadNoteTests.upload : nil))
                // The lost attempt is shown.
                node.end(attempt, success)
            }
        }
    }

    @Test("a request is noted for the attempt that holds the lease, and for no other")
    func markedRequest() throws {
        let node = try TestNode(database.url, leaseSeconds: 300)
        defer { node.store.stop() }
        _ = try node.submit(newJob(kind: .data, method: "POST"))
        let attempt = try node.attempt()
        let isHeld = Signal<Bool>()
        node.store.dispatcher.mark(attempt) { isHeld.fire($0) }
        #expect(isHeld.wait() == [true])
        var connection = try Connection(url: database.url)
        let sent = Statement("read_sent", "SELECT sent_attempt FROM jobs")
        #expect(try connection.execute(sent).int32(0, 0) == attempt.number)
        try connection.execute(script: "UPDATE jobs SET attempt = attempt + 1")
        node.store.dispatcher.mark(attempt) { isHeld.fire($0) }
        #expect(isHeld.wait() == [false])
        #expect(try connection.execute(sent).int32(0, 0) == attempt.number)
    }

    @Test("a lease that this process does not know is given back")
    func unknownLease() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let id = uuidText(node.id)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO claim_queues (id, tenant, session) VALUES (1000000, 'acme', 'default');
                INSERT INTO jobs (id, tenant, session, kind, state, priority, expires_at, origin, spec,
                    created_at, node, attempt, started_at, revision, queue, urgency)
                VALUES (gen_random_uuid(), 'acme', 'default', 'download', 'running', 0.5, now() + '1 day',
                    'https://example.org:443', '\(String(decoding: newJob().storedSpec.json, as: UTF8.self))', now(),
                    '\(id)', 1, now(), 1, 1000000, now());
                INSERT INTO job_counts (shard, running) VALUES ('test', 1);
                """)
        // The commit that hands the lease over failed as far as this process knows.
        node.store.dispatcher.send(.reconcile)
        let attempt = try node.attempt()
        #expect(attempt.number == 2)
    }

    @Test("a connection gets a new row of counts, and its old rows are folded")
    func shards() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let attempt = try node.attempt()
        var connection = try Connection(url: database.url)
        let shards = Statement("list_shards", "SELECT shard FROM job_counts WHERE running <> 0")
        let now = Sys.wallMicroseconds() / 1_000_000
        let shard = try connection.execute(shards).text(0, 0)
        let second = try #require(Int64(shard.split(separator: "/").last ?? ""))
        let parts = shard.split(separator: "/")
        #expect(parts.first.map(String.init)?.replacing("-", with: "") == uuidText(node.id))
        #expect((now - 30...now + 1).contains(second))
        // As if it had been a while ago.
        try connection.execute(
            script: "UPDATE job_counts SET shard = regexp_replace(shard, '[0-9]+$', '1600000000')")
        var silence = Parameters()
        silence.append(float64: 3_600)
        _ = try connection.execute(Statements.foldCounts, silence)
        let folded = try connection.execute(shards)
        #expect(folded.rowCount == 1 && folded.text(0, 0) == "folded")
        #expect(try node.status().running == 1)
        node.end(attempt, success)
        #expect(try node.status().running == 0)
        let left = try connection.execute(
            Statement(
                "sum_counts",
                "SELECT sum(waiting)::int, sum(queued)::int, sum(running)::int FROM job_counts"))
        #expect(left.int32(0, 0) == 0 && left.int32(0, 1) == 0 && left.int32(0, 2) == 0)
    }

    @Test("a cancellation reaches the node that runs the job")
    func cancelElsewhere() throws {
        let api = try TestNode(database.url, isWorker: false)
        let worker = try TestNode(database.url)
        defer {
            api.store.stop()
            worker.store.stop()
        }
        let accepted = try api.submit(newJob())
        let attempt = try worker.attempt()
        let shown = try wait { api.store.jobCommands.cancel(accepted.id, tenant: "acme", reply: $0) }.get()
        #expect(shown.state == .running)
        #expect(worker.runner.cancelled.wait(milliseconds: 60_000).contains(accepted.id))
        worker.store.dispatcher.record(result(attempt, .cancelled))
        worker.waitUntilFinished(accepted.id)
        #expect(try api.job(accepted.id).get().record.state == .cancelled)
    }

    @Test("without confirmed heartbeats the lease ends before other nodes may take the jobs")
    func lease() throws {
        let server = try TestServer()
        defer { server.remove() }
        try Migrator.migrate(url: server.url())
        let node = try TestNode(server.url(), leaseSeconds: 0.8)
        eventually("it is alive") { node.store.heartbeat.holdsLease && node.store.isReady }
        server.stop()
        eventually("the lease ends") { !node.store.heartbeat.holdsLease }
        try server.start()
        eventually("the lease is back") { node.store.heartbeat.holdsLease }
        node.store.stop()
    }

    @Test("a database that crashes and restarts has every accepted job")
    func crash() throws {
        let server = try TestServer()
        defer { server.remove() }
        try Migrator.migrate(url: server.url())
        let node = try TestNode(server.url(), slots: 32)
        node.runner.react { [store = node.store] attempt in store.dispatcher.record(result(attempt, success))
        }
        let accepted = Mailbox<JobID>()
        let answered = Mailbox<Bool>()
        func submitMany() {
            for _ in 0..<200 {
                node.store.submissions.submit(
                    Submission(jobs: [newJob()], idempotency: nil) { answer in
                        if case .success(let taken) = answer { accepted.send(taken.jobs[0].id) }
                        answered.send(true)
                    })
            }
        }
        submitMany()
        server.stop(3)
        submitMany()
        try server.start()
        eventually("jobs are accepted again") { (try? node.submit([newJob()]).get()) != nil }
        submitMany()
        var answerCount = 0
        while answerCount < 600 {
            let batch = answered.wait(milliseconds: 60_000)
            try #require(!batch.isEmpty)
            answerCount += batch.count
        }
        eventually("everything is finished") {
            let status = wait { node.store.status.read(reply: $0) }
            guard case .success(let status) = status else { return false }
            return status.running == 0 && status.queued == 0 && status.waiting == 0
        }
        let ids = accepted.take()
        #expect(ids.count >= 200)
        for id in ids { #expect(try node.job(id).get().record.state == .succeeded) }
        node.store.stop()
        #expect(node.slots.freeCount == 32)
        #expect(try countedStates(server.url()).isEmpty)
    }
}

extension String {
    /// Sixteen digits.
    fileprivate var leftPadded: String { String(repeating: "0", count: 16 - count) + self }
}
