package import Postgres

extension Statements {
    package static let advanceSchedules = make(
        "advance_schedules", PackageResources.advance_schedules_sql, parameters: 10)
    package static let createSchedule = make(
        "create_schedule", PackageResources.create_schedule_sql, parameters: 18)
    package static let deleteSchedule = make(
        "delete_schedule", PackageResources.delete_schedule_sql, parameters: 3)
    package static let dropLocks = make("drop_locks", PackageResources.drop_locks_sql)
    package static let dueSchedules = make("due_schedules", PackageResources.due_schedules_sql, parameters: 3)
    package static let holdLock = make("hold_lock", PackageResources.hold_lock_sql, parameters: 1)
    package static let insertRuns = make("insert_runs", PackageResources.insert_runs_sql, parameters: 4)
    package static let listSchedules = make(
        "list_schedules", PackageResources.list_schedules_sql, parameters: 3)
    package static let lockSchedule = make(
        "lock_schedule", PackageResources.lock_schedule_sql, parameters: 1)
    package static let nextSchedule = make("next_schedule", PackageResources.next_schedule_sql)
    package static let noteRun = make("note_run", PackageResources.note_run_sql, parameters: 3)
    package static let postponeSchedule = make(
        "postpone_schedule", PackageResources.postpone_schedule_sql, parameters: 2)
    package static let readSchedule = make("read_schedule", PackageResources.read_schedule_sql, parameters: 2)
    package static let replaceSchedule = make(
        "replace_schedule", PackageResources.replace_schedule_sql, parameters: 14)
    package static let sweepRuns = make("sweep_runs", PackageResources.sweep_runs_sql, parameters: 2)
    package static let unfinishedRuns = make(
        "unfinished_runs", PackageResources.unfinished_runs_sql, parameters: 2)
}
