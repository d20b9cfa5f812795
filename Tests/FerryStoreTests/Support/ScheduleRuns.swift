import FerryCore

extension Result<ScheduleRun, StoreError> {
    /// The reply with the job of a schedule with `job`.
    var single: Result<Created<JobRecord>, StoreError> {
        map { run in
            guard case .job(let created) = run else { preconditionFailure("the schedule has several jobs") }
            return created
        }
    }

    /// The reply with the jobs of a schedule with `jobs`.
    var several: Result<Submission.Accepted, StoreError> {
        map { run in
            guard case .jobs(let accepted) = run else { preconditionFailure("the schedule has one job") }
            return accepted
        }
    }
}
