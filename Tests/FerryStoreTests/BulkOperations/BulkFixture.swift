import FerryCore
import Postgres
import TestSupport
import Testing

@testable import FerryStore

extension TestNode {
    /// Starts a bulk operation of the tenant `acme`.
    func start(
        _ command: BulkCommand, _ selection: BulkSelection, keepsBytes: Bool = false,
        key: Submission.Idempotency? = nil
    ) -> Result<Created<BulkOperation>, StoreError> {
        let new = NewBulkOperation(
            id: TestNode.identifiers.make(), tenant: "acme", command: command, keepsBytes: keepsBytes,
            selection: selection, traceparent: "00-\(String(repeating: "a", count: 32))-1111111111111111-01")
        return wait { store.bulkCommands.createBulkOperation(new, key, reply: $0) }
    }

    func operation(_ id: BulkOperationID) throws -> BulkOperation {
        try wait { store.bulkCommands.bulkOperation(id, tenant: "acme", reply: $0) }.get()
    }

    /// Waits for the end of an operation.
    func end(of id: BulkOperationID) throws -> BulkOperation {
        var last: BulkOperation?
        try eventually("the operation ends") {
            let now = try operation(id)
            last = now
            return now.state != .running
        }
        return try #require(last)
    }

    /// Starts an operation and waits for its end.
    func run(_ command: BulkCommand, _ selection: BulkSelection) throws -> BulkOperation {
        try end(of: try start(command, selection).get().record.id)
    }

    func count(_ selection: BulkSelection) throws -> Int64 {
        try wait { store.bulkCommands.countJobs(selection, tenant: "acme", reply: $0) }.get()
    }

    func state(_ job: NewJob) throws -> JobState { try self.job(job.id).get().record.state }
}

/// A connection as the thread of bulk operations has it, for single steps of a node.
struct StepConnection: ~Copyable {
    var connection: Connection

    init(_ url: String) throws {
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "steps")]
        BulkOperationRunner.adjust(&options)
        connection = try Connection(url: url, options: options)
    }

    /// Carries out one step as `node` does. `thenFails`: the transaction is rolled back after it.
    mutating func step(
        _ node: TestNode, changeCountMax: Int = 10, thenFails: Bool = false
    ) throws -> Bool {
        let step = BulkStep(
            insertion: node.store.submissions.insertion, changeCountMax: changeCountMax, skipsFirst: false)
        var claimed: BulkOperationID?
        try connection.execute(script: "BEGIN")
        var admitted = AdmittedJobs()
        let outcome = try step.commit(&connection, claimed: &claimed, admitted: &admitted)
        try connection.execute(script: thenFails ? "ROLLBACK" : "COMMIT")
        if !thenFails { outcome.note(node.store.submissions.insertion) }
        return outcome.isDone
    }
}

extension JobFilter {
    /// Returns a filter by one condition.
    static func only<Value>(_ member: WritableKeyPath<JobFilter, Value>, _ value: Value) -> BulkSelection {
        var filter = JobFilter()
        filter[keyPath: member] = value
        return .filter(filter)
    }
}
