package import Postgres

extension Statements {
    package static let followEvents = make("follow_events", PackageResources.follow_events_sql, parameters: 4)
    package static let hasEvent = make("has_event", PackageResources.has_event_sql, parameters: 1)
    package static let hasEvents = make("has_events", PackageResources.has_events_sql, parameters: 2)
    package static let hasUnnumberedEvents = make(
        "has_unnumbered_events", PackageResources.has_unnumbered_events_sql, parameters: 2)
    package static let jobEvents = make("job_events", PackageResources.job_events_sql, parameters: 4)
    package static let keepEvents = make("keep_events", PackageResources.keep_events_sql, parameters: 11)
    package static let lastEvent = make("last_event", PackageResources.last_event_sql)
    package static let listEvents = make("list_events", PackageResources.list_events_sql, parameters: 8)
    package static let numberEvents = make("number_events", PackageResources.number_events_sql, parameters: 6)
    package static let putBackEvents = make(
        "put_back_events", PackageResources.put_back_events_sql, parameters: 5)
    package static let rejectEvents = make("reject_events", PackageResources.reject_events_sql, parameters: 3)
    package static let removeOldEvents = make(
        "remove_old_events", PackageResources.remove_old_events_sql, parameters: 2)
    package static let takeEvents = make("take_events", PackageResources.take_events_sql, parameters: 5)
    package static let tryLockRelay = make(
        "try_lock_relay", PackageResources.try_lock_relay_sql, parameters: 1)
    package static let readJobGroups = make(
        "read_job_groups", PackageResources.read_job_groups_sql, parameters: 1)
    package static let finishJobGroups = make(
        "finish_job_groups", PackageResources.finish_job_groups_sql, parameters: 2)
}
