package import Postgres

extension Statements {
    package static let acknowledgeJobs = make(
        "acknowledge_jobs", PackageResources.acknowledge_jobs_sql, parameters: 3)
    package static let changeJobs = make("change_jobs", PackageResources.change_jobs_sql, parameters: 23)
    package static let deleteJob = make("delete_job", PackageResources.delete_job_sql, parameters: 3)
    package static let editSpec = make("edit_spec", PackageResources.edit_spec_sql, parameters: 17)
    package static let lockSuspendedJobs = make(
        "lock_suspended_jobs", PackageResources.lock_suspended_jobs_sql, parameters: 2)
    package static let readRemovableFiles = make(
        "read_removable_files", PackageResources.read_removable_files_sql, parameters: 2)
    package static let listJobs = make("list_jobs", PackageResources.list_jobs_sql, parameters: 16)
    package static let readAttempts = make("read_attempts", PackageResources.read_attempts_sql, parameters: 2)
    package static let readEarlierSpecs = make(
        "read_earlier_specs", PackageResources.read_earlier_specs_sql, parameters: 2)
    package static let readJobs = make("read_jobs", PackageResources.read_jobs_sql, parameters: 2)
    package static let remindJobs = make("remind_jobs", PackageResources.remind_jobs_sql, parameters: 2)
}
