import FerryCore
import FerryScheduler
import Postgres

/// One row of change_jobs.sql: an input of the transition table for a job, with the values that the
/// transition writes. Every change of an unfinished job is one, except its submission, its claim and its end.
struct JobChange: Sendable {
    let job: JobID
    var input: JobInput
    /// The attempt that the job must have; `nil`: any.
    var attempt: Int32?
    /// The revision that the job must have; `nil`: any.
    var revision: Int32?
    /// When the event happened; `nil`: now.
    var occurredAt: Timestamp?
    /// When what the job waits for is due.
    var dueAt: Timestamp?
    /// Seconds until it is due, doubled for each wait for connectivity before.
    var pause: Double?
    /// The job's new error; `nil`: as it is.
    var error: Stored<ErrorRecord>?
    /// Failed attempts; `nil`: as it is.
    var failedAttemptCount: Int32?
    /// The attempt that ended (`AttemptRecord`), or `nil`.
    var ended: [UInt8]?
    /// `true` if the job has bytes of a partial download; `nil`: as it is.
    var hasBytes: Bool?
    /// The open question, or `nil`.
    var questionJSON: [UInt8]?
    /// `true` if a client is asked before the job goes on; `nil`: as it is if no attempt has begun.
    var asks: Bool?
    /// The only node that can run the job; `nil`: as it is.
    var home: NodeID?
    /// Its claim queue; `nil`: as it is.
    var queue: Int64?
    /// Of a discretionary job: earliest start and expected bytes.
    var discretionary: (earliestStart: Timestamp, byteCount: Int64?)?
    /// Payload of the notification to all nodes, or `nil`.
    var notification: String?
    /// The request with which the next attempt begins (`NextRequest`); `nil`: as it is.
    var nextRequest: [UInt8]?

    init(_ input: JobInput, _ job: JobID) {
        self.input = input
        self.job = job
    }

    /// A change of the attempt that holds the lease.
    init(_ input: JobInput, _ lease: Lease) {
        self.init(input, lease.job)
        attempt = lease.attempt
    }

    /// A change of a job that is as the record shows it.
    init(_ input: JobInput, _ record: JobRecord) {
        self.init(input, record.id)
        revision = record.revision
    }

    /// Asks a client whether the job may begin, and sets when the default answer applies.
    mutating func ask(_ question: JobQuestion) {
        questionJSON = question.encodedWithoutSecrets
        asks = true
        dueAt = question.expiresAt
    }

    /// The end of an attempt that was lost with its node. `wasUnsent`: its request must not be sent twice,
    /// and no byte of it was sent; the error would forbid another attempt (`Attempt.mayHaveActed`).
    init(lost job: JobID, attempt: Int32, node: NodeID, wasUnsent: Bool, at now: Timestamp) {
        self.init(.loseNode, job)
        self.attempt = attempt
        if !wasUnsent { error = .attemptLost }
        ended = AttemptRecord.packedLost(number: attempt, node: node, at: now)
    }

    /// The states that the job may have, and the transition. An input of change_jobs.sql has the same
    /// transition from all of them, except that an edit leaves the state as it is.
    fileprivate var transition: (origins: [JobState], JobTransition) {
        let origins = JobTransition.origins(of: input).compactMap(\.self)
        // No input reaches this: the table of transitions is a constant, and a test goes through it.
        guard let first = origins.first, let transition = JobTransition(input, from: first) else {
            preconditionFailure("\(input) does not change a job")
        }
        return (origins, transition)
    }
}

/// A job after a `JobChange`.
struct ChangedJob {
    let id: JobID
    let state: JobState?
    let queue: ClaimQueue
    let urgency: Timestamp
    let dueAt: Timestamp?

    /// Rows of change_jobs.sql.
    static func all(_ rows: borrowing ResultSet) -> [ChangedJob] {
        (0..<rows.rowCount).map { row in
            ChangedJob(
                id: rows.identifier(row, 0), state: JobState(rawValue: rows.text(row, 8)),
                queue: ClaimQueue(rows, row, at: 1), urgency: rows.instant(row, 7),
                dueAt: rows.instantOrNil(row, 9))
        }
    }

    /// Carries out changes. Returns the jobs that have changed; the others were not as expected.
    static func commit(
        _ changes: [JobChange], _ connection: inout Connection, timeout: Duration? = nil
    ) throws(PostgresError) -> [ChangedJob] {
        guard !changes.isEmpty else { return [] }
        return all(try connection.execute(Statements.changeJobs, .changes(changes), timeout: timeout))
    }
}

extension JobChange {
    /// Queues the jobs that `statement` reads with their attempts and nodes, which were lost. Jobs that a
    /// node only held lose no attempt. Call in a transaction. Returns their number.
    static func loseJobs(
        _ statement: Statement, _ parameters: Parameters, at now: Timestamp, _ connection: inout Connection
    ) throws(PostgresError) -> Int {
        let rows = try connection.execute(statement, parameters, timeout: .seconds(5))
        let changes = (0..<rows.rowCount).map { row in
            let (job, attempt): (JobID, Int32) = (rows.identifier(row, 0), rows.int32(row, 1))
            guard rows.bool(row, 3) else {
                return JobChange(
                    lost: job, attempt: attempt, node: rows.identifier(row, 2), wasUnsent: rows.bool(row, 4),
                    at: now)
            }
            var change = JobChange(.giveBack, job)
            change.attempt = attempt
            return change
        }
        return try ChangedJob.commit(changes, &connection, timeout: .seconds(5)).count
    }
}

extension Parameters {
    /// The parameters of change_jobs.sql.
    static func changes(_ changes: [JobChange]) -> Parameters {
        var parameters = Parameters(capacity: changes.count * 320)
        let transitions = changes.map(\.transition)
        parameters.appendArray(.uuid, changes) { $0.append($1.job) }
        parameters.appendArray(.int32, changes) { $0.append(int32: $1.attempt) }
        parameters.appendArray(.int32, changes) { $0.append(int32: $1.revision) }
        parameters.appendArray(.text, transitions) {
            $0.append(text: $1.origins.map(\.rawValue).joined(separator: " "))
        }
        parameters.appendArray(.text, transitions) {
            $0.append(text: $1.1.effects.contains(.keepsState) ? nil : $1.1.state?.rawValue)
        }
        parameters.appendArray(.text, transitions) { $0.append(text: $1.1.waitingFor?.rawValue) }
        parameters.appendArray(.int32, transitions) { $0.append(int32: $1.1.effects.rawValue) }
        parameters.appendArray(.int32, transitions) { $0.append(int32: Int32($1.1.event?.code ?? 0)) }
        parameters.appendArray(.timestamp, changes) { $0.append($1.occurredAt) }
        parameters.appendArray(.timestamp, changes) { $0.append($1.dueAt) }
        parameters.appendArray(.float64, changes) { $0.append(float64: $1.pause) }
        parameters.appendArray(.text, changes) { $0.append(text: $1.error?.json) }
        parameters.appendArray(.int32, changes) { $0.append(int32: $1.failedAttemptCount) }
        parameters.appendArray(.bytea, changes) { $0.append(bytea: $1.ended) }
        parameters.appendArray(.bool, changes) { $0.append(bool: $1.hasBytes) }
        parameters.appendArray(.text, changes) { $0.append(text: $1.questionJSON) }
        parameters.appendArray(.bool, changes) { $0.append(bool: $1.asks) }
        parameters.appendArray(.uuid, changes) { $0.append($1.home) }
        parameters.appendArray(.int64, changes) { $0.append(int64: $1.queue) }
        parameters.appendArray(.timestamp, changes) { $0.append($1.discretionary?.earliestStart) }
        parameters.appendArray(.int64, changes) { $0.append(int64: $1.discretionary?.byteCount) }
        parameters.appendArray(.text, changes) { $0.append(text: $1.notification) }
        parameters.appendArray(.bytea, changes) { $0.append(bytea: $1.nextRequest) }
        return parameters
    }
}
