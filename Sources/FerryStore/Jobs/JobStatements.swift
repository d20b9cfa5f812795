package import Postgres

extension Statements {
    package static let deleteJob = make("delete_job", PackageResources.delete_job_sql, parameters: 3)
    package static let lockSuspendedJobs = make(
        "lock_suspended_jobs", PackageResources.lock_suspended_jobs_sql, parameters: 2)
    package static let releaseAbandonedUpload = make(
        "release_abandoned_upload", PackageResources.release_abandoned_upload_sql, parameters: 1)
    package static let readRemovableFiles = make(
        "read_removable_files", PackageResources.read_removable_files_sql, parameters: 2)
    package static let listJobs = make("list_jobs", PackageResources.list_jobs_sql, parameters: 23)
    package static let readAttempts = make("read_attempts", PackageResources.read_attempts_sql, parameters: 2)
}
