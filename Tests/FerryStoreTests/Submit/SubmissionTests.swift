import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Submissions", .onOwnThread)
struct SubmissionTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func idleNode(slots: Int = 4) throws -> TestNode {
        let node = try TestNode(database.url, slots: slots)
        eventually("the first claim clears the backlog") { !node.store.hasBacklog }
        return node
    }

    @Test("a job that may begin is leased as it is inserted, and begins without a claim")
    func leasedInsert() throws {
        let node = try idleNode()
        defer { node.store.stop() }
        let job = newJob()
        let accepted = try node.submit(job)
        #expect(accepted.state == .running && accepted.node == node.id && accepted.id == job.id)
        #expect(accepted.startedAt == accepted.createdAt)
        let attempt = try node.attempt()
        #expect(attempt.job == job.id && attempt.number == 1 && attempt.revision == 1)
        let stored = try node.job(job.id).get().record
        #expect(stored.state == .running && stored.attempt == 1 && stored.createdAt == accepted.createdAt)
        #expect(node.slots.freeCount == 3)
        #expect(try node.status().running == 1)
    }

    @Test("without a free slot jobs queue, and the one of highest priority begins when a slot is free")
    func queueing() throws {
        let node = try idleNode(slots: 1)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let first = try node.attempt()
        let low = try node.submit(newJob(priority: 0.1))
        let high = try node.submit(newJob(priority: 0.9))
        #expect(low.state == .queued && high.state == .queued)
        #expect(try node.status().queued == 2)
        node.end(first, success)
        let second = try node.attempt()
        #expect(second.job == high.id && second.number == 1 && second.revision == 2)
        node.end(second, success)
        #expect(try node.attempt().job == low.id)
    }

    @Test("a job with a begin date waits, and begins at that date")
    func beginDate() throws {
        let node = try idleNode()
        defer { node.store.stop() }
        // Later than a machine that stands still for a while takes to accept it.
        let begin = Timestamp(microseconds: Sys.wallMicroseconds() + 6_000_000)
        let accepted = try node.submit(newJob(beginAt: begin))
        #expect(
            accepted.state == .waiting && accepted.waitingFor == .beginDate && accepted.nextAttemptAt == begin
        )
        let attempt = try node.attempt()
        #expect(attempt.startedAt >= begin && attempt.startedAt - begin < 10)
    }

    @Test("a node that is no worker leases nothing, and a worker runs its jobs")
    func apiNode() throws {
        let api = try TestNode(database.url, isWorker: false)
        let worker = try idleNode()
        defer {
            api.store.stop()
            worker.store.stop()
        }
        let accepted = try api.submit(newJob())
        #expect(accepted.state == .queued)
        #expect(try worker.attempt().job == accepted.id)
    }

    @Test("the same key and body get the first reply again; another body is refused")
    func idempotency() throws {
        let node = try idleNode()
        defer { node.store.stop() }
        let jobs = [
            newJob(), newJob(beginAt: Timestamp(microseconds: Sys.wallMicroseconds() + 3_600_000_000)),
        ]
        let first = try node.submit(jobs, key: key("a")).get()
        let again = try node.submit([newJob(), newJob()], key: key("a")).get()
        #expect(!first.isReplay && again.isReplay)
        #expect(again.jobs.map(\.id) == jobs.map(\.id))
        #expect(again.jobs.map(\.state) == [.running, .waiting])
        #expect(again.jobs.map(\.createdAt) == first.jobs.map(\.createdAt))
        #expect(again.jobs.map(\.nextAttemptAt) == first.jobs.map(\.nextAttemptAt))
        guard case .failure(.idempotencyKeyReused) = node.submit([newJob()], key: key("a", fingerprint: 2))
        else {
            Issue.record("the key was accepted for another body")
            return
        }
        #expect(try countedStates(database.url) == ["running": 1, "waiting": 1])
        eventually("the slots of replays are free again") { node.slots.freeCount == 3 }
    }

    @Test("of many submissions with one key at once, on two nodes, exactly one is accepted")
    func idempotencyRace() throws {
        let nodes = [try TestNode(database.url), try TestNode(database.url)]
        defer { nodes.forEach { $0.store.stop() } }
        let answers = Mailbox<Result<Submission.Accepted, StoreError>>()
        for round in 0..<40 {
            nodes[round % 2].store.submissions.submit(
                Submission(jobs: [newJob()], idempotency: key("race")) { answers.send($0) })
        }
        var ids: Set<JobID> = []
        var freshCount = 0
        var received = 0
        while received < 40 {
            let batch = answers.wait(milliseconds: 60_000)
            try #require(!batch.isEmpty)
            for answer in batch {
                let accepted = try answer.get()
                ids.formUnion(accepted.jobs.map(\.id))
                if !accepted.isReplay { freshCount += 1 }
            }
            received += batch.count
        }
        #expect(ids.count == 1 && freshCount == 1)
        #expect(try countedStates(database.url).values.reduce(0, +) == 1)
    }

    @Test("a submission is accepted as a whole or not at all, and a bad one fails alone")
    func badSubmission() throws {
        let node = try idleNode(slots: 8)
        defer { node.store.stop() }
        let answers = Mailbox<(Int, Bool)>()
        let bad = newJob(traceparent: "a\0b")
        for (index, jobs) in [[newJob(), newJob()], [newJob(), bad], [newJob()]].enumerated() {
            node.store.submissions.submit(
                Submission(jobs: jobs, idempotency: nil) { answer in
                    if case .success = answer {
                        answers.send((index, true))
                    } else {
                        answers.send((index, false))
                    }
                })
        }
        var accepted: [Int: Bool] = [:]
        while accepted.count < 3 {
            let batch = answers.wait(milliseconds: 60_000)
            try #require(!batch.isEmpty)
            for (index, isAccepted) in batch { accepted[index] = isAccepted }
        }
        #expect(accepted == [0: true, 1: false, 2: true])
        #expect(try countedStates(database.url) == ["running": 3])
        eventually("the slots of the bad one are free") { node.slots.freeCount == 5 }
    }

    @Test("a batch of 10,000 jobs is one transaction, and its status is counted")
    func largeBatch() throws {
        let node = try idleNode()
        defer { node.store.stop() }
        let accepted = try node.submit((0..<10_000).map { _ in newJob() }).get()
        #expect(accepted.jobs.count == 10_000)
        let status = try node.status()
        #expect(status.queued + status.running == 10_000)
        #expect(status.oldestQueuedSeconds != nil)
        guard case .failure(.overloaded) = node.submit((0..<20_001).map { _ in newJob() }) else {
            Issue.record("more jobs than may wait were taken")
            return
        }
    }
}
