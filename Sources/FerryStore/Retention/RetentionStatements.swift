package import Postgres

extension Statements {
    package static let addHistory = make("add_history", PackageResources.add_history_sql, parameters: 2)
    package static let claimAbandonedUploads = make(
        "claim_abandoned_uploads", PackageResources.claim_abandoned_uploads_sql, parameters: 1)
    package static let detachHistory = make(
        "detach_history", PackageResources.detach_history_sql, parameters: 2)
    package static let dropHistory = make("drop_history", PackageResources.drop_history_sql, parameters: 2)
    package static let expiredJobs = make("expired_jobs", PackageResources.expired_jobs_sql, parameters: 1)
    package static let forgetAbandonedUploads = make(
        "forget_abandoned_uploads", PackageResources.forget_abandoned_uploads_sql, parameters: 1)
    package static let hasEventsUntil = make(
        "has_events_until", PackageResources.has_events_until_sql, parameters: 1)
    package static let lateHistory = make("late_history", PackageResources.late_history_sql, parameters: 3)
    package static let oldDefaultJobs = make(
        "old_default_jobs", PackageResources.old_default_jobs_sql, parameters: 5)
    package static let oldJobs = make("old_jobs", PackageResources.old_jobs_sql, parameters: 4)
    package static let oldRestJobs = make("old_rest_jobs", PackageResources.old_rest_jobs_sql, parameters: 3)
    package static let oldSessionJobs = make(
        "old_session_jobs", PackageResources.old_session_jobs_sql, parameters: 6)
    package static let readHistory = make("read_history", PackageResources.read_history_sql)
    package static let removeJobs = make("remove_jobs", PackageResources.remove_jobs_sql, parameters: 2)
    package static let removeOldKeys = make(
        "remove_old_keys", PackageResources.remove_old_keys_sql, parameters: 2)
    package static let remindJobs = make("remind_jobs", PackageResources.remind_jobs_sql, parameters: 2)
}
