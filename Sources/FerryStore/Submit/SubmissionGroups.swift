import FerryCore
import Postgres

/// Groups that the jobs of some submissions join or depend on, each once: parameters of submit_jobs.sql.
struct SubmissionGroups {
    /// Way in which jobs join a group. The raw value is that of `join_job_groups`.
    private enum Mode: Int32 {
        case join = 0
        /// The group is closed with its jobs.
        case close = 1
        /// All jobs are retries.
        case retry = 2
        /// No job joins: others depend on the group.
        case none = 3
    }
    private struct Name: Hashable {
        let tenant: String
        let name: String
    }
    private struct Entry {
        let key: Name
        var mode: Mode
        /// `true` if a job with dependencies joins.
        var hasDependentJobs = false
        /// `true` if a job depends on the group.
        var isDependency = false
        /// `true` if a job with dependencies joins after a job that depends on the group.
        var mayBeCyclic = false

        /// Element of `modes` of `join_job_groups`.
        var code: Int32 {
            mode.rawValue | (hasDependentJobs ? 4 : 0) | (isDependency ? 8 : 0) | (mayBeCyclic ? 16 : 0)
        }
    }

    private var entries: [Entry] = []
    private var places: [Name: Int] = [:]
    /// Number of each job's group, from 1; `nil` for none.
    private var numbers: [Int32?] = []

    /// `nil` if no job has a group or depends on one.
    init?(_ submissions: some Sequence<Submission>) {
        guard submissions.contains(where: { $0.namesGroups }) else { return nil }
        for submission in submissions {
            for job in submission.jobs {
                let dependencies = job.spec.schedule.dependencies
                if let group = job.spec.group {
                    let place = add(group, of: job.tenant, job.retryOf == nil ? .join : .retry)
                    numbers.append(Int32(place + 1))
                    if !dependencies.isEmpty {
                        entries[place].hasDependentJobs = true
                        if entries[place].isDependency { entries[place].mayBeCyclic = true }
                    }
                } else {
                    numbers.append(nil)
                }
                for case .group(let name) in dependencies {
                    entries[add(name, of: job.tenant, .none)].isDependency = true
                }
            }
            if let closed = submission.closedGroup { _ = add(closed, of: submission.tenant, .close) }
        }
    }

    /// Returns the place of the group in `entries`. Where a new job joins, only an open group will do.
    private mutating func add(_ name: String, of tenant: String, _ mode: Mode) -> Int {
        let key = Name(tenant: tenant, name: name)
        guard let place = places[key] else {
            entries.append(Entry(key: key, mode: mode))
            places[key] = entries.count - 1
            return entries.count - 1
        }
        switch (entries[place].mode, mode) {
        case (_, .none), (.join, .retry), (.close, .join), (.close, .retry): break
        default: entries[place].mode = mode
        }
        return place
    }

    /// Appends tenants, names, modes, new identifiers, and the number of each job's group.
    func append(to parameters: inout Parameters, _ identifiers: IdentifierGenerator) {
        parameters.appendArray(.text, entries) { $0.append(text: $1.key.tenant) }
        parameters.appendArray(.text, entries) { $0.append(text: $1.key.name) }
        parameters.appendArray(.int32, entries) { $0.append(int32: $1.code) }
        parameters.appendArray(.uuid, entries) { parameters, _ in
            parameters.append(identifiers.make(JobGroupKindTag.self))
        }
        parameters.appendArray(.int32, numbers) { $0.append(int32: $1) }
    }

    /// Number of the parameters of `append`.
    static let parameterCount = 5
}

extension Submission {
    /// `true` if a job has a group or depends on one, or a group is closed.
    var namesGroups: Bool {
        closedGroup != nil
            || jobs.contains { job in
                job.spec.group != nil || job.spec.schedule.dependencies.contains { $0.group != nil }
            }
    }
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
        case "FE004": .groupMissing
        case "FE005": .groupAwaited
        default: nil
        }
    }
}
