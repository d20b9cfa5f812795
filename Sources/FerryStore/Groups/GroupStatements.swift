package import Postgres

extension Statements {
    package static let createJobGroup = make(
        "create_job_group", PackageResources.create_job_group_sql, parameters: 11)
    package static let listJobGroups = make(
        "list_job_groups", PackageResources.list_job_groups_sql, parameters: 3)
    package static let readJobGroup = make(
        "read_job_group", PackageResources.read_job_group_sql, parameters: 2)
    package static let lockJobGroup = make(
        "lock_job_group", PackageResources.lock_job_group_sql, parameters: 2)
    package static let closeJobGroup = make(
        "close_job_group", PackageResources.close_job_group_sql, parameters: 3)
    package static let deleteJobGroup = make(
        "delete_job_group", PackageResources.delete_job_group_sql, parameters: 2)
    package static let awaitedJobGroups = make(
        "awaited_job_groups", PackageResources.awaited_job_groups_sql, parameters: 2)
    package static let removeOldJobGroups = make(
        "remove_old_job_groups", PackageResources.remove_old_job_groups_sql, parameters: 2)
}
