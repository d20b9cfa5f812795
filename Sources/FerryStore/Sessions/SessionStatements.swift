package import Postgres

extension Statements {
    package static let cancelSessions = make(
        "cancel_sessions", PackageResources.cancel_sessions_sql, parameters: 1)
    package static let changedSessions = make(
        "changed_sessions", PackageResources.changed_sessions_sql, parameters: 1)
    package static let countDefaultJobs = make(
        "count_default_jobs", PackageResources.count_default_jobs_sql, parameters: 2)
    package static let countSessionJobs = make(
        "count_session_jobs", PackageResources.count_session_jobs_sql, parameters: 3)
    package static let countSessions = make(
        "count_sessions", PackageResources.count_sessions_sql, parameters: 1)
    package static let deleteSession = make(
        "delete_session", PackageResources.delete_session_sql, parameters: 3)
    package static let drainSessions = make(
        "drain_sessions", PackageResources.drain_sessions_sql, parameters: 4)
    package static let drainedSessions = make(
        "drained_sessions", PackageResources.drained_sessions_sql, parameters: 3)
    package static let endSessions = make("end_sessions", PackageResources.end_sessions_sql, parameters: 2)
    package static let flushSession = make(
        "flush_session", PackageResources.flush_session_sql, parameters: 3)
    package static let invalidateSession = make(
        "invalidate_session", PackageResources.invalidate_session_sql, parameters: 6)
    package static let listSessions = make("list_sessions", PackageResources.list_sessions_sql, parameters: 3)
    package static let lockSessionEpoch = make("lock_session_epoch", PackageResources.lock_session_epoch_sql)
    package static let putSession = make("put_session", PackageResources.put_session_sql, parameters: 7)
    package static let readSession = make("read_session", PackageResources.read_session_sql, parameters: 2)
    package static let readSessionEpoch = make("read_session_epoch", PackageResources.read_session_epoch_sql)
}
