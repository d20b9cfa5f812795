import FerryCore
import FerryScheduler
import Postgres

/// The claim queues of the jobs of a batch.
struct SubmissionQueues {
    /// Number of each job's claim queue, in the order of the submissions.
    private(set) var numbers: [[Int64]] = []
    private var queues: [Int64: ClaimQueue] = [:]

    /// Finds the claim queues; reads or creates unknown ones in the database. The names are decided once,
    /// because limits may change meanwhile.
    init(_ batch: SubmissionBatch, _ cache: ClaimQueueCache, _ connection: inout Connection)
        throws(PostgresError)
    {
        let names = batch.submissions.enumerated().map { index, submission in
            submission.jobs.indices.map { batch.claimQueueName(submission: index, place: $0) }
        }
        var known: [ClaimQueueCache.Name: ClaimQueue] = [:]
        var missing: Set<ClaimQueueCache.Name> = []
        var latest: ClaimQueueCache.Name?
        for name in names.joined() {
            // Successive jobs nearly always have the same claim queue.
            if name == latest || known[name] != nil || missing.contains(name) { continue }
            latest = name
            if let queue = cache.known(name) { known[name] = queue } else { missing.insert(name) }
        }
        if !missing.isEmpty {
            known.merge(try cache.find(missing, &connection, isCommitted: batch.isAlone)) { $1 }
        }
        for queue in known.values { queues[queue.id] = queue }
        var last: (name: ClaimQueueCache.Name, number: Int64)?
        numbers.reserveCapacity(names.count)
        for names in names {
            var own: [Int64] = []
            own.reserveCapacity(names.count)
            for name in names {
                if let last, last.name == name {
                    own.append(last.number)
                    continue
                }
                guard let queue = known[name] else {
                    throw PostgresError(
                        .statementFailed, statement: Statements.findClaimQueues.name,
                        message: "The claim queue of a job was not returned.")
                }
                last = (name, queue.id)
                own.append(queue.id)
            }
            numbers.append(own)
        }
    }

    subscript(submission: Int, place: Int) -> ClaimQueue? { queues[numbers[submission][place]] }
}

extension [ClaimQueue: Backlog.Addition] {
    mutating func add(_ queue: ClaimQueue?, _ urgency: Timestamp) {
        guard let queue else { return }
        let before = self[queue]
        self[queue] = .init(
            head: Swift.min(urgency, before?.head ?? urgency), count: (before?.count ?? 0) + 1)
    }
}
