import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Slots for waiting tenants", .onOwnThread)
struct SlotLoanTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test(
        "a tenant without a slot gets the first that another tenant's slow attempt lends",
        arguments: [0, 100])
    func waits(heldMax: Int) throws {
        let node = try TestNode(database.url) { $0.heldSubmissionMax = heldMax }
        defer { node.store.stop() }
        eventually("the first claim clears the backlog") { !node.store.hasBacklog }
        _ = try node.submit((0..<4).map { _ in newJob(tenant: "slow") }).get()
        let running = try node.attempts(4)
        #expect(running.allSatisfy { $0.tenant == "slow" })
        node.runner.counts.withLock { $0 = ["slow": 4] }
        _ = try node.submit((0..<4).map { _ in newJob(tenant: "slow") }).get()
        let slots = node.slots
        #expect(!slots.areMissing && node.runner.loanRequests.count == 0)
        let job = newJob()
        _ = try node.submit(job)
        #expect(!node.runner.loanRequests.wait(milliseconds: 60_000).isEmpty)
        let dispatcher = node.store.dispatcher
        #expect(dispatcher.areSlotsMissing)
        eventually("its jobs that were held go back to the queue") {
            !node.store.queueState.held.all.contains { $0.attempt.tenant == "slow" }
        }
        // The first slot may go to a job of the other tenant: both wait equally long.
        var lenders = running
        eventually("the job begins") {
            if let next = lenders.last, dispatcher.lendSlotEarly(of: next) { lenders.removeLast() }
            return node.runner.begun.take().contains { $0.job == job.id }
        }
        eventually("the demand is met") { !slots.areMissing }
        #expect(slots.lentByTenant == ["slow": 4 - lenders.count] && lenders.count < 4)
        for attempt in running.dropFirst(lenders.count) {
            dispatcher.takeBackSlot(of: attempt, isEarly: true)
        }
    }

    @Test("jobs of the only tenant are no reason to lend slots")
    func alone() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        node.runner.counts.withLock { $0 = ["acme": 4] }
        _ = try node.submit((0..<20).map { _ in newJob() }).get()
        let running = try node.attempts(4)
        node.end(try #require(running.first), success)
        _ = try node.attempt()
        #expect(!node.slots.areMissing && node.runner.loanRequests.count == 0)
    }

    @Test("a tenant that has lent its part of the slots begins no job until a slot is back")
    func used() throws {
        let node = try TestNode(database.url, slots: 2, lentMax: 6)
        defer { node.store.stop() }
        eventually("the first claim clears the backlog") { !node.store.hasBacklog }
        let (slots, dispatcher) = (node.slots, node.store.dispatcher)
        _ = try node.submit((0..<2).map { _ in newJob(tenant: "slow") }).get()
        let running = try node.attempts(2)
        #expect(running.allSatisfy { dispatcher.lendSlot(of: $0) })
        #expect(slots.tenantsWithoutLoans == ["slow"] && slots.freeCount == 2)
        let next = newJob(tenant: "slow")
        #expect(try node.submit(next).state == .queued)
        // Queued later, and begun.
        let other = newJob()
        _ = try node.submit(other)
        let begun = try node.attempt()
        #expect(begun.job == other.id)
        node.end(begun, success)
        #expect(node.runner.begun.count == 0)
        for attempt in running { dispatcher.takeBackSlot(of: attempt, isEarly: false) }
        dispatcher.record(result(running[0], failure(isRetryable: false)))
        #expect(try node.attempt().job == next.id)
    }
}
