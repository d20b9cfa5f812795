/// Reason for which a job waits, as a stable code; the table is in `docs/scheduling.md`.
public enum WaitingReasonCode: String, ShownChoice {
    case beginDate = "begin_date"
    case retryBackoff = "retry_backoff"
    case redirectDelay = "redirect_delay"
    case dependency, confirmation, challenge, redirect, connectivity, discretionary
    case urlExpired = "url_expired"
    case hostBackoff = "host_backoff"
    case hostPaused = "host_paused"
    case hostLimit = "host_limit"
    case hostRate = "host_rate"
    case sessionLimit = "session_limit"
    case storageLow = "storage_low"
    case storageUnavailable = "storage_unavailable"
    case tenantQuota = "tenant_quota"
    case noFreeSlot = "no_free_slot"
    case paused, suspended
    case noWorker = "no_worker"
    case homeNode = "home_node"
}
