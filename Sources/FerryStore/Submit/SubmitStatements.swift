package import Postgres

extension Statements {
    package static let addDependencies = make(
        "add_dependencies", PackageResources.add_dependencies_sql, parameters: 8)
    package static let addUploadJobs = make(
        "add_upload_jobs", PackageResources.add_upload_jobs_sql, parameters: 2)
    package static let keepSubmissionKeys = make(
        "keep_submission_keys", PackageResources.keep_submission_keys_sql, parameters: 12)
    package static let knownJobs = make("known_jobs", PackageResources.known_jobs_sql, parameters: 2)
    package static let lockUniqueKeys = make(
        "lock_unique_keys", PackageResources.lock_unique_keys_sql, parameters: 2)
    package static let markRetried = make("mark_retried", PackageResources.mark_retried_sql, parameters: 2)
    package static let readKeys = make("read_keys", PackageResources.read_keys_sql, parameters: 3)
    package static let readUniqueJobs = make(
        "read_unique_jobs", PackageResources.read_unique_jobs_sql, parameters: 3)
    package static let submitJobs = make("submit_jobs", PackageResources.submit_jobs_sql, parameters: 36)
    package static let submitKeyedJobs = make(
        "submit_keyed_jobs", PackageResources.submit_keyed_jobs_sql, parameters: 39)
}
