package import FerryCore

/// Prepares jobs for others that depend on them.
package protocol DependencyStore: Sendable {
    /// Prepares jobs for the submission of others that depend on them. Replies with those that the tenant
    /// does not have. To be called before the submission.
    func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>)
}

/// Reads earlier submissions.
package protocol SubmissionReader: Sendable {
    /// Replies with what was accepted with this key, or `nil` if nothing was. A key of another request is
    /// `idempotencyKeyReused`.
    func firstAcceptance(of key: Submission.Idempotency, reply: @escaping Reply<Submission.Accepted?>)
}

/// Finds earlier submissions by their `Idempotency-Key`.
struct EarlierSubmissions: Sendable {
    private let submissions: any SubmissionReader

    init(_ submissions: any SubmissionReader) { self.submissions = submissions }

    /// Calls `then` if the key was accepted before: its request gets the first response again, whatever was
    /// changed or deleted since. Calls `otherwise` for a new key and without one.
    func find(
        _ key: Submission.Idempotency?, _ request: RequestContext,
        then: @escaping @Sendable (Submission.Accepted) -> Void, otherwise: @escaping @Sendable () -> Void
    ) {
        guard let key else { return otherwise() }
        submissions.firstAcceptance(of: key, reply: request.onSuccess { $0.map(then) ?? otherwise() })
    }
}

/// Checks that the jobs exist on which new jobs depend and whose files they send.
final class JobReferenceCheck: Sendable {
    private let reader: any JobReader
    private let dependencies: any DependencyStore
    private let groups: any GroupStore
    let uploads: any UploadStore
    let earlier: EarlierSubmissions

    init(_ ports: StorePorts, _ earlier: EarlierSubmissions) {
        reader = ports.jobs
        dependencies = ports.dependencies
        groups = ports.groups
        uploads = ports.uploads
        self.earlier = earlier
    }

    /// Calls `then` if all references of these jobs exist, or if the key was accepted before. Otherwise
    /// responds with an error for each that does not. `place` returns the JSON Pointer to a job.
    func check(
        _ jobs: [NewJob], _ request: RequestContext, _ key: Submission.Idempotency?,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable () -> Void
    ) {
        guard let named = GroupDependencies(jobs.map(\.spec)) else {
            return checkJobs(jobs, request, key, place: place, then: then)
        }
        groups.awaitedGroups(
            named.names, tenant: request.tenant,
            reply: request.onSuccess { [self] known in
                let errors = named.errors(known: known, place: place)
                guard errors.isEmpty else {
                    return earlier.find(key, request, then: { _ in then() }) {
                        request.fail(Problem(InvalidFields(errors)))
                    }
                }
                checkJobs(jobs, request, key, place: place, then: then)
            })
    }

    private func checkJobs(
        _ jobs: [NewJob], _ request: RequestContext, _ key: Submission.Idempotency?,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable () -> Void
    ) {
        let refuse = { @Sendable [self] (missing: [JobID]) in
            refuseNew(missing, of: jobs.map(\.spec), request, key, place: place, then: then)
        }
        let sources = jobs.flatMap { $0.spec.sourceJobs.map(\.job) }
        guard !sources.isEmpty else { return checkDependencies(of: jobs, request, refuse, then: then) }
        let named = Set(sources + jobs.flatMap(\.spec.schedule.dependsOn)).subtracting(jobs.map(\.id))
        reader.missing(
            Array(named), tenant: request.tenant,
            reply: request.onSuccess { [self] missing in
                guard missing.isEmpty else { return refuse(missing) }
                checkDependencies(of: jobs, request, refuse, then: then)
            })
    }

    /// Like `check`, for the files that jobs send: those of a schedule, or a retry. A file of a job on which
    /// the sender depends is that of an earlier job of the same list.
    func checkSources(
        of specs: [JobSpec], _ request: RequestContext, _ key: Submission.Idempotency?,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable () -> Void
    ) {
        let sources = Set(
            specs.flatMap { spec in
                spec.sourceJobs.map(\.job).filter { !spec.schedule.dependsOn.contains($0) }
            })
        guard !sources.isEmpty else { return then() }
        reader.missing(
            Array(sources), tenant: request.tenant,
            reply: request.onSuccess { [self] missing in
                guard missing.isEmpty else {
                    return refuseNew(missing, of: specs, request, key, place: place, then: then)
                }
                then()
            })
    }

    private func checkDependencies(
        of jobs: [NewJob], _ request: RequestContext, _ refuse: @escaping @Sendable ([JobID]) -> Void,
        then: @escaping @Sendable () -> Void
    ) {
        guard jobs.contains(where: { !$0.spec.schedule.dependsOn.isEmpty }) else { return then() }
        let own = Set(jobs.map(\.id))
        let others = Set(jobs.flatMap(\.spec.schedule.dependsOn)).subtracting(own)
        guard !others.isEmpty else { return then() }
        dependencies.prepareDependencies(
            Array(others), tenant: request.tenant,
            reply: request.onSuccess { missing in missing.isEmpty ? then() : refuse(missing) })
    }

    /// Responds with an error for each missing job, or calls `then` if the key was accepted before.
    private func refuseNew(
        _ missing: [JobID], of jobs: [JobSpec], _ request: RequestContext, _ key: Submission.Idempotency?,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable () -> Void
    ) {
        earlier.find(key, request, then: { _ in then() }) {
            request.fail(Problem(unknownJobs(Set(missing), of: jobs, place: place)))
        }
    }
}

private func unknownJobs(
    _ missing: Set<JobID>, of jobs: [JobSpec], place: (Int) -> String
) -> InvalidFields {
    let errors = ValidationErrors()
    for (number, job) in jobs.enumerated() {
        for source in job.sourceJobs where missing.contains(source.job) {
            errors.add(place(number) + source.pointer, "invalid_value", noSuchJob)
        }
        for (index, dependency) in job.schedule.dependencies.enumerated()
        where dependency.job.map(missing.contains) ?? false {
            errors.add("\(place(number))/schedule/depends_on/\(index)", "invalid_value", noSuchJob)
        }
    }
    return InvalidFields(errors.all)
}

private let noSuchJob = "No job has this identifier."
