import FerryAPI
import FerryCore
import Synchronization

extension MemoryStore: BulkOperationStore {
    func createBulkOperation(
        _ operation: NewBulkOperation, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<BulkOperation>>
    ) {
        reply(
            state.withLock { state in
                let known = idempotency.flatMap { state.bulkKeys["\($0.tenant) \($0.key)"] }
                if let known, let first = state.bulkOperations[known] {
                    return .success(Created(first, isReplay: true))
                }
                guard state.bulkOperations.count < Limits.bulkOperationCountMax else {
                    return .failure(.tooManyBulkOperations)
                }
                var (filter, count): (JobFilter?, Int?) = (nil, nil)
                switch operation.selection {
                case .filter(let named): filter = named
                case .jobs(let jobs): count = jobs.count
                }
                let record = BulkOperation(
                    id: operation.id, tenant: operation.tenant, command: operation.command,
                    state: .running, filter: filter, identifierCount: count, counts: BulkCounts(),
                    createdAt: Timestamp(microseconds: 0), finishedAt: nil)
                state.bulkOperations[operation.id] = record
                state.newBulkOperations.append(operation)
                if let key = idempotency { state.bulkKeys["\(key.tenant) \(key.key)"] = operation.id }
                return .success(Created(record, isReplay: false))
            })
    }

    func bulkOperation(_ id: BulkOperationID, tenant: String, reply: @escaping Reply<BulkOperation>) {
        let found = state.withLock { $0.bulkOperations[id] }
        guard let found, found.tenant == tenant else { return reply(.failure(.notFound)) }
        reply(.success(found))
    }

    func bulkOperations(
        tenant: String, before: BulkOperationID?, limit: Int, reply: @escaping Reply<[BulkOperation]>
    ) {
        let all = state.withLock { Array($0.bulkOperations.values) }.filter { operation in
            operation.tenant == tenant && before.map { operation.id < $0 } ?? true
        }
        reply(.success(Array(all.sorted { $0.id > $1.id }.prefix(limit))))
    }

    func cancelBulkOperation(
        _ id: BulkOperationID, tenant: String, reply: @escaping Reply<BulkOperation>
    ) {
        state.withLock { state in
            guard state.bulkOperations[id]?.tenant == tenant else { return }
            state.bulkOperations[id]?.state = .cancelled
            state.bulkOperations[id]?.finishedAt = Timestamp(microseconds: 1_000_000)
        }
        bulkOperation(id, tenant: tenant, reply: reply)
    }

    func countJobs(_ selection: BulkSelection, tenant: String, reply: @escaping Reply<Int64>) {
        switch selection {
        case .jobs(let jobs): reply(.success(Int64(jobs.count)))
        case .filter(let filter):
            jobs(JobQuery(tenant: tenant, filter: filter, limit: .max)) { result in
                reply(result.map { Int64($0.records.count) })
            }
        }
    }
}
