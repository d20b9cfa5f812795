package import Postgres

extension Statements {
    package static let dueDeadlines = make("due_deadlines", PackageResources.due_deadlines_sql, parameters: 1)
    package static let finishJobs = make("finish_jobs", PackageResources.finish_jobs_sql, parameters: 19)
    package static let nextDeadline = make("next_deadline", PackageResources.next_deadline_sql)
    package static let tellJobs = make("tell_jobs", PackageResources.tell_jobs_sql, parameters: 5)
}
