package import Postgres

extension Statements {
    package static let askJobs = make("ask_jobs", PackageResources.ask_jobs_sql, parameters: 8)
    package static let awaitConnectivity = make(
        "await_connectivity", PackageResources.await_connectivity_sql, parameters: 8)
    package static let dueDeadlines = make("due_deadlines", PackageResources.due_deadlines_sql, parameters: 1)
    package static let finishJobs = make("finish_jobs", PackageResources.finish_jobs_sql, parameters: 18)
    package static let nextDeadline = make("next_deadline", PackageResources.next_deadline_sql)
    package static let releaseJobs = make("release_jobs", PackageResources.release_jobs_sql, parameters: 7)
    package static let retryJobs = make("retry_jobs", PackageResources.retry_jobs_sql, parameters: 9)
    package static let suspendJobs = make("suspend_jobs", PackageResources.suspend_jobs_sql, parameters: 5)
    package static let tellJobs = make("tell_jobs", PackageResources.tell_jobs_sql, parameters: 3)
}
