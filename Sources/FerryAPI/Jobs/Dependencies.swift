package import FerryCore

/// Knows jobs that others name.
package protocol DependencyReader: Sendable {
    /// Answers with those of these jobs that the tenant does not have.
    func missing(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>)

    /// To be called before jobs are submitted that depend on these; answers with those that the tenant does
    /// not have.
    func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>)

    /// What a submission with this key was answered before; nil: none was accepted. Another one is
    /// `idempotencyKeyReused`.
    func firstAnswer(to key: Submission.Idempotency, reply: @escaping Reply<Submission.Accepted?>)
}

extension API {
    /// Goes on once it is known that the jobs are there whose files these send and on which they depend;
    /// otherwise says which are not. `place`: the pointer to a job.
    func afterReferences(
        of jobs: [NewJob], _ call: RequestContext, _ key: Submission.Idempotency?,
        place: @escaping @Sendable (Int) -> String, then: @escaping @Sendable () -> Void
    ) {
        let refuse = { @Sendable [self] (missing: [JobID]) in
            unlessKnown(key, call, then: { _ in then() }) {
                call.fail(Problem(unknownJobs(Set(missing), of: jobs.map(\.spec), place: place)))
            }
        }
        let sources = jobs.flatMap { $0.spec.sourceJobs.map(\.job) }
        guard !sources.isEmpty else { return afterDependencies(of: jobs, call, refuse, then: then) }
        let named = Set(sources + jobs.flatMap(\.spec.schedule.dependsOn)).subtracting(jobs.map(\.id))
        ports.dependencies.missing(Array(named), tenant: call.principal.tenant) { [self] result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let missing) where missing.isEmpty:
                afterDependencies(of: jobs, call, refuse, then: then)
            case .success(let missing): refuse(missing)
            }
        }
    }

    /// The same for the files that one job sends: of a schedule, or that is submitted once more. `place`: the
    /// pointer to the job.
    func afterSources(
        of spec: JobSpec, _ call: RequestContext, _ key: Submission.Idempotency?, place: String,
        then: @escaping @Sendable () -> Void
    ) {
        let sources = Set(spec.sourceJobs.map(\.job))
        guard !sources.isEmpty else { return then() }
        ports.dependencies.missing(Array(sources), tenant: call.principal.tenant) { [self] result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let missing) where missing.isEmpty: then()
            case .success(let missing):
                unlessKnown(key, call, then: { _ in then() }) {
                    call.fail(Problem(unknownJobs(Set(missing), of: [spec]) { _ in place }))
                }
            }
        }
    }

    private func afterDependencies(
        of jobs: [NewJob], _ call: RequestContext, _ refuse: @escaping @Sendable ([JobID]) -> Void,
        then: @escaping @Sendable () -> Void
    ) {
        guard jobs.contains(where: { !$0.spec.schedule.dependsOn.isEmpty }) else { return then() }
        let own = Set(jobs.map(\.id))
        let others = Set(jobs.flatMap(\.spec.schedule.dependsOn)).subtracting(own)
        guard !others.isEmpty else { return then() }
        ports.dependencies.prepareDependencies(Array(others), tenant: call.principal.tenant) { result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let missing) where missing.isEmpty: then()
            case .success(let missing): refuse(missing)
            }
        }
    }

    /// Goes on when the key was accepted before: it gets its first answer again, whatever has changed or was
    /// deleted since.
    func unlessKnown(
        _ key: Submission.Idempotency?, _ call: RequestContext,
        then: @escaping @Sendable (Submission.Accepted) -> Void, refuse: @escaping @Sendable () -> Void
    ) {
        guard let key else { return refuse() }
        ports.dependencies.firstAnswer(to: key) { result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let first?): then(first)
            case .success(nil): refuse()
            }
        }
    }
}

private func unknownJobs(
    _ missing: Set<JobID>, of jobs: [JobSpec], place: (Int) -> String
) -> InvalidFields {
    let complaints = ValidationErrors()
    for (number, job) in jobs.enumerated() {
        for source in job.sourceJobs where missing.contains(source.job) {
            complaints.add(place(number) + source.pointer, "invalid_value", noSuchJob)
        }
        for (index, dependency) in job.schedule.dependsOn.enumerated()
        where missing.contains(dependency) {
            complaints.add(
                "\(place(number))/schedule/depends_on/\(index)", "invalid_value", noSuchJob)
        }
    }
    return InvalidFields(complaints.errors)
}

private let noSuchJob = "There is no job of this identifier."
