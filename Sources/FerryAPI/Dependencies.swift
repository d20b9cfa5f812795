package import FerryCore

/// Knows jobs that others are to depend on.
package protocol DependencyKeeper: Sendable {
    /// To be called before jobs are submitted that depend on these; answers with those that the tenant does
    /// not have.
    func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>)
}

extension API {
    /// Goes on once it is known that the jobs on which these depend are there; otherwise says which are not.
    /// `place`: the pointer to a job.
    func afterDependencies(
        of jobs: [NewJob], _ call: Call, place: @escaping @Sendable (Int) -> String,
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
            case .success(let missing):
                call.fail(Problem(missingDependencies(Set(missing), of: jobs, place: place)))
            }
        }
    }
}

private func missingDependencies(
    _ missing: Set<JobID>, of jobs: [NewJob], place: (Int) -> String
) -> InvalidFields {
    let complaints = Complaints()
    for (number, job) in jobs.enumerated() {
        for (index, dependency) in job.spec.schedule.dependsOn.enumerated()
        where missing.contains(dependency) {
            complaints.add(
                "\(place(number))/schedule/depends_on/\(index)", "invalid_value",
                "There is no job of this identifier.")
        }
    }
    return InvalidFields(complaints.errors)
}
