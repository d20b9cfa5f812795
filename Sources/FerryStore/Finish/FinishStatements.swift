package import Postgres

extension Statements {
    package static let finishJobs = make("finish_jobs", PackageResources.finish_jobs_sql, parameters: 22)
    package static let nextExpiry = make("next_expiry", PackageResources.next_expiry_sql)
    package static let tellJobs = make("tell_jobs", PackageResources.tell_jobs_sql, parameters: 5)
}
