package import Postgres

extension Statements {
    package static let claimJobs = make("claim_jobs", PackageResources.claim_jobs_sql, parameters: 12)
    package static let claimLimitedJobs = make(
        "claim_limited_jobs", PackageResources.claim_limited_jobs_sql, parameters: 5)
    package static let divertJobs = make("divert_jobs", PackageResources.divert_jobs_sql, parameters: 3)
    package static let divertRunning = make(
        "divert_running", PackageResources.divert_running_sql, parameters: 2)
    package static let findClaimQueues = make(
        "find_claim_queues", PackageResources.find_claim_queues_sql, parameters: 5)
    package static let heldJobs = make("held_jobs", PackageResources.held_jobs_sql, parameters: 1)
    package static let lockDueJobs = make("lock_due_jobs", PackageResources.lock_due_jobs_sql, parameters: 1)
    package static let lockClaimQueues = make(
        "lock_claim_queues", PackageResources.lock_claim_queues_sql, parameters: 1)
    package static let lockOldClaimQueues = make(
        "lock_old_claim_queues", PackageResources.lock_old_claim_queues_sql, parameters: 2)
    package static let lockUnreachableJobs = make(
        "lock_unreachable_jobs", PackageResources.lock_unreachable_jobs_sql, parameters: 2)
    package static let scanClaimQueues = make(
        "scan_claim_queues", PackageResources.scan_claim_queues_sql, parameters: 4)
    package static let restoreClaimQueues = make(
        "restore_claim_queues", PackageResources.restore_claim_queues_sql, parameters: 2)
    package static let nextDue = make("next_due", PackageResources.next_due_sql)
    package static let removeOldClaimQueues = make(
        "remove_old_claim_queues", PackageResources.remove_old_claim_queues_sql)
    package static let readClaimBounds = make(
        "read_claim_bounds", PackageResources.read_claim_bounds_sql, parameters: 3)
}
