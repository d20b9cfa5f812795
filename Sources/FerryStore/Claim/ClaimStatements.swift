package import Postgres

extension Statements {
    package static let claimJobs = make("claim_jobs", PackageResources.claim_jobs_sql, parameters: 12)
    package static let claimLimitedJobs = make(
        "claim_limited_jobs", PackageResources.claim_limited_jobs_sql, parameters: 5)
    package static let divertJobs = make("divert_jobs", PackageResources.divert_jobs_sql, parameters: 3)
    package static let divertRunning = make(
        "divert_running", PackageResources.divert_running_sql, parameters: 2)
    package static let findLots = make("find_lots", PackageResources.find_lots_sql, parameters: 5)
    package static let heldJobs = make("held_jobs", PackageResources.held_jobs_sql, parameters: 1)
    package static let lockDueJobs = make("lock_due_jobs", PackageResources.lock_due_jobs_sql, parameters: 1)
    package static let lockLots = make("lock_lots", PackageResources.lock_lots_sql, parameters: 1)
    package static let lockOldLots = make("lock_old_lots", PackageResources.lock_old_lots_sql, parameters: 2)
    package static let lockUnreachableJobs = make(
        "lock_unreachable_jobs", PackageResources.lock_unreachable_jobs_sql, parameters: 2)
    package static let lookLots = make("look_lots", PackageResources.look_lots_sql, parameters: 4)
    package static let mendLots = make("mend_lots", PackageResources.mend_lots_sql, parameters: 2)
    package static let nextDue = make("next_due", PackageResources.next_due_sql)
    package static let removeOldLots = make("remove_old_lots", PackageResources.remove_old_lots_sql)
    package static let stretchWindows = make(
        "stretch_windows", PackageResources.stretch_windows_sql, parameters: 3)
}
