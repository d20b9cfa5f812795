internal import FerryCore

/// Dependencies of new jobs on groups, and what is not allowed about them: an unknown group, the job's own
/// group, and a job with dependencies that joins a group on which a job depends. Without those, no jobs can
/// wait for each other: a job that others reach through a group depends on nothing, or is older.
struct GroupDependencies {
    /// The jobs of one request, in their order.
    private let jobs: [JobSpec]

    /// `nil` if no job depends on a group, and none with dependencies joins one.
    init?(_ jobs: [JobSpec]) {
        guard
            jobs.contains(where: { job in
                !job.schedule.dependencies.isEmpty
                    && (job.group != nil || job.schedule.dependencies.contains { $0.group != nil })
            })
        else { return nil }
        self.jobs = jobs
    }

    /// The groups about which the store must be asked.
    var names: [String] {
        var names: Set<String> = []
        for job in jobs where !job.schedule.dependencies.isEmpty {
            if let group = job.group { names.insert(group) }
            names.formUnion(job.schedule.groupsOfDependencies)
        }
        return names.sorted()
    }

    /// Returns the errors. `known`: the groups that exist, and whether an unfinished job depends on each.
    /// `place` returns the JSON Pointer to a job.
    func errors(known: [String: Bool], place: (Int) -> String) -> [FieldError] {
        let errors = ValidationErrors()
        let joined = Set(jobs.compactMap(\.group))
        var awaited = Set(known.filter(\.value).keys)
        for (number, job) in jobs.enumerated() where !job.schedule.dependencies.isEmpty {
            let pointer = "\(place(number))/schedule/depends_on"
            for (index, dependency) in job.schedule.dependencies.enumerated() {
                guard let name = dependency.group else { continue }
                if name == job.group {
                    errors.add(
                        "\(pointer)/\(index)", "invalid_combination",
                        "A job cannot depend on the group that it belongs to.")
                } else if known[name] == nil, !joined.contains(name) {
                    errors.add("\(pointer)/\(index)", "invalid_value", "No group has this name.")
                }
            }
            if let group = job.group, awaited.contains(group) {
                errors.add(
                    pointer, "invalid_combination",
                    "A job depends on the group \(group): a job that joins it cannot have dependencies.")
            }
            awaited.formUnion(job.schedule.groupsOfDependencies)
        }
        return errors.all
    }
}
