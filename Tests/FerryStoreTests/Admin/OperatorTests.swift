import FerryCore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Operator settings", .onOwnThread)
struct OperatorTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func leases(_ node: TestNode) -> Bool {
        node.store.nodeState.isLeasing.load(ordering: .relaxed)
    }

    private func ask<Value: Sendable>(_ body: (@escaping Reply<Value>) -> Void) throws -> Value {
        try wait { body($0) }.get()
    }

    @Test("a paused service leases no job on any node, queues due jobs, and continues when resumed")
    func pause() throws {
        let first = try TestNode(database.url, slots: 4)
        defer { first.store.stop() }
        let second = try TestNode(database.url, slots: 4)
        defer { second.store.stop() }
        try ask { first.store.operators.pause(true, reply: $0) }
        eventually("the other node is notified") { second.store.isPaused }
        let job = newJob()
        let later = newJob(beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 0.2)
        for (node, job) in [(first, job), (second, later)] {
            let accepted = try node.submit([job]).get()
            #expect(accepted.jobs[0].state != .running)
        }
        try eventually("both are queued") {
            let status = try ask { first.store.status.read(reply: $0) }
            return status.isPaused && status.queued == 2 && status.waiting == 0
        }
        #expect(first.runner.begun.take().isEmpty && second.runner.begun.take().isEmpty)
        try ask { second.store.operators.pause(false, reply: $0) }
        var begun: Set<JobID> = []
        eventually("both begin") {
            for node in [first, second] { begun.formUnion(node.runner.begun.take().map(\.job)) }
            return begun == [job.id, later.id]
        }
    }

    @Test("a node that starts paused begins no job, claims no delivery, runs no schedule and probes no host")
    func held() throws {
        // It sends no probes: the next one stays due.
        let first = try TestNode(database.url)
        let parked = try first.submit(newJob(host: "away.example", attemptCountMax: 1))
        let outcome = AttemptResult.Outcome.failed(
            TransferError(.couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true),
            retryAfter: nil)
        func isParked() throws -> Bool {
            let job = try first.job(parked.id).get().record
            return job.waitingFor == .connectivity && job.nextAttemptAt == nil
        }
        try eventually("it waits for its host") {
            for attempt in first.runner.begun.take() { first.end(attempt, outcome) }
            return try isParked()
        }
        let prober = ScriptedProber()
        let held = try TestNode(database.url, prober: prober) { $0.startsPaused = true }
        defer { held.store.stop() }
        eventually("the other node is notified") {
            first.store.nodeState.isHeld.load(ordering: .relaxed)
        }
        first.store.stop()
        // Its delivery is due at once.
        let finished = newJob(host: "gone.example", webhook: true, webhookEvents: [.jobCancelled])
        _ = try held.submit([finished]).get()
        _ = try wait { held.store.jobCommands.cancel(finished.id, tenant: "acme", reply: $0) }.get()
        try held.waitForDeliveries(1)
        func claim() throws -> [Delivery] {
            try ask { (reply: @escaping Reply<[Delivery]>) in
                held.store.deliveries.claim(DeliveryDemand(total: 9, other: 9), leaseSeconds: 30) {
                    reply(.success($0.due))
                }
            }
        }
        #expect(try claim().isEmpty)
        let status = try held.status()
        #expect(status.isPaused && status.isHeld && held.runner.begun.take().isEmpty)
        let delivery = try wait {
            held.store.deliveryQueries.deliveries(of: .job(finished.id), tenant: "acme", limit: 1, reply: $0)
        }.get().records.first
        #expect(delivery?.isHeld == true)
        let conditions = held.store.queueConditions
        let reason = WaitingReason(try held.job(parked.id).get().record, queue: conditions)
        #expect(reason?.detail.contains("no node probes") == true && reason?.nextCheckAt == nil)
        #expect(prober.asked.take().isEmpty)
        try ask { held.store.operators.pause(true, reply: $0) }
        #expect(try held.status().isHeld, "a second pause changes nothing")
        try ask { held.store.operators.pause(false, reply: $0) }
        #expect(try claim().map(\.job) == [finished.id])
        #expect(!prober.asked.wait(milliseconds: 60_000).isEmpty)
        #expect(try !held.status().isHeld)
    }

    @Test("a drained node leases no job and reports the drain, until it is resumed or restarted")
    func drain() throws {
        let busy = try TestNode(database.url, slots: 4)
        defer { busy.store.stop() }
        let id = NodeID(high: 7, low: 7)
        let drained = try TestNode(database.url, slots: 4, id: id)
        let shown = try ask { busy.store.operators.drain(id, true, reply: $0) }
        #expect(shown.id == id && shown.isDraining)
        let missing: Result<NodeStatus, StoreError> = wait {
            busy.store.operators.drain(NodeID(high: 1, low: 9), true, reply: $0)
        }
        #expect(missing == .failure(.notFound))
        eventually("the drained node is notified") { !leases(drained) }
        // In a session that no earlier claim knows.
        let job = newJob(session: "later")
        #expect(try drained.submit([job]).get().jobs[0].state == .queued)
        eventually("the other node begins it") {
            busy.runner.begun.take().contains { $0.job == job.id }
        }
        #expect(drained.runner.begun.take().isEmpty)
        // A heartbeat has said by then that it drains. The answer does not wait for the next one.
        eventually("its heartbeat says so") {
            let nodes: Result<[NodeStatus], StoreError> = wait { busy.store.operators.nodes(reply: $0) }
            return (try? nodes.get())?.contains { $0.id == id && $0.isDraining } ?? false
        }
        #expect(try !ask { busy.store.operators.drain(id, false, reply: $0) }.isDraining)
        #expect(try ask { busy.store.operators.nodes(reply: $0) }.allSatisfy { !$0.isDraining && !$0.isDead })
        eventually("it leases again") { leases(drained) }
        _ = try ask { busy.store.operators.drain(id, true, reply: $0) }
        // A killed process leaves its row.
        var connection = try Connection(url: database.url)
        try connection.execute(script: "CREATE TABLE kept AS SELECT * FROM nodes WHERE drain_requested")
        drained.store.stop()
        try connection.execute(script: "INSERT INTO nodes SELECT * FROM kept")
        let restarted = try TestNode(database.url, slots: 4, id: id)
        defer { restarted.store.stop() }
        #expect(leases(restarted))
        #expect(try ask { busy.store.operators.nodes(reply: $0) }.allSatisfy { !$0.isDraining })
    }

    @Test("a node without a heartbeat for the time of a lease is shown as dead")
    func dead() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        let lease = node.store.context.configuration.leaseSeconds
        try connection.execute(
            script: """
                INSERT INTO nodes (id, name, version, started_at, heartbeat_at, running, draining, is_worker)
                SELECT gen_random_uuid(), n, '0', now(), now() - interval '1 second' * age, 0, false, true
                FROM (VALUES ('late', \(lease) * 0.5), ('dead', \(lease) * 1.5)) AS u(n, age)
                """)
        let nodes = try ask { node.store.operators.nodes(reply: $0) }
        #expect(nodes.filter(\.isDead).map(\.name) == ["dead"] && nodes.count == 3)
        #expect(try ask { node.store.status.read(reply: $0) }.nodes.filter(\.isDead).map(\.name) == ["dead"])
    }

    @Test("settings with an older revision are ignored")
    func revisions() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        let state = node.store.nodeState
        #expect(!state.adopt(OperatorSettings(revision: 5, isPaused: true, drains: false)))
        #expect(!state.adopt(OperatorSettings(revision: 4, isPaused: false, drains: false)))
        let leasesWhilePaused = state.isLeasing.load(ordering: .relaxed)
        #expect(state.isPaused && !leasesWhilePaused)
        #expect(state.adopt(OperatorSettings(revision: 6, isPaused: false, drains: false)))
        let leasesAgain = state.isLeasing.load(ordering: .relaxed)
        #expect(leasesAgain)
    }

    @Test("audit entries are stored with their outcome, read in pages and limited in number")
    func audit() throws {
        let node = try TestNode(database.url, slots: 0)
        defer { node.store.stop() }
        let store = node.store
        let entries = (0..<5).map { number in
            AuditEntry(
                id: TestNode.identifiers.make(), requestedAt: Timestamp(microseconds: 1_795_298_400_000_000),
                key: number == 0 ? nil : KeyID(high: 0, low: UInt64(number)), operation: "createKey",
                path: "/v1/admin/keys", requestID: "r\(number)")
        }
        for entry in entries { try ask { store.audit.beginAudit(entry, reply: $0) } }
        try ask { store.audit.endAudit(entries[4].id, status: 201, body: Array("{}".utf8), reply: $0) }
        let page = try ask { store.audit.audit(before: nil, limit: 2, reply: $0) }
        var last = entries[4]
        last.status = 201
        last.body = Array("{}".utf8)
        #expect(page == [last, entries[3]])
        let rest = try ask { store.audit.audit(before: page[1].id, limit: 9, reply: $0) }
        #expect(rest == Array(entries[..<3].reversed()))
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        parameters.append(float64: 1e9)
        parameters.append(int32: 2)
        _ = try connection.execute(Statements.removeOldAudit, parameters)
        #expect(try ask { store.audit.audit(before: nil, limit: 9, reply: $0) } == [last, entries[3]])
    }
}
