package import Postgres

/// Every SQL statement: one constant a file of `SQL/`. A test prepares each and compares the number of
/// parameters.
package enum Statements {
    package static let addDeliveries = make(
        "add_deliveries", PackageResources.add_deliveries_sql, parameters: 16)
    package static let addDependencies = make(
        "add_dependencies", PackageResources.add_dependencies_sql, parameters: 3)
    package static let addSessionReceivers = make(
        "add_session_receivers", PackageResources.add_session_receivers_sql, parameters: 7)
    package static let beginAudit = make("begin_audit", PackageResources.begin_audit_sql, parameters: 6)
    package static let changeDrain = make("change_drain", PackageResources.change_drain_sql, parameters: 2)
    package static let changePause = make("change_pause", PackageResources.change_pause_sql, parameters: 1)
    package static let answerJob = make("answer_job", PackageResources.answer_job_sql, parameters: 10)
    package static let askBegins = make("ask_begins", PackageResources.ask_begins_sql, parameters: 3)
    package static let askJobs = make("ask_jobs", PackageResources.ask_jobs_sql, parameters: 8)
    package static let changeSetting = make(
        "change_setting", PackageResources.change_setting_sql, parameters: 3)
    package static let claimDeliveries = make(
        "claim_deliveries", PackageResources.claim_deliveries_sql, parameters: 7)
    package static let checkLeases = make("check_leases", PackageResources.check_leases_sql, parameters: 2)
    package static let claimJobs = make("claim_jobs", PackageResources.claim_jobs_sql, parameters: 12)
    package static let claimLimitedJobs = make(
        "claim_limited_jobs", PackageResources.claim_limited_jobs_sql, parameters: 5)
    package static let countTenants = make("count_tenants", PackageResources.count_tenants_sql)
    package static let createKey = make("create_key", PackageResources.create_key_sql, parameters: 12)
    package static let deleteJob = make("delete_job", PackageResources.delete_job_sql, parameters: 2)
    package static let drainedSessions = make(
        "drained_sessions", PackageResources.drained_sessions_sql, parameters: 3)
    package static let drainSessions = make(
        "drain_sessions", PackageResources.drain_sessions_sql, parameters: 3)
    package static let dueDeadlines = make(
        "due_deadlines", PackageResources.due_deadlines_sql, parameters: 1)
    package static let divertJobs = make("divert_jobs", PackageResources.divert_jobs_sql, parameters: 3)
    package static let divertRunning = make(
        "divert_running", PackageResources.divert_running_sql, parameters: 2)
    package static let dueBegins = make("due_begins", PackageResources.due_begins_sql, parameters: 1)
    package static let dueQuestions = make(
        "due_questions", PackageResources.due_questions_sql, parameters: 1)
    package static let editJob = make("edit_job", PackageResources.edit_job_sql, parameters: 16)
    package static let endAudit = make("end_audit", PackageResources.end_audit_sql, parameters: 3)
    package static let expiredJobs = make("expired_jobs", PackageResources.expired_jobs_sql, parameters: 1)
    package static let findLots = make("find_lots", PackageResources.find_lots_sql, parameters: 5)
    package static let finishJobs = make("finish_jobs", PackageResources.finish_jobs_sql, parameters: 18)
    package static let flagDependencies = make(
        "flag_dependencies", PackageResources.flag_dependencies_sql, parameters: 2)
    package static let followEvents = make(
        "follow_events", PackageResources.follow_events_sql, parameters: 4)
    package static let foldCounts = make("fold_counts", PackageResources.fold_counts_sql, parameters: 1)
    package static let hasDependencyNews = make(
        "has_dependency_news", PackageResources.has_dependency_news_sql)
    package static let hasDueQuestions = make(
        "has_due_questions", PackageResources.has_due_questions_sql)
    package static let hasEvent = make("has_event", PackageResources.has_event_sql, parameters: 1)
    package static let hasEvents = make("has_events", PackageResources.has_events_sql, parameters: 2)
    package static let hasUnnumberedEvents = make(
        "has_unnumbered_events", PackageResources.has_unnumbered_events_sql, parameters: 2)
    package static let heartbeat = make("heartbeat", PackageResources.heartbeat_sql, parameters: 9)
    package static let heldJobs = make("held_jobs", PackageResources.held_jobs_sql, parameters: 1)
    package static let jobEvents = make("job_events", PackageResources.job_events_sql, parameters: 4)
    package static let judgeJobs = make("judge_jobs", PackageResources.judge_jobs_sql, parameters: 2)
    package static let keepEvents = make("keep_events", PackageResources.keep_events_sql, parameters: 10)
    package static let lastEvent = make("last_event", PackageResources.last_event_sql)
    package static let listAudit = make("list_audit", PackageResources.list_audit_sql, parameters: 2)
    package static let listEvents = make(
        "list_events", PackageResources.list_events_sql, parameters: 8)
    package static let listDeliveries = make(
        "list_deliveries", PackageResources.list_deliveries_sql, parameters: 8)
    package static let listJobs = make("list_jobs", PackageResources.list_jobs_sql, parameters: 15)
    package static let allKeys = make("all_keys", PackageResources.all_keys_sql)
    package static let listKeys = make("list_keys", PackageResources.list_keys_sql, parameters: 2)
    package static let readKey = make("read_key", PackageResources.read_key_sql, parameters: 1)
    package static let readFirstKey = make(
        "read_first_key", PackageResources.read_first_key_sql, parameters: 2)
    package static let lockDependents = make(
        "lock_dependents", PackageResources.lock_dependents_sql, parameters: 1)
    package static let lockHeartbeat = make(
        "lock_heartbeat", PackageResources.lock_heartbeat_sql, parameters: 1)
    package static let lockLots = make("lock_lots", PackageResources.lock_lots_sql, parameters: 1)
    package static let lockOldLots = make(
        "lock_old_lots", PackageResources.lock_old_lots_sql, parameters: 2)
    package static let lockRescue = make("lock_rescue", PackageResources.lock_rescue_sql, parameters: 1)
    package static let mendLots = make("mend_lots", PackageResources.mend_lots_sql, parameters: 2)
    package static let nextDeadline = make("next_deadline", PackageResources.next_deadline_sql)
    package static let lookLots = make("look_lots", PackageResources.look_lots_sql, parameters: 4)
    package static let nextDue = make("next_due", PackageResources.next_due_sql)
    package static let notify = make("notify", PackageResources.notify_sql, parameters: 1)
    package static let numberEvents = make(
        "number_events", PackageResources.number_events_sql, parameters: 5)
    package static let stretchWindows = make(
        "stretch_windows", PackageResources.stretch_windows_sql, parameters: 3)
    package static let promoteJobs = make("promote_jobs", PackageResources.promote_jobs_sql, parameters: 1)
    package static let putSetting = make("put_setting", PackageResources.put_setting_sql, parameters: 2)
    package static let readAttempts = make(
        "read_attempts", PackageResources.read_attempts_sql, parameters: 2)
    package static let readDelivery = make("read_delivery", PackageResources.read_delivery_sql, parameters: 2)
    package static let readHealth = make("read_health", PackageResources.read_health_sql)
    package static let readJobs = make("read_jobs", PackageResources.read_jobs_sql, parameters: 2)
    package static let readHeartbeats = make(
        "read_heartbeats", PackageResources.read_heartbeats_sql, parameters: 1)
    package static let readHostLimits = make(
        "read_host_limits", PackageResources.read_host_limits_sql, parameters: 2)
    package static let readKeys = make("read_keys", PackageResources.read_keys_sql, parameters: 3)
    package static let readNodes = make("read_nodes", PackageResources.read_nodes_sql)
    package static let readOperations = make(
        "read_operations", PackageResources.read_operations_sql, parameters: 2)
    package static let readPermits = make("read_permits", PackageResources.read_permits_sql, parameters: 5)
    package static let readSetting = make("read_setting", PackageResources.read_setting_sql, parameters: 1)
    package static let readStatus = make("read_status", PackageResources.read_status_sql, parameters: 3)
    package static let reclaimJobs = make("reclaim_jobs", PackageResources.reclaim_jobs_sql, parameters: 2)
    package static let recordTries = make("record_tries", PackageResources.record_tries_sql, parameters: 9)
    package static let redeliver = make("redeliver", PackageResources.redeliver_sql, parameters: 2)
    package static let releaseDependents = make(
        "release_dependents", PackageResources.release_dependents_sql, parameters: 1)
    package static let releaseJobs = make("release_jobs", PackageResources.release_jobs_sql, parameters: 7)
    package static let removeNode = make("remove_node", PackageResources.remove_node_sql, parameters: 1)
    package static let removeOldAudit = make(
        "remove_old_audit", PackageResources.remove_old_audit_sql, parameters: 2)
    package static let removeOldEvents = make(
        "remove_old_events", PackageResources.remove_old_events_sql, parameters: 2)
    package static let removeOldKeys = make(
        "remove_old_keys", PackageResources.remove_old_keys_sql, parameters: 2)
    package static let removeOldLots = make("remove_old_lots", PackageResources.remove_old_lots_sql)
    package static let requestCancel = make(
        "request_cancel", PackageResources.request_cancel_sql, parameters: 3)
    package static let requestSuspend = make(
        "request_suspend", PackageResources.request_suspend_sql, parameters: 2)
    package static let rescueJobs = make("rescue_jobs", PackageResources.rescue_jobs_sql, parameters: 5)
    package static let resolveDependencies = make(
        "resolve_dependencies", PackageResources.resolve_dependencies_sql, parameters: 2)
    package static let resumeJob = make("resume_job", PackageResources.resume_job_sql, parameters: 5)
    package static let sessionRoom = make("session_room", PackageResources.session_room_sql)
    package static let setShard = make("set_shard", PackageResources.set_shard_sql, parameters: 1)
    package static let retryJobs = make("retry_jobs", PackageResources.retry_jobs_sql, parameters: 9)
    package static let revokeKey = make("revoke_key", PackageResources.revoke_key_sql, parameters: 1)
    package static let submitJobs = make("submit_jobs", PackageResources.submit_jobs_sql, parameters: 28)
    package static let submitKeyedJobs = make(
        "submit_keyed_jobs", PackageResources.submit_keyed_jobs_sql, parameters: 32)
    package static let suspendJob = make("suspend_job", PackageResources.suspend_job_sql, parameters: 2)
    package static let suspendJobs = make("suspend_jobs", PackageResources.suspend_jobs_sql, parameters: 5)
    static let putBackEvents = make(
        "put_back_events", PackageResources.put_back_events_sql, parameters: 4)
    static let rejectEvents = make("reject_events", PackageResources.reject_events_sql, parameters: 3)
    package static let takeEvents = make("take_events", PackageResources.take_events_sql, parameters: 5)
    package static let takeSessionReceivers = make(
        "take_session_receivers", PackageResources.take_session_receivers_sql, parameters: 6)
    package static let tellJobs = make("tell_jobs", PackageResources.tell_jobs_sql, parameters: 3)
    package static let tryLock = make("try_lock", PackageResources.try_lock_sql, parameters: 1)

    /// All of them, for the test.
    package static let all = general + ofSessions + ofHistory + ofAcknowledgements + webhooks

    private static let general =
        [
            addDeliveries, addSessionReceivers, drainedSessions, drainSessions, hasEvent, hasEvents,
            hasUnnumberedEvents, keepEvents,
            addDependencies, answerJob, askBegins, askJobs, dueBegins, dueQuestions, flagDependencies,
            followEvents, hasDueQuestions,
            hasDependencyNews, jobEvents, sessionRoom, lastEvent, listEvents, lockDependents, numberEvents,
            putBackEvents, rejectEvents, releaseDependents, removeOldEvents, takeEvents, takeSessionReceivers,
            resolveDependencies,
            beginAudit, changeDrain, changePause, changeSetting, checkLeases, claimDeliveries, claimJobs,
            claimLimitedJobs,
            countTenants, createKey, deleteJob, divertJobs, divertRunning, dueDeadlines, editJob, endAudit,
            expiredJobs, findLots, finishJobs, listAudit, readOperations, removeOldAudit,
            foldCounts,
            heartbeat,
            heldJobs, judgeJobs, listDeliveries, listJobs, allKeys, listKeys, readKey, readFirstKey,
            lockHeartbeat, lockLots, lockOldLots,
            lockRescue, lookLots, mendLots, nextDeadline,
            nextDue,
            notify, promoteJobs, stretchWindows,
            putSetting, readAttempts, readDelivery, readHealth, readHeartbeats, readHostLimits, readJobs,
            readKeys,
            readNodes,
            readPermits,
            readSetting,
            readStatus, reclaimJobs, recordTries, redeliver, releaseJobs, removeNode,
            removeOldKeys,
            removeOldLots, setShard,
            requestCancel, requestSuspend, rescueJobs, resumeJob, retryJobs, revokeKey, submitJobs,
            submitKeyedJobs, suspendJob, suspendJobs, tellJobs, tryLock,
        ] + ofHosts

    // Hosts.
    package static let awaitConnectivity = make(
        "await_connectivity", PackageResources.await_connectivity_sql, parameters: 8)
    package static let grantConnections = make(
        "grant_connections", PackageResources.grant_connections_sql, parameters: 6)
    package static let sweepConnections = make(
        "sweep_connections", PackageResources.sweep_connections_sql, parameters: 1)
    package static let writeConnections = make(
        "write_connections", PackageResources.write_connections_sql, parameters: 7)
    package static let awaitHosts = make("await_hosts", PackageResources.await_hosts_sql, parameters: 4)
    package static let createHosts = make("create_hosts", PackageResources.create_hosts_sql, parameters: 2)
    package static let forgetHosts = make("forget_hosts", PackageResources.forget_hosts_sql, parameters: 1)
    package static let keepDecisions = make(
        "keep_decisions", PackageResources.keep_decisions_sql, parameters: 3)
    package static let listHosts = make("list_hosts", PackageResources.list_hosts_sql, parameters: 3)
    package static let loadHosts = make("load_hosts", PackageResources.load_hosts_sql, parameters: 1)
    package static let lockHosts = make("lock_hosts", PackageResources.lock_hosts_sql, parameters: 4)
    package static let readHost = make("read_host", PackageResources.read_host_sql, parameters: 2)
    package static let releaseWaiting = make(
        "release_waiting", PackageResources.release_waiting_sql, parameters: 2)
    package static let saveHosts = make("save_hosts", PackageResources.save_hosts_sql, parameters: 6)
    package static let saveHostLimits = make(
        "save_host_limits", PackageResources.save_host_limits_sql, parameters: 7)
    package static let strandedHosts = make(
        "stranded_hosts", PackageResources.stranded_hosts_sql, parameters: 1)

    private static let ofHosts = [
        awaitConnectivity, awaitHosts, grantConnections, sweepConnections, writeConnections, createHosts,
        forgetHosts, keepDecisions, listHosts, loadHosts,
        lockHosts, readHost, releaseWaiting, saveHosts, saveHostLimits, strandedHosts,
        advanceSchedules, createSchedule, deleteSchedule, dueSchedules, insertRuns, listSchedules,
        dropLocks, holdLock, nextSchedule, noteRun, readSchedule, replaceSchedule, sweepRuns, deferJobs,
        discretionaryJobs, putThroughputs, readThroughputs, removeOldThroughputs, postponeSchedule,
        setSetting, startJobs, unfinishedRuns,
    ]

    static func make(
        _ name: String, _ sql: [UInt8], parameters: Int = 0, isPlannedAnew: Bool = false
    ) -> Statement {
        Statement(
            name, String(decoding: sql, as: UTF8.self), parameters: parameters, isPlannedAnew: isPlannedAnew)
    }
}
