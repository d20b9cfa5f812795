package import Postgres

extension Statements {
    package static let addHistory = make("add_history", PackageResources.add_history_sql, parameters: 2)
    package static let detachHistory = make(
        "detach_history", PackageResources.detach_history_sql, parameters: 2)
    package static let dropHistory = make("drop_history", PackageResources.drop_history_sql, parameters: 2)
    package static let expireDefaultJobs = make(
        "expire_default_jobs", PackageResources.expire_default_jobs_sql, parameters: 5)
    package static let expireDeliveries = make(
        "expire_deliveries", PackageResources.expire_deliveries_sql, parameters: 2)
    package static let expireJobs = make("expire_jobs", PackageResources.expire_jobs_sql, parameters: 4)
    package static let expireRestJobs = make(
        "expire_rest_jobs", PackageResources.expire_rest_jobs_sql, parameters: 3)
    package static let expireSessionJobs = make(
        "expire_session_jobs", PackageResources.expire_session_jobs_sql, parameters: 6)
    package static let knownJobs = make("known_jobs", PackageResources.known_jobs_sql, parameters: 1)
    package static let lateHistory = make("late_history", PackageResources.late_history_sql, parameters: 3)
    package static let readHistory = make("read_history", PackageResources.read_history_sql)

    static let ofHistory = [
        addHistory, detachHistory, dropHistory, expireDefaultJobs, expireDeliveries, expireJobs,
        expireRestJobs, expireSessionJobs, knownJobs, lateHistory, readHistory,
    ]
}
