package import Postgres

extension Statements {
    package static let acknowledgeJobs = make(
        "acknowledge_jobs", PackageResources.acknowledge_jobs_sql, parameters: 3)
    package static let deleteJob = make("delete_job", PackageResources.delete_job_sql, parameters: 2)
    package static let editJob = make("edit_job", PackageResources.edit_job_sql, parameters: 18)
    package static let readLeftovers = make(
        "read_leftovers", PackageResources.read_leftovers_sql, parameters: 2)
    package static let listJobs = make("list_jobs", PackageResources.list_jobs_sql, parameters: 15)
    package static let readAttempts = make("read_attempts", PackageResources.read_attempts_sql, parameters: 2)
    package static let readJobs = make("read_jobs", PackageResources.read_jobs_sql, parameters: 2)
    package static let remindJobs = make("remind_jobs", PackageResources.remind_jobs_sql, parameters: 2)
    package static let requestCancel = make(
        "request_cancel", PackageResources.request_cancel_sql, parameters: 3)
    package static let requestSuspend = make(
        "request_suspend", PackageResources.request_suspend_sql, parameters: 2)
    package static let resumeJob = make("resume_job", PackageResources.resume_job_sql, parameters: 5)
    package static let suspendJob = make("suspend_job", PackageResources.suspend_job_sql, parameters: 2)
}
