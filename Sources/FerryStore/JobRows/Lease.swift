import FerryCore
import Postgres

/// The state of a job's row that a change requires: a row with another attempt or revision stays as it is.
struct Lease: Sendable, Equatable {
    let job: JobID
    let attempt: Int32
    let revision: Int32
}

extension Lease {
    init(_ attempt: Attempt) {
        self.init(job: attempt.job, attempt: attempt.number, revision: attempt.revision)
    }
}

extension Parameters {
    mutating func append(_ leases: [Lease]) {
        appendArray(.uuid, leases) { $0.append($1.job) }
        appendArray(.int32, leases) { $0.append(int32: $1.attempt) }
        appendArray(.int32, leases) { $0.append(int32: $1.revision) }
    }
}
