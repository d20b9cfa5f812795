import FerryCore
import Postgres

/// Groups that the jobs of some submissions join, each once: parameters of submit_jobs.sql.
struct SubmissionGroups {
    /// Way in which jobs join a group. The raw value is that of `join_job_groups`.
    private enum Mode: Int32 {
        case join = 0
        /// The group is closed with its jobs.
        case close = 1
        /// All jobs are retries.
        case retry = 2
    }
    private struct Name: Hashable {
        let tenant: String
        let name: String
    }

    private var names: [Name] = []
    private var modes: [Mode] = []
    private var places: [Name: Int] = [:]
    /// Number of each job's group, from 1; `nil` for none.
    private var numbers: [Int32?] = []

    /// `nil` if no job has a group.
    init?(_ submissions: some Sequence<Submission>) {
        guard submissions.contains(where: { $0.joinsGroups }) else { return nil }
        for submission in submissions {
            for job in submission.jobs {
                numbers.append(
                    job.spec.group.map { Int32(add($0, of: job.tenant, job.retryOf == nil ? .join : .retry)) }
                )
            }
            if let closed = submission.closedGroup { _ = add(closed, of: submission.tenant, .close) }
        }
    }

    /// Returns the number of the group. Where a new job joins, only an open group will do.
    private mutating func add(_ name: String, of tenant: String, _ mode: Mode) -> Int {
        let key = Name(tenant: tenant, name: name)
        guard let place = places[key] else {
            names.append(key)
            modes.append(mode)
            places[key] = names.count - 1
            return names.count
        }
        if mode == .close || modes[place] == .retry { modes[place] = mode }
        return place + 1
    }

    /// Appends tenants, names, modes, new identifiers, and the number of each job's group.
    func append(to parameters: inout Parameters, _ identifiers: IdentifierGenerator) {
        parameters.appendArray(.text, names) { $0.append(text: $1.tenant) }
        parameters.appendArray(.text, names) { $0.append(text: $1.name) }
        parameters.appendArray(.int32, modes) { $0.append(int32: $1.rawValue) }
        parameters.appendArray(.uuid, names) { parameters, _ in
            parameters.append(identifiers.make(JobGroupKindTag.self))
        }
        parameters.appendArray(.int32, numbers) { $0.append(int32: $1) }
    }

    /// Number of the parameters of `append`.
    static let parameterCount = 5
}

extension Submission {
    /// `true` if a job has a group, or a group is closed.
    fileprivate var joinsGroups: Bool { closedGroup != nil || jobs.contains { $0.spec.group != nil } }
}

extension SubmissionBatch {
    /// Appends the groups of the jobs of the chosen submissions, and how many groups a tenant may have.
    func appendGroups(_ chosen: [Int], to parameters: inout Parameters) {
        if let groups = SubmissionGroups(chosen.lazy.map { submissions[$0] }) {
            groups.append(to: &parameters, insertion.context.identifiers)
        } else {
            for _ in 0..<SubmissionGroups.parameterCount { parameters.appendNull() }
        }
        parameters.append(int64: Limits.jobGroupCountMax)
    }
}

extension PostgresError {
    /// The reason for which a group took no job (`join_job_groups`); `nil` for other errors.
    var groupRefusal: StoreError? {
        switch sqlState {
        case "FE002": .groupClosed
        case "FE003": .tooManyGroups
        default: nil
        }
    }
}
